// Whole exchanges. Those with weft are compared with what it generates without engine and service. Then many streams
// over real sockets, of which one in ten disconnects halfway: every other response is the same as if it had been the
// only request, and nothing is leaked. HEDDLE_CROWD="500 60" is the full size: streams and seconds.
#include "server/service/exchange.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "server/http/http.h"
#include "tests/engine/counting.h"
#include "tests/engine/fake_backend.h"
#include "tests/server/http/http_client.h"
#include "tests/server/service/recorded_response.h"
#include "tests/server/service/stream_clients.h"
#include "tests/server/service/weft_service.h"
#include "tests/support/sanitized.h"
#include "tests/text/counting_tokenizer.h"

namespace heddle::server {
namespace {

TEST(RandomIds, AreUnique) {
  const std::string a = random_id("cmpl-"), b = random_id("cmpl-");
  EXPECT_NE(a, b);
  EXPECT_EQ(a.size(), 5 + 24);
  EXPECT_TRUE(a.starts_with("cmpl-"));
  EXPECT_EQ(a.find_first_not_of("0123456789abcdef", 5), a.npos);
}

TEST(Clients, AreHosts) {
  EXPECT_EQ(client_at("127.0.0.1:5"), client_at("127.0.0.1:6"));
  EXPECT_NE(client_at("127.0.0.1:5"), client_at("127.0.0.2:5"));
  EXPECT_EQ(client_at("[2001:db8:1:2:3::4]:5"), client_at("[2001:db8:1:2:9::7]:6"));
  EXPECT_NE(client_at("[2001:db8:1:2:3::4]:5"), client_at("[2001:db8:1:3:3::4]:5"));
  EXPECT_NE(client_at("[::ffff:10.0.0.1]:5"), client_at("[::ffff:10.0.0.2]:5"));
}

// A small request beside others that would fill the cache for half a minute: of another client, and of the same one.
TEST(ServiceWeft, SlowASmallRequestStartsBesideGreedyOnes) {
  test::WeftService fixture({.rows = 256, .kv_blocks = 8 * 512 / 32});  // as heddle serve has it
  const auto ask = [&](const std::string& peer, const std::string& fields) {
    test::Recorded recorded;
    fixture.service->handle({.method = "POST",
                             .path = "/v1/completions",
                             .body = R"({"prompt":"Once upon a time","ignore_eos":true,)" + fields + "}",
                             .peer = peer},
                            recorded.responder());
    return recorded;
  };
  const auto seconds_of_small = [&](const std::string& peer) {
    const auto start = Clock::now();
    const test::Recorded small = ask(peer, R"("max_tokens":2)");
    EXPECT_TRUE(small.wait_for_end());
    EXPECT_EQ(small.status(), 200u);
    return seconds_since(start);
  };
  seconds_of_small("10.0.0.9:1");
  const double slow = std::max(1.0, seconds_of_small("10.0.0.9:1") / 0.05);  // where other programs are running
  std::vector<test::Recorded> greedy;
  for (int i = 0; i < 3; ++i) greedy.push_back(ask("10.0.0.1:1", R"("n":128,"max_tokens":450)"));
  std::string prompts = "\"a\"";
  for (int i = 0; i < 49; ++i) prompts += fmt::format(",\"Once upon a time there were {} dogs\"", i);
  test::Recorded batch;
  fixture.service->handle({.method = "POST",
                           .path = "/v1/completions",
                           .body = R"({"ignore_eos":true,"max_tokens":450,"prompt":[)" + prompts + "]}",
                           .peer = "10.0.0.2:1"},
                          batch.responder());
  greedy.push_back(batch);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  EXPECT_GT(fixture.thread->metrics().waiting, 100u);
  for (const char* peer : {"10.0.0.3:1", "10.0.0.1:2", "10.0.0.2:7", "10.0.0.3:4"})
    EXPECT_LT(seconds_of_small(peer), 2 * slow) << peer;
  for (test::Recorded& one : greedy) {
    EXPECT_FALSE(one.ended());
    one.disconnect();
  }
}

TEST(ServiceWeft, GeneratesWhatTheModelGeneratesAlone) {
  test::WeftService fixture;
  const text::Tokenizer& tokenizer = fixture.tokenizer;
  // as weft's chat template writes it
  const std::string prompt =
      std::string(tokenizer.text(*tokenizer.bos())) + "<|user|>tell me a story about a dog<|end|><|assistant|>";
  engine::Request request{.prompt = tokenizer.encode(prompt, {.add_special = false}), .max_tokens = 40};
  request.sampling.temperature = 0;
  for (const text::TokenId id : tokenizer.end_tokens()) request.stops.push_back({id});
  const test::Answer alone = test::answers_alone(fixture.world, request)[0];
  std::vector<uint32_t> shown = alone.tokens;
  if (alone.finish_reason == engine::FinishReason::stop) shown.pop_back();

  test::Recorded recorded;
  fixture.service->handle(
      {.method = "POST",
       .path = "/v1/chat/completions",
       .body =
           R"({"messages":[{"role":"user","content":"tell me a story about a dog"}],"temperature":0,"max_tokens":40})"},
      recorded.responder());
  ASSERT_TRUE(recorded.wait_for_end());
  const Json answer = recorded.json();
  EXPECT_EQ(answer.at("choices")[0].at("message").at("content"), tokenizer.decode(shown));
  EXPECT_GT(shown.size(), 5);
  EXPECT_EQ(answer.at("choices")[0].at("finish_reason"),
            alone.finish_reason == engine::FinishReason::stop ? "stop" : "length");
  EXPECT_EQ(answer.at("usage").at("prompt_tokens"), request.prompt.size());
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), alone.tokens.size());
}

struct Size {
  size_t streams = 40;
  double seconds = 2;
};
Size size_of_crowd() {
  Size size;
  if (const char* text = std::getenv("HEDDLE_CROWD")) {
    std::istringstream in(text);
    in >> size.streams >> size.seconds;
  }
  return size;
}

size_t descriptors() { return size_t(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {})); }
size_t resident_bytes() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * size_t(::sysconf(_SC_PAGESIZE));
}

std::string post_of(std::string_view path, const std::string& body) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                     path, body.size(), body);
}

// Chats of every dialect, some long, some with several choices.
std::vector<std::string> requests() {
  std::vector<std::string> all;
  const std::vector<std::string> things{"a dog", "a cat and a bird", "the sea", "a red ball", "a little girl", "rain"};
  for (size_t i = 0; i < 16; ++i) {
    const std::string story = "tell me a story about " + things[i % things.size()];
    const std::string messages = fmt::format(R"("messages":[{{"role":"user","content":"{}"}}])", story);
    all.push_back(post_of("/v1/chat/completions",
                          fmt::format(R"({{{},"stream":true,"max_tokens":{},"temperature":{},"seed":{}{}}})", messages,
                                      6 + i * 3, i % 3 ? 0.8 : 0.0, i,
                                      i % 8 == 5   ? ",\"n\":2"
                                      : i % 8 == 6 ? R"(,"stop":[" the"])"
                                                   : "")));
    if (i % 4) continue;
    all.push_back(post_of("/v1/messages?beta=true",
                          fmt::format(R"({{{},"stream":true,"max_tokens":{},"temperature":0}})", messages, 5 + i)));
    all.push_back(
        post_of("/v1/responses",
                fmt::format(R"({{"input":"{}","stream":{},"max_output_tokens":{},"temperature":0,"store":false}})",
                            story, i % 8 == 0, 20 + i)));
    all.push_back(
        post_of("/api/chat", fmt::format(R"({{{},"options":{{"num_predict":{},"seed":{}}}}})", messages, 7 + i, i)));
    all.push_back(post_of("/completion", fmt::format(R"({{"prompt":"{}","stream":{},"n_predict":{},"seed":{}}})", story,
                                                     i % 8 == 0, 9 + i, i)));
  }
  return all;
}

// A stream's body without ids, times, and counts of what was cached, by choice: chunks of several choices come in any
// order.
std::vector<std::string> comparable(const std::string& body) {
  static const std::regex fresh(
      R"re("(id|item_id|created_at|completed_at)":("[^"]*"|[0-9.]+)|"created":[0-9]+|"[a-z_]*duration":[0-9]+|"timings":\{[^}]*\})re"
      R"re(|"(cached_tokens|cache_read_input_tokens|input_tokens|tokens_cached|cache_n|prompt_n)":[0-9]+|: heartbeat\n\n)re");
  std::vector<std::string> choices(3);
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find("\n\n", at), body.size() - 2) + 2;
    const std::string event = body.substr(at, end - at);
    const size_t index = event.find("\"index\":");
    choices[index == event.npos ? 2 : size_t(event[index + 8] - '0')] += std::regex_replace(event, fresh, "");
    at = end;
  }
  return choices;
}

// A model whose output depends on every token of its own sequence, and on nothing else.
struct FakeService {
  model::Model model = test::fake::fake_model(512, test::counting_vocabulary);
  model::Limits limits{.rows = 256, .kv_blocks = 1024};
  text::Tokenizer tokenizer = test::counting_tokenizer();
  test::fake::FakeBackend backend{model, limits};
  engine::Engine engine{model, backend, limits};
  std::optional<engine::EngineThread> thread{std::in_place, engine};
  std::optional<Service> service{std::in_place, ServiceOptions{}};

  FakeService() {
    service->serve({.card = {.name = "fake",
                             .chat_template = test::counting_template,
                             .context = model.context,
                             .vocabulary = model.vocabulary},
                    .tokenizer = tokenizer,
                    .engine = *thread});
  }
};

template <class Fixture>
void expect_as_if_alone() {
  const Size size = size_of_crowd();
  const size_t descriptors_before = descriptors();
  {
    Fixture fixture;
    HttpServer server({.port = 0}, [&](HttpRequest request, std::shared_ptr<Responder> responder) {
      fixture.service->handle(std::move(request), std::move(responder));
    });
    const std::vector<std::string> all = requests();
    std::vector<std::vector<std::string>> alone;
    for (const std::string& request : all) {
      Client client(server.port());
      client.send(request);
      const auto answer = response(client);
      ASSERT_EQ(answer.status(), 200u) << request << answer.body;
      alone.push_back(comparable(answer.body));
      const bool is_chat = request.starts_with("POST /v1/chat");
      ASSERT_TRUE(!is_chat || alone.back()[2].ends_with("data: [DONE]\n\n")) << alone.back()[2];
    }

    size_t wrong = 0, warm = 0, peak_memory = 0;
    test::StreamClients clients({.port = server.port(),
                                 .clients = size.streams,
                                 .seconds = size.seconds,
                                 .requests = all,
                                 .cut_every = 10,
                                 .on_response =
                                     [&](size_t which, const test::IncomingResponse& response) {
                                       if (response.status() == 200 && comparable(response.body()) == alone[which])
                                         return;
                                       if (++wrong == 1) ADD_FAILURE() << response.status() << " " << response.body();
                                     },
                                 .on_second =
                                     [&](double seconds) {
                                       if (warm == 0 || seconds < size.seconds / 2) warm = resident_bytes();
                                       peak_memory = std::max(peak_memory, resident_bytes());
                                     }});
    const auto result = clients.run();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(result.broken, 0);
    EXPECT_GT(result.whole, size.streams / 2);
    EXPECT_GT(result.cut, 0);
    EXPECT_TRUE(soon([&] { return fixture.service->in_progress() == 0 && server.connections() == 0; }));
    EXPECT_TRUE(soon([&] { return fixture.thread->metrics().running + fixture.thread->metrics().waiting == 0; }));
    if (!test::sanitized) {  // which keep freed memory
      EXPECT_LT(peak_memory, warm + warm / 10 + (16u << 20));
    }
    const engine::Metrics metrics = fixture.thread->metrics();
    fmt::print("{} streams, {:.1f} s: {} responses, {} cut off, {:.0f} tokens/s, {:.1f} MB then {:.1f} MB\n",
               size.streams, result.seconds, result.whole, result.cut, double(metrics.generated) / result.seconds,
               double(warm) / 1e6, double(peak_memory) / 1e6);
  }
  EXPECT_TRUE(soon([&] { return descriptors() <= descriptors_before; })) << descriptors() << " descriptors";
}

TEST(ServerCrowd, GetsTheResponsesOfSingleRequests) { expect_as_if_alone<FakeService>(); }
TEST(ServerCrowd, GetsTheResponsesOfSingleRequestsFromWeftSlow) { expect_as_if_alone<test::WeftService>(); }

}  // namespace
}  // namespace heddle::server
