// Several models behind one service, with the memory of a made-up machine.
#include "server/service/models.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>

#include "tests/server/service/service_fixture.h"
#include "tests/support/refused.h"

namespace heddle::server {
namespace {

using test::Recorded;

// Token n + step follows token n, so that an answer tells which model it is from.
class StepBackend : public test::CountingBackend {
 public:
  explicit StepBackend(uint32_t step) : step_(step) {}
  model::Result result() override {
    const model::Result one = CountingBackend::result();
    logits_.assign(one.logits.size(), 0);
    for (size_t i = 0; i < one.logits.size(); ++i)
      if (one.logits[i] > 0) {
        const size_t row = i / test::counting_vocabulary, token = i % test::counting_vocabulary;
        logits_[row * test::counting_vocabulary + (token + step_ - 1) % test::counting_vocabulary] = 50;
      }
    return {{}, logits_, one.states};
  }

 private:
  const uint32_t step_;
  std::vector<float> logits_;
};

// What is in memory, and what may be.
struct Machine {
  uint64_t bytes = 100;
  std::atomic<uint64_t> used = 0, peak = 0, models = 0, max_models = 0;

  void take(uint64_t size) {
    peak = std::max<uint64_t>(peak, used += size);
    max_models = std::max<uint64_t>(max_models, ++models);
  }
  void give_back(uint64_t size) {
    used -= size;
    --models;
  }
};

struct StepModel : LoadedModel {
  StepModel(Machine& machine, const text::Tokenizer& tokenizer, std::string name, uint32_t step, uint64_t bytes,
            std::function<void()> each_batch)
      : machine(machine), tokenizer(tokenizer), name(std::move(name)), bytes(bytes), backend(step) {
    machine.take(bytes);
    backend.each_batch = std::move(each_batch);
    engine.emplace(model, backend, model::Limits{.rows = 64, .kv_blocks = 256}, engine::EngineOptions());
    thread.emplace(*engine);
  }
  ~StepModel() override {
    thread.reset();
    machine.give_back(bytes);
  }
  Served served() override {
    return {.card = {.name = name,
                     .chat_template = test::counting_template,
                     .context = model.context,
                     .vocabulary = test::counting_vocabulary,
                     .width = test::counting_width,
                     .facts = {.memory = bytes}},
            .tokenizer = tokenizer,
            .engine = *thread};
  }

  Machine& machine;
  const text::Tokenizer& tokenizer;
  const std::string name;
  const uint64_t bytes;
  model::Model model = test::counting_model(200);
  StepBackend backend;
  std::optional<engine::Engine> engine;
  std::optional<engine::EngineThread> thread;
};

class ServedModels : public testing::Test {
 protected:
  struct Behaviour {
    uint32_t step = 1;
    uint64_t bytes = 10;
    std::string failure = {};                  // instead of loading
    std::function<void()> while_loading = {};  // may wait
    std::function<void()> each_batch = {};
    std::atomic<int> loads = 0;
  };

  void start(const std::vector<std::string>& names, ModelsOptions options = {}, bool any_model = false) {
    options.say = [this](std::string line) {
      const std::lock_guard lock(mutex_);
      said_.push_back(std::move(line));
    };
    fixture.emplace(ServiceOptions{.any_model = any_model, .models = options});
    std::vector<Loadable> all;
    for (const std::string& name : names) {
      Behaviour& how = behaviour[name];
      how.step = uint32_t(all.size() + 1);
      all.push_back(
          {.card = {.name = name, .chat_template = test::counting_template, .context = 200},
           .names = {"also-" + name},
           .load = [this, name, &how](const std::vector<ModelFacts>& loaded) { return load(name, how, loaded); }});
    }
    fixture->service->serve(std::move(all));
  }

  std::unique_ptr<LoadedModel> load(const std::string& name, Behaviour& how, const std::vector<ModelFacts>& loaded) {
    ++how.loads;
    if (how.while_loading) how.while_loading();
    uint64_t used = 0;
    for (const ModelFacts& one : loaded) used += one.memory;
    EXPECT_EQ(used, machine.used) << "what the others have";
    if (used + how.bytes > machine.bytes) {
      if (loaded.empty()) throw Error("{} is too large", name);
      throw NoRoom("{} needs {}, {} are free", name, how.bytes, machine.bytes - used);
    }
    if (!how.failure.empty()) throw Error("{}", how.failure);
    return std::make_unique<StepModel>(machine, fixture->tokenizer, name, how.step, how.bytes, how.each_batch);
  }

  static std::string body(const std::string& model, const std::string& more = R"("max_tokens":3)") {
    return R"({"prompt":[5],)" + (model.empty() ? "" : R"("model":")" + model + "\",") + more + "}";
  }
  Recorded begin(const std::string& model) { return fixture->begin("POST", "/v1/completions", body(model)); }
  Recorded complete(const std::string& model) { return fixture->post("/v1/completions", body(model)); }
  // The text that the model of this step generates after token 5.
  std::string expected(uint32_t step) const {
    return fixture->tokenizer.decode(std::vector<text::TokenId>{5 + step, 5 + 2 * step, 5 + 3 * step});
  }
  void expect_answer(const Recorded& recorded, uint32_t step) const {
    ASSERT_EQ(recorded.status(), 200) << recorded.response().body;
    EXPECT_EQ(test::text_of(recorded.json()), expected(step));
  }
  Json models() { return fixture->get("/v1/models").json().at("data"); }
  std::string status(const std::string& name) {
    return fixture->get("/v1/models/" + name).json().at("status").at("value").get<std::string>();
  }
  bool becomes(const std::string& name, const std::string& what) {
    for (int i = 0; i < 5000 && status(name) != what; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return status(name) == what;
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

  Machine machine;
  std::map<std::string, Behaviour> behaviour;
  std::mutex mutex_;
  std::vector<std::string> said_;
  std::optional<test::ServiceFixture> fixture;
};

TEST_F(ServedModels, AreLoadedWhenRequestsNeedThem) {
  start({"a", "b"});
  EXPECT_EQ(fixture->get("/health/ready").status(), 200);
  EXPECT_EQ(status("a"), "unloaded");
  EXPECT_EQ(fixture->get("/api/ps").json().at("models").size(), 0);
  EXPECT_EQ(fixture->get("/api/tags").json().at("models").size(), 2);
  expect_answer(complete("b"), 2);
  EXPECT_EQ(status("a"), "unloaded");
  EXPECT_EQ(status("b"), "loaded");
  EXPECT_EQ(fixture->get("/api/ps").json().at("models").at(0).at("model"), "b:latest");
  expect_answer(complete("a"), 1);
  expect_answer(complete("b"), 2);
  EXPECT_EQ(behaviour["a"].loads, 1);
  EXPECT_EQ(behaviour["b"].loads, 1);
  EXPECT_EQ(fixture->last_log().at("model"), "b");
  std::string metrics;  // the engine publishes them after the step in which a completion ends
  const char* const last = "heddle_generated_tokens_total{model=\"b\"} 6\n";
  for (int i = 0; i < 2000 && metrics.find(last) == metrics.npos; ++i) metrics = fixture->get("/metrics").text();
  test::expect_says(metrics, {"heddle_model_loaded{model=\"b\"} 1\n", "heddle_model_loads_total{model=\"a\"} 1\n",
                              "heddle_generated_tokens_total{model=\"a\"} 3\n", last});
  EXPECT_EQ(metrics.find("# TYPE heddle_generated_tokens_total"),
            metrics.rfind("# TYPE heddle_generated_tokens_total"));
}

TEST_F(ServedModels, AreFoundByTheirNames) {
  start({"a", "b"});
  expect_answer(complete("also-b"), 2);
  expect_answer(complete("b:latest"), 2);
  EXPECT_EQ(complete("b:1b").status(), 404);
  expect_answer(complete(""), 1);  // the first
  test::expect_says(complete("c").response().body, {"\\\"c\\\" does not exist", "\\\"a\\\", \\\"b\\\""});
  EXPECT_EQ(complete("c").status(), 404);
  EXPECT_EQ(fixture->get("/v1/models/c").status(), 404);
  EXPECT_EQ(fixture->post("/api/show", R"({"model":"b"})").json().at("model_info").at("general.basename"), "b");
  EXPECT_EQ(fixture->post("/api/show", R"({"model":"c"})").status(), 404);
  EXPECT_EQ(fixture->post("/v1/completions", R"({"prompt":[5],"model":7})").status(), 400);
  EXPECT_EQ(fixture->post("/v1/completions", R"({"prompt":[5],)").status(), 400);
  EXPECT_EQ(fixture->get("/props?model=b").json().at("model_alias"), "b");
  EXPECT_EQ(fixture->get("/v1/effective-config?model=b").json().at("model").at("id"), "b");
}

TEST_F(ServedModels, AnyNameMeansTheFirst) {
  start({"a", "b"}, {}, true);
  expect_answer(complete("gpt-4o"), 1);
  expect_answer(complete("b"), 2);
  EXPECT_EQ(status("b"), "loaded");
}

TEST_F(ServedModels, NotLoadedOnesAreDescribedWithoutLoading) {
  start({"a", "b"});
  EXPECT_EQ(fixture->get("/props?model=a").status(), 503);
  EXPECT_EQ(fixture->get("/v1/effective-config").json().at("measured"), Json());
  EXPECT_EQ(fixture->post("/api/show", R"({"model":"a"})").json().at("capabilities"),
            Json({"completion", "embedding"}));
  EXPECT_EQ(models().size(), 2);
  EXPECT_EQ(behaviour["a"].loads, 0);
}

TEST_F(ServedModels, TheLongestIdleIsPutAwayForOneMore) {
  machine.bytes = 25;  // for two
  start({"a", "b", "c"});
  for (const char* name : {"a", "b", "a", "c"}) {
    EXPECT_EQ(complete(name).status(), 200);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // a request has its model until after the response
  }
  EXPECT_EQ(status("a"), "loaded");
  EXPECT_EQ(status("b"), "unloaded");
  EXPECT_EQ(status("c"), "loaded");
  EXPECT_LE(machine.peak, 25);
  expect_answer(complete("b"), 2);
  EXPECT_EQ(status("a"), "unloaded");
}

TEST_F(ServedModels, SeveralArePutAwayForALargeOne) {
  machine.bytes = 30;
  behaviour["large"].bytes = 25;
  start({"a", "b", "c", "large"});
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(complete(name).status(), 200);
  EXPECT_EQ(machine.models, 3);
  expect_answer(complete("large"), 4);
  EXPECT_EQ(machine.models, 1);
  EXPECT_LE(machine.peak, 30);
}

TEST_F(ServedModels, TakeTurnsUnderLoadWithMemoryForOne) {
  machine.bytes = 15;
  start({"a", "b"});
  constexpr int clients = 6, requests = 15;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int client = 0; client < clients; ++client)
    threads.emplace_back([&, client] {
      for (int i = 0; i < requests; ++i) {
        const bool second = (client + i) % 2;
        const Recorded recorded = begin(second ? "b" : "a");
        if (!recorded.wait_for_end() || recorded.status() != 200) continue;
        right += test::text_of(recorded.json()) == expected(second ? 2 : 1);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, clients * requests);
  EXPECT_EQ(machine.max_models, 1);
  EXPECT_LE(machine.peak, 15);
}

TEST_F(ServedModels, OneAtATimeByNumber) {
  start({"a", "b"}, {.max_loaded = 1});
  for (const auto& [name, step] : {std::pair("a", 1u), {"b", 2u}, {"a", 1u}}) expect_answer(complete(name), step);
  EXPECT_EQ(machine.max_models, 1);
  EXPECT_EQ(behaviour["a"].loads, 2);
}

TEST_F(ServedModels, ABusyOneFinishesItsRequestsAndGetsNoMore) {
  std::promise<void> held;
  behaviour["a"].each_batch = [future = held.get_future().share()] { future.wait(); };
  start({"a", "b"}, {.max_loaded = 1});
  const Recorded first = begin("a");
  ASSERT_TRUE(becomes("a", "loaded"));
  const Recorded other = begin("b");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(other.ended());
  const Recorded later = begin("a");  // waits until b had its turn
  held.set_value();
  for (const Recorded& one : {first, other, later}) ASSERT_TRUE(one.wait_for_end());
  expect_answer(first, 1);
  expect_answer(other, 2);
  expect_answer(later, 1);
  EXPECT_EQ(machine.max_models, 1);
  EXPECT_EQ(behaviour["a"].loads, 2);
}

TEST_F(ServedModels, OneThatFailsHarmsNoOther) {
  machine.bytes = 25;
  behaviour["bad"].failure = "the file is broken";
  behaviour["huge"].bytes = 1000;
  start({"a", "bad", "huge"});
  expect_answer(complete("a"), 1);
  const Recorded refused = complete("bad");
  EXPECT_EQ(refused.status(), 503);
  test::expect_says(refused.response().body,
                    {"\\\"bad\\\" could not be loaded: the file is broken", "model_not_loaded"});
  EXPECT_EQ(complete("bad").status(), 503);
  EXPECT_EQ(behaviour["bad"].loads, 1) << "it is not tried again at once";
  EXPECT_EQ(status("bad"), "failed");
  EXPECT_EQ(fixture->get("/v1/models/bad").json().at("status").at("error"), "the file is broken");
  EXPECT_EQ(behaviour["a"].loads, 1) << "and was not unloaded";
  test::expect_says(complete("huge").response().body, {"huge is too large"});
  expect_answer(complete("a"), 1);
  EXPECT_EQ(fixture->get("/health/ready").status(), 200);
}

TEST_F(ServedModels, RequestsWaitNoLongerThanTheyMay) {
  std::promise<void> held;
  behaviour["a"].while_loading = [future = held.get_future().share()] { future.wait(); };
  start({"a", "b"}, {.load_seconds = 0.2});
  const Recorded late = begin("a"), behind = begin("b");
  ASSERT_TRUE(late.wait_for_end());
  ASSERT_TRUE(behind.wait_for_end());
  EXPECT_EQ(late.status(), 503);
  EXPECT_EQ(behind.status(), 503);
  EXPECT_EQ(late.header("Retry-After"), "5");
  test::expect_says(late.response().body, {"\\\"a\\\" was not loaded within 0 s"});
  EXPECT_EQ(status("a"), "loading");
  held.set_value();
  EXPECT_TRUE(becomes("a", "loaded"));
  expect_answer(complete("a"), 1);
}

TEST_F(ServedModels, AClientThatGoesAwayWaitsNoLonger) {
  std::promise<void> held;
  behaviour["a"].while_loading = [future = held.get_future().share()] { future.wait(); };
  start({"a"});
  Recorded gone = begin("a");
  ASSERT_TRUE(becomes("a", "loading"));
  gone.disconnect();
  EXPECT_TRUE(fixture->wait_until_in_progress(0));
  EXPECT_EQ(fixture->last_log().at("status"), 499);
  held.set_value();
}

TEST_F(ServedModels, NotTooManyWait) {
  std::promise<void> held;
  behaviour["a"].while_loading = [future = held.get_future().share()] { future.wait(); };
  start({"a"}, {.max_waiting = 2});
  const Recorded first = begin("a"), second = begin("a"), third = begin("a");
  ASSERT_TRUE(third.wait_for_end());
  EXPECT_EQ(third.status(), 429);
  held.set_value();
  ASSERT_TRUE(first.wait_for_end());
  ASSERT_TRUE(second.wait_for_end());
  expect_answer(first, 1);
  expect_answer(second, 1);
}

TEST_F(ServedModels, AShutdownEndsThoseThatWait) {
  std::promise<void> held;
  behaviour["a"].while_loading = [future = held.get_future().share()] { future.wait(); };
  start({"a"});
  const Recorded waiting = begin("a");
  ASSERT_TRUE(becomes("a", "loading"));
  fixture->service->cancel_all();
  ASSERT_TRUE(waiting.wait_for_end());
  EXPECT_EQ(waiting.status(), 503);
  held.set_value();
  fixture->service.reset();
  EXPECT_EQ(machine.models, 0);
}

TEST_F(ServedModels, ArePutAwayAfterTheirTime) {
  start({"a", "b"}, {.keep_alive = 0.1});
  expect_answer(complete("a"), 1);
  EXPECT_TRUE(becomes("a", "unloaded"));  // although lists ask about it
  EXPECT_EQ(machine.models, 0);
  expect_answer(complete("a"), 1);
  EXPECT_EQ(behaviour["a"].loads, 2);
}

TEST_F(ServedModels, OllamaSaysHowLongOneIsKept) {
  start({"a", "b"});
  const auto chat = [&](const std::string& model, const std::string& keep) {
    return fixture->post("/api/chat", R"({"model":")" + model + R"(","messages":[],"keep_alive":)" + keep + "}").json();
  };
  EXPECT_EQ(chat("a", "\"1h\"").at("done_reason"), "load");
  const std::string expires = fixture->get("/api/ps").json().at("models").at(0).at("expires_at").get<std::string>();
  EXPECT_LT(expires, "2200");
  EXPECT_EQ(chat("a", "-1").at("done_reason"), "load");
  EXPECT_EQ(fixture->get("/api/ps").json().at("models").at(0).at("expires_at"), "2200-01-01T00:00:00Z");
  EXPECT_EQ(chat("a", "0").at("done_reason"), "unload");
  EXPECT_TRUE(becomes("a", "unloaded"));
  EXPECT_EQ(fixture->post("/api/chat", R"({"model":"a","messages":[],"keep_alive":"soon"})").status(), 400);
}

TEST_F(ServedModels, AreLoadedAndPutAwayOnDemand) {
  start({"a", "b"});
  EXPECT_EQ(fixture->post("/models/load", R"({"model":"b"})").json().at("success"), true);
  EXPECT_TRUE(becomes("b", "loaded"));
  EXPECT_EQ(fixture->post("/models/unload", R"({"model":"b"})").json().at("success"), true);
  EXPECT_TRUE(becomes("b", "unloaded"));
  EXPECT_EQ(said(), (std::vector<std::string>{"loading b", "loaded b after " + said().at(1).substr(15, 4) + " s, 10 B",
                                              "unloaded b: no request for 0 s"}));
  EXPECT_EQ(fixture->post("/models/load", R"({"model":"b"})").status(), 200);
  EXPECT_TRUE(becomes("b", "loaded"));
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_EQ(status("b"), "loaded") << "it was asked for again";
  EXPECT_EQ(fixture->post("/models/load", R"({"model":"c"})").status(), 404);
  EXPECT_EQ(fixture->post("/models/load", "{}").status(), 400);
}

TEST(OneModel, StaysLoaded) {
  test::ServiceFixture fixture;
  EXPECT_EQ(fixture.get("/v1/models").status(), 503);
  fixture.serve();
  EXPECT_EQ(fixture.get("/v1/models").json().at("data").at(0).at("status").at("value"), "loaded");
  EXPECT_EQ(fixture.post("/models/unload", R"({"model":"count/er"})").status(), 400);
}

}  // namespace
}  // namespace heddle::server
