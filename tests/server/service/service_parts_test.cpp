// The small parts of the service: keys, workers, the log line, refusals, traces, the page of metrics.
#include <gtest/gtest.h>

#include <future>

#include "server/service/keys.h"
#include "server/service/random_id.h"
#include "server/service/refusals.h"
#include "server/service/workers.h"
#include "server/status/metrics_page.h"
#include "server/status/request_log.h"
#include "server/status/trace.h"
#include "tests/support/refused.h"

namespace heddle::server {
namespace {

bool allows(const Keys& keys, const std::string& header) { return keys.allow(&header); }

TEST(Keys, WithoutAnyEverybodyMay) {
  EXPECT_TRUE(Keys({}).allow(nullptr));
  EXPECT_TRUE(allows(Keys({}), "anything"));
}

TEST(Keys, AreHeldToTheWhole) {
  const Keys keys({"sk-one", "sk-two"});
  EXPECT_FALSE(keys.allow(nullptr));
  for (const char* right : {"Bearer sk-one", "Bearer sk-two", "bearer sk-two", "BEARER  sk-one"})
    EXPECT_TRUE(allows(keys, right)) << right;
  for (const char* wrong : {"", "sk-one", "Bearer", "Bearer ", "Bearer sk-on", "Bearer sk-one2", "Bearer sk-one ",
                            "Basic sk-one", "Bearersk-one", "Bearer Sk-one"})
    EXPECT_FALSE(allows(keys, wrong)) << wrong;
}

TEST(Keys, RefuseAnEmptyOne) { EXPECT_REFUSED(Keys({"a", ""}), "API keys", "empty"); }

TEST(Workers, DoWhatWaitsBeforeTheyGo) {
  std::atomic<int> done = 0;
  {
    Workers workers(2, 100, 1000);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(workers.push(1, [&] { ++done; }));
  }
  EXPECT_EQ(done, 50);
}

TEST(Workers, LetOnlySoManyWait) {
  std::promise<void> gate;
  const auto open = gate.get_future().share();
  std::promise<void> begun;
  Workers workers(1, 2, 1000);
  ASSERT_TRUE(workers.push(1, [&] {
    begun.set_value();
    open.wait();
  }));
  begun.get_future().wait();
  EXPECT_TRUE(workers.push(1, [] {}));
  EXPECT_TRUE(workers.push(1, [] {}));
  EXPECT_FALSE(workers.push(1, [] {})) << "two wait";
  gate.set_value();
}

TEST(Workers, LetOnlySoManyBytesWait) {
  std::promise<void> gate;
  const auto open = gate.get_future().share();
  std::promise<void> begun;
  Workers workers(1, 100, 1000);
  ASSERT_TRUE(workers.push(5000, [&] {  // one alone may be as large as it is
    begun.set_value();
    open.wait();
  }));
  begun.get_future().wait();
  EXPECT_TRUE(workers.push(600, [] {}));
  EXPECT_TRUE(workers.push(400, [] {}));
  EXPECT_FALSE(workers.push(1, [] {}));
  gate.set_value();
}

TEST(RequestLog, HasALineOfWhatIsKnown) {
  LogEntry entry;
  entry.time = std::chrono::system_clock::time_point(std::chrono::milliseconds(1'700'000'000'042));
  entry.id = "a\"b";
  entry.peer = "[::1]:5";
  entry.method = "GET";
  entry.path = "/health";
  entry.status = 200;
  entry.total = 0.0125;
  EXPECT_EQ(log_line(entry),
            R"({"time":"2023-11-14T22:13:20.042Z","id":"a\"b","peer":"[::1]:5","method":"GET","path":"/health",)"
            R"("status":200,"total_ms":12.500})");
  entry.model = "m";
  entry.tokens = Usage{.prompt = 3, .completion = 2, .cached = 1};
  entry.finishes = {"stop", "length"};
  entry.queue = 0.001;
  entry.first_token = 0.25;
  entry.user = "u\n";
  entry.error = "\xff";
  entry.body = "{}";
  entry.texts = {"x"};
  EXPECT_EQ(log_line(entry),
            R"({"time":"2023-11-14T22:13:20.042Z","id":"a\"b","peer":"[::1]:5","method":"GET","path":"/health",)"
            R"("status":200,"model":"m","prompt_tokens":3,"completion_tokens":2,"cached_tokens":1,)"
            R"("finish":["stop","length"],"queue_ms":1.000,"first_token_ms":250.000,"total_ms":12.500,)"
            R"("user":"u\n","error":")"
            "\ufffd"
            R"(","request":"{}","answers":["x"]})");
}

TEST(Refusals, NameBothNumbersOfWhatIsTooLong) {
  const ApiError prompt = too_long("messages", 900, 0, 512);
  EXPECT_STREQ(prompt.what(),
               "This model's maximum context length is 512 tokens. However, the prompt has 900 tokens: please shorten "
               "it.");
  EXPECT_EQ(prompt.status, 400);
  EXPECT_EQ(prompt.code, "context_length_exceeded");
  EXPECT_EQ(prompt.param, "messages");
  EXPECT_STREQ(too_long("prompt", 500, 20, 512).what(),
               "This model's maximum context length is 512 tokens. However, 520 tokens were requested (500 in the "
               "prompt, 20 in the completion): please shorten one of them.");
}

TEST(Refusals, EstimateWhenToTryAgain) {
  engine::Metrics metrics;
  EXPECT_EQ(retry_after(metrics), 1) << "nothing is known";
  metrics.waiting = 100;
  metrics.running = 10;
  metrics.generated = 1000;
  metrics.ended(engine::FinishReason::stop) = 10;  // 100 tokens each
  for (int i = 0; i < 10; ++i) {
    metrics.queue_seconds.add(1);
    metrics.first_token_seconds.add(1.5);
    metrics.between_tokens_seconds.add(0.02);
  }
  EXPECT_EQ(retry_after(metrics), 25) << "an answer takes 0.5 + 100 * 0.02 s, 10 at a time, 100 wait";
  metrics.waiting = 1'000'000;
  EXPECT_EQ(retry_after(metrics), 600);
}

TEST(Traces, KnowTwoLevels) {
  const std::string request = "request", step = "step", other = "Step";
  EXPECT_EQ(trace_level(nullptr), TraceLevel::none);
  EXPECT_EQ(trace_level(&request), TraceLevel::request);
  EXPECT_EQ(trace_level(&step), TraceLevel::step);
  EXPECT_REFUSED(trace_level(&other), "X-Trace-Level", "expected request or step", "\"Step\"");
}

TEST(Traces, AreJsonInMilliseconds) {
  const Preparation preparation{.waiting = 0.001, .parse = 0.002, .render = 0.003, .encode = 0.004};
  AnswerTrace answer{.index = 2, .timing = {.queue = 0.5, .prompt = 0.25, .making = 1, .device = 0.125, .steps = 7}};
  answer.steps = std::make_shared<std::vector<engine::StepTime>>(
      2, engine::StepTime{
             .start = 0.5, .seconds = 0.01, .device = 0.005, .rows = 3, .generated = 1, .all_rows = 9, .sequences = 4});
  EXPECT_EQ(trace_json(TraceLevel::none, preparation, {answer}, 2), "");
  const std::string begin =
      R"({"total_ms":2000.000,"waiting_ms":1.000,"parse_ms":2.000,"template_ms":3.000,"tokenize_ms":4.000,"answers":[)";
  const std::string its =
      R"({"index":2,"queue_ms":500.000,"prompt_ms":250.000,"making_ms":1000.000,"device_ms":125.000,"steps":7)";
  EXPECT_EQ(trace_json(TraceLevel::request, preparation, {answer, answer}, 2), begin + its + "}," + its + "}]}");
  const std::string one =
      R"({"start_ms":500.000,"ms":10.000,"device_ms":5.000,"rows":3,"made":1,"all_rows":9,"sequences":4})";
  EXPECT_EQ(trace_json(TraceLevel::step, preparation, {answer}, 2),
            begin + its + ",\"step\":[" + one + "," + one + "]}]}");
}

TEST(RandomIds, AreNotMadeTwice) {
  const std::string a = random_id("cmpl-"), b = random_id("cmpl-");
  EXPECT_NE(a, b);
  EXPECT_EQ(a.size(), 5 + 24);
  EXPECT_TRUE(a.starts_with("cmpl-"));
  EXPECT_EQ(a.find_first_not_of("0123456789abcdef", 5), a.npos);
}

TEST(MetricsPage, IsWhatPrometheusReads) {
  TrafficCounts traffic;
  traffic.answered[{"/v1/models", 200}] = 3;
  traffic.answered[{"/v1/models", 401}] = 1;
  traffic.bytes = 1000;
  traffic.under_way = 2;
  traffic.streams = 1;
  const std::string before = metrics_page(traffic, std::nullopt, "m\"1");
  test::expect_says(before, {"# HELP heddle_info", "# TYPE heddle_info gauge", "model=\"m\\\"1\"} 1",
                             "# TYPE heddle_http_requests_total counter",
                             "heddle_http_requests_total{path=\"/v1/models\",status=\"200\"} 3\n"
                             "heddle_http_requests_total{path=\"/v1/models\",status=\"401\"} 1\n",
                             "heddle_http_answer_bytes_total 1000\n", "heddle_http_requests_open 2\n",
                             "heddle_http_streams_open 1\n"});
  EXPECT_EQ(before.find("heddle_steps_total"), before.npos) << "there is no engine yet";

  engine::Metrics metrics;
  metrics.steps = 5;
  metrics.blocks_all = 9;
  metrics.queue_seconds.add(0.0003);
  metrics.queue_seconds.add(1e9);
  const std::string page = metrics_page(traffic, metrics, "m");
  test::expect_says(page,
                    {"heddle_requests_finished_total{ending=\"stop\"} 0", "heddle_steps_total 5\n",
                     "heddle_kv_blocks{use=\"all\"} 9\n", "# TYPE heddle_queue_seconds histogram\n",
                     "heddle_queue_seconds_count 2\n", "heddle_queue_seconds_bucket{le=\"0.0002\"} 0\n",
                     "heddle_queue_seconds_bucket{le=\"0.0005\"} 1\n", "heddle_queue_seconds_bucket{le=\"+Inf\"} 2\n"});
}

}  // namespace
}  // namespace heddle::server
