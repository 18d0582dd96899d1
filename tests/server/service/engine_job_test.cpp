// Requests that the engine refuses, that fail in it, and that are left by their clients.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "tests/server/service/service_fixture.h"
#include "tests/support/refused.h"

namespace heddle::server {
namespace {

using test::Recorded;
using test::ServiceFixture;

// A batch that was begun is completed, however many other requests come meanwhile.
TEST(ServiceBusy, CompletesABatchThatItBegan) {
  ServiceFixture fixture({}, {.max_waiting = 1});
  fixture.serve();
  fixture.backend.each_batch = [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); };
  std::atomic<bool> ended = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i)
    others.emplace_back([&] {
      while (!ended) {
        const Recorded one = fixture.begin("POST", "/v1/completions", R"({"prompt":"a","max_tokens":1})");
        EXPECT_TRUE(one.wait_for_end());
      }
    });
  std::string prompts = "\"1\"";
  for (int i = 0; i < 40; ++i) prompts += ",\"1\"";
  int taken = 0;
  for (const auto start = Clock::now(); taken < 3 && seconds_since(start) < 20;) {
    const Recorded batch = fixture.begin("POST", "/v1/completions", R"({"max_tokens":2,"prompt":[)" + prompts + "]}");
    ASSERT_TRUE(batch.wait_for_end());
    if (batch.status() == 429) {  // at once, and nothing was generated
      EXPECT_EQ(batch.json().at("error").at("code"), "rate_limit_exceeded");
      continue;
    }
    ASSERT_EQ(batch.status(), 200) << batch.response().body;
    EXPECT_EQ(batch.json().at("choices").size(), 41);
    ++taken;
  }
  ended = true;
  for (std::thread& other : others) other.join();
  EXPECT_GT(taken, 0);
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
  for (const Json& line : fixture.log()) {
    if (line.at("status") == 200) continue;
    EXPECT_EQ(line.value("completion_tokens", 0), 0) << "no token was generated for a request that failed";
  }
}

// Texts of one token: those of two batches of 64 rows are in the engine at a time. What the client asks meanwhile in
// another request is not refused, and is computed before most of them.
TEST(ServiceTexts, OfOneRequestFillBatches) {
  ServiceFixture fixture({}, {.max_stall = INFINITY, .max_waiting = 130});
  fixture.serve();
  fixture.hold_steps();
  Json inputs = Json::array();
  for (uint32_t i = 0; i < 1500; ++i) inputs.push_back({i % 99});
  const Recorded many = fixture.begin("POST", "/v1/embeddings", Json{{"input", inputs}}.dump());
  const auto in_engine = [&] {
    const engine::Metrics metrics = fixture.thread->metrics();
    return metrics.waiting + metrics.running;
  };
  for (int i = 0; i < 10'000 && in_engine() < 128; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(in_engine(), 128u);
  const Recorded one = fixture.begin("POST", "/v1/embeddings", R"({"input":[[99]]})");
  fixture.release_steps();
  ASSERT_TRUE(one.wait_for_end());
  EXPECT_EQ(one.status(), 200u);
  ASSERT_TRUE(many.wait_for_end());
  const Json all = many.json();
  ASSERT_EQ(all.at("data").size(), 1500u);
  for (size_t i = 0; i < 1500; ++i) EXPECT_EQ(all["data"][i]["embedding"][i % 99 % test::counting_width], 1) << i;
  const std::vector<std::vector<uint32_t>> batches = fixture.backend.batches();
  EXPECT_EQ(batches.at(1).size(), 64u);  // the first may have begun before the others came
  const auto has_one = [](const std::vector<uint32_t>& batch) {
    return std::find(batch.begin(), batch.end(), 99u) != batch.end();
  };
  EXPECT_LE(std::find_if(batches.begin(), batches.end(), has_one) - batches.begin(), 2);
}

// A completion that met its stop string has ended by a stop, for the engine too.
TEST(ServiceStops, AreNotCountedAsCancelled) {
  ServiceFixture fixture;
  fixture.serve();
  // slow enough for the engine to learn of it before max_tokens is reached
  fixture.backend.each_batch = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  const Recorded answer = fixture.complete(R"("prompt":"1","max_tokens":190,"n":3,"stop":["6"],"ignore_eos":true)");
  ASSERT_EQ(answer.status(), 200) << answer.response().body;
  const Json json = answer.json();
  for (const Json& choice : json.at("choices")) EXPECT_EQ(choice.at("finish_reason"), "stop");
  const auto count = [&](engine::FinishReason reason) { return fixture.thread->metrics().finished[size_t(reason)]; };
  for (int i = 0; i < 1000 && count(engine::FinishReason::stop) < 3; ++i)  // they are counted after the response
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(count(engine::FinishReason::stop), 3);
  EXPECT_EQ(count(engine::FinishReason::cancelled), 0);
}

TEST(ServiceBusy, SaysWhenToRetry) {
  ServiceFixture fixture({}, {.max_waiting = 2});
  fixture.serve();
  fixture.hold_steps();
  std::vector<Recorded> held;
  Recorded refused;
  for (int i = 0; i < 50; ++i) {
    Recorded answer = fixture.begin("POST", "/v1/completions", R"({"prompt":"a","max_tokens":1,"stream":true})");
    if (answer.ended()) {
      refused = answer;
      break;
    }
    held.push_back(std::move(answer));
  }
  EXPECT_EQ(refused.status(), 429);
  EXPECT_EQ(refused.json().at("error").at("code"), "rate_limit_exceeded");
  EXPECT_EQ(refused.header("Retry-After"), "1");
  // a batch is accepted whole or not at all
  const Recorded batch = fixture.ask("POST", "/v1/completions", R"({"prompt":["a","b","c"],"max_tokens":1})");
  EXPECT_EQ(batch.status(), 429);
  fixture.release_steps();
  for (const Recorded& answer : held) {
    EXPECT_TRUE(answer.wait_for_end());
    EXPECT_EQ(answer.status(), 200);
  }
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
}

// A stream has begun when the engine took the request: its error is an event.
TEST(ServiceFaults, BeforeTheFirstTokenHaveTheirStatusOrAreEvents) {
  for (const bool stream : {true, false}) {
    ServiceFixture fixture;
    fixture.serve();
    fixture.backend.each_batch = [] { throw Error("the device fell over"); };
    const Recorded answer = fixture.chat("a", fmt::format(R"("stream":{})", stream));
    EXPECT_EQ(answer.status(), stream ? 200 : 500);
    const Json body = stream ? parse_json(answer.events().back(), "the last event") : answer.json();
    const Json error = body.at("error");
    EXPECT_EQ(error.at("type"), "server_error");
    test::expect_says(error.at("message").get<std::string>(), {"the device fell over"});
    EXPECT_EQ(fixture.last_log().at("status"), stream ? 200 : 500);
    test::expect_says(fixture.last_log().at("error").get<std::string>(), {"the device fell over"});
  }
}

// A stream that waits says so, from the beginning on.
TEST(ServiceStreams, BeginAtOnceAndBeat) {
  ServiceFixture fixture({.heartbeat_seconds = 0.05});
  fixture.serve();
  fixture.hold_steps();
  Recorded stream =
      fixture.begin("POST", "/v1/chat/completions", fixture.chat_body("1", R"("stream":true,"max_tokens":3)"));
  ASSERT_TRUE(stream.wait_for_parts(2));
  EXPECT_TRUE(stream.streamed());
  EXPECT_EQ(stream.response().type, "text/event-stream");
  const Recorded whole = fixture.begin("POST", "/v1/chat/completions", fixture.chat_body("1", R"("max_tokens":3)"));
  EXPECT_FALSE(stream.ended());
  // what is refused at once has its status
  EXPECT_EQ(fixture.ask("POST", "/v1/completions", R"({"prompt":"a","n":0,"stream":true})").status(), 400);
  fixture.release_steps();
  ASSERT_TRUE(stream.wait_for_end());
  ASSERT_TRUE(whole.wait_for_end());
  EXPECT_EQ(whole.status(), 200);
  std::string text = stream.text();
  const std::string beat = ": heartbeat\n\n";
  size_t beats = 0;
  for (size_t at; (at = text.find(beat)) != text.npos; ++beats) {
    EXPECT_TRUE(at == 0 || text.compare(at - 2, 2, "\n\n") == 0) << "between two events";
    text.erase(at, beat.size());
  }
  EXPECT_GE(beats, 2u);
  EXPECT_EQ(text.find("heartbeat"), text.npos);
  EXPECT_TRUE(text.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
}

TEST(ServiceStreams, DoNotBeatWhereThatIsOff) {
  ServiceFixture fixture({.heartbeat_seconds = 0});
  fixture.serve();
  fixture.hold_steps();
  Recorded stream = fixture.begin("POST", "/v1/completions", R"({"prompt":"1","stream":true,"max_tokens":3})");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(stream.streamed());
  fixture.release_steps();
  ASSERT_TRUE(stream.wait_for_end());
  EXPECT_EQ(stream.text().find("heartbeat"), std::string::npos);
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
}

TEST(ServiceFaults, AreReportedByHealthIfTheyStay) {
  struct Broken : test::CountingBackend {
    void begin(const model::Batch&) override { throw Error("the device is gone"); }
    bool usable() const override { return false; }
  };
  const model::Model model = test::counting_model();
  const text::Tokenizer tokenizer = test::counting_tokenizer();
  Broken backend;
  engine::Engine engine(model, backend, {.rows = 64, .kv_blocks = 16});
  engine::EngineThread thread(engine);
  Service service({});
  service.serve({.card = {.name = "m", .context = 100, .vocabulary = 100}, .tokenizer = tokenizer, .engine = thread});
  const auto ask = [&](const char* method, const char* path, const char* body) {
    Recorded recorded;
    service.handle({.method = method, .path = path, .body = body}, recorded.responder());
    EXPECT_TRUE(recorded.wait_for_end());
    return recorded;
  };
  for (int i = 0; i < 2; ++i) {  // while it breaks, and when it is known to be broken
    const Recorded answer = ask("POST", "/v1/completions", R"({"prompt":"a"})");
    EXPECT_EQ(answer.status(), 500);
    test::expect_says(answer.response().body, {"server_error"});
    test::expect_says(answer.response().body, {"the device is gone"});
  }
  for (int i = 0; i < 1000 && thread.stopped().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Recorded ready = ask("GET", "/health/ready", "");
  EXPECT_EQ(ready.status(), 503);
  test::expect_says(ready.response().body, {"failed", "the device is gone"});
  EXPECT_EQ(ask("GET", "/health/live", "").status(), 200);
}

TEST(ServiceFaults, EndAStreamWithAnError) {
  ServiceFixture fixture;
  fixture.serve();
  int batches = 0;
  fixture.backend.each_batch = [&] {
    if (++batches == 3) throw Error("the device fell over");
  };
  const Recorded answer = fixture.chat("a", R"("stream":true,"max_tokens":9)");
  EXPECT_EQ(answer.status(), 200);
  EXPECT_TRUE(answer.ended());
  const std::vector<std::string> events = answer.events();
  ASSERT_EQ(events.size(), 4) << "a role, two tokens, and the error instead of [DONE]";
  test::expect_says(parse_json(events[3], "the error").at("error").at("message").get<std::string>(),
                    {"the device fell over"});
  EXPECT_EQ(fixture.last_log().at("status"), 200);
  test::expect_says(fixture.last_log().at("error").get<std::string>(), {"the device fell over"});
  EXPECT_EQ(fixture.last_log().at("completion_tokens"), 2) << "they were generated";
  EXPECT_GT(fixture.last_log().at("prompt_tokens"), 0);
}

TEST(ServiceClients, ThatDisconnectCancelTheirWork) {
  ServiceFixture fixture;
  fixture.serve();
  fixture.backend.each_batch = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  const std::string endless = R"(,"max_tokens":150,"ignore_eos":true)";
  Recorded stream = fixture.begin("POST", "/v1/completions", R"({"prompt":"a","stream":true)" + endless + "}");
  Recorded batch = fixture.begin("POST", "/v1/completions", R"({"prompt":["a","b"],"n":3)" + endless + "}");
  ASSERT_TRUE(stream.wait_for_parts(3));
  stream.disconnect();
  batch.disconnect();
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
  for (int i = 0; i < 1000 && fixture.thread->metrics().running > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const engine::Metrics metrics = fixture.thread->metrics();
  EXPECT_EQ(metrics.running, 0);
  EXPECT_EQ(metrics.finished[size_t(engine::FinishReason::cancelled)], 7);
  for (const Json& line : fixture.log()) {
    EXPECT_EQ(line.at("status"), 499);
    EXPECT_LT(line.at("completion_tokens"), 6 * 150);
    EXPECT_TRUE(!line.contains("finish_reasons") || line.at("finish_reasons").empty()) << "it did not finish";
  }
  EXPECT_EQ(fixture.log().size(), 2);
}

TEST(ServiceClients, ThatDisconnectBeforeTheyAreReadAreLogged) {
  ServiceFixture fixture;
  fixture.serve();
  Recorded early;
  early.disconnect();
  fixture.service->handle({.method = "POST", .path = "/v1/completions", .body = R"({"prompt":"a","max_tokens":150})"},
                          early.responder());
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
  EXPECT_EQ(fixture.last_log().at("status"), 499);
}

}  // namespace
}  // namespace heddle::server
