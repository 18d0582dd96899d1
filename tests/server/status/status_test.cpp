// The log line, the trace and the metrics by value.
#include "server/status/status.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/refused.h"

namespace heddle::server {
namespace {

TEST(RequestLog, WritesWhatIsKnown) {
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
  entry.finish_reasons = {"stop", "length"};
  entry.queue = 0.001;
  entry.first_token = 0.25;
  entry.user = "u\n";
  entry.error = "\xff";
  entry.body = "{}";
  entry.completions = {"x"};
  EXPECT_EQ(log_line(entry),
            R"({"time":"2023-11-14T22:13:20.042Z","id":"a\"b","peer":"[::1]:5","method":"GET","path":"/health",)"
            R"("status":200,"model":"m","prompt_tokens":3,"completion_tokens":2,"cached_tokens":1,)"
            R"("finish_reasons":["stop","length"],"queue_ms":1.000,"first_token_ms":250.000,"total_ms":12.500,)"
            R"("user":"u\n","error":")"
            "\ufffd"
            R"(","request":"{}","completions":["x"]})");
}

// What a client sends is cut, at the beginning of a character.
TEST(RequestLog, HasABound) {
  LogEntry entry;
  entry.path = "/" + std::string(1 << 20, 'p');
  entry.user = std::string(511, 'u') + "\u00e4" + std::string(1000, 'v');
  entry.error = std::string(512, 'e');
  const std::string line = log_line(entry);
  EXPECT_LT(line.size(), 2000u);
  test::expect_says(line, {"/" + std::string(511, 'p') + "... (1048577 bytes)\"",
                           "\"" + std::string(511, 'u') + "... (1513 bytes)\"", "\"" + std::string(512, 'e') + "\""});
}

TEST(LastRequests, AreKeptWithoutWhoAndWhat) {
  Traffic traffic([](const std::string&) {}, true);
  LogEntry entry;
  entry.id = "r0";
  entry.path = "/v1/models";
  traffic.end(nullptr, "/v1/models", entry, false, 0);
  EXPECT_EQ(traffic.traces(), R"({"object":"list","data":[],"in_progress":[]})") << "it did not reach the engine";
  entry.peer = entry.user = entry.body = "secret";
  entry.completions = {"secret"};
  entry.tokens = Usage{.prompt = 3, .completion = 2};
  entry.trace = R"({"total_ms":1})";
  for (int i = 1; i <= 300; ++i) {
    entry.id = "r" + std::to_string(i);
    traffic.end(nullptr, "/v1/completions", entry, false, 0);
  }
  const std::string text = traffic.traces();
  EXPECT_EQ(text.find("secret"), text.npos);
  const auto list = nlohmann::json::parse(text);
  ASSERT_EQ(list.at("data").size(), 200u);
  EXPECT_EQ(list["data"][0]["id"], "r300") << "the newest first";
  EXPECT_EQ(list["data"][0]["prompt_tokens"], 3);
  EXPECT_EQ(list["data"][0]["trace"]["total_ms"], 1);
  EXPECT_EQ(list["data"][199]["id"], "r101");
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
  CompletionTrace completion{.index = 2,
                             .timing = {.queue = 0.5, .prompt = 0.25, .generating = 1, .device = 0.125, .steps = 7}};
  completion.steps = std::make_shared<std::vector<engine::StepTime>>(
      2, engine::StepTime{
             .start = 0.5, .seconds = 0.01, .device = 0.005, .rows = 3, .generated = 1, .all_rows = 9, .sequences = 4});
  EXPECT_EQ(trace_json(TraceLevel::none, preparation, {completion}, 2), "");
  const std::string begin =
      R"({"total_ms":2000.000,"waiting_ms":1.000,"parse_ms":2.000,"template_ms":3.000,"tokenize_ms":4.000,"completions":[)";
  const std::string timing =
      R"({"index":2,"queue_ms":500.000,"prompt_ms":250.000,"generation_ms":1000.000,"device_ms":125.000,"steps":7)";
  EXPECT_EQ(trace_json(TraceLevel::request, preparation, {completion, completion}, 2),
            begin + timing + "}," + timing + "}]}");
  const std::string one =
      R"({"start_ms":500.000,"ms":10.000,"device_ms":5.000,"rows":3,"generated":1,"all_rows":9,"sequences":4})";
  EXPECT_EQ(trace_json(TraceLevel::step, preparation, {completion}, 2),
            begin + timing + ",\"step\":[" + one + "," + one + "]}]}");
}

TEST(MetricsText, IsInPrometheusFormat) {
  TrafficCounts traffic;
  traffic.responses[{"/v1/models", 200}] = 3;
  traffic.responses[{"/v1/models", 401}] = 1;
  traffic.bytes = 1000;
  traffic.in_progress = 2;
  traffic.streams = 1;
  traffic.connections_refused = 4;
  traffic.log_lines_lost = 5;
  const std::string before = metrics_text(traffic, {{.name = "m\"1"}});
  test::expect_says(before, {"# HELP heddle_info", "# TYPE heddle_info gauge", "{model=\"m\\\"1\",version=\"",
                             "# TYPE heddle_http_requests_total counter",
                             "heddle_http_requests_total{path=\"/v1/models\",status=\"200\"} 3\n"
                             "heddle_http_requests_total{path=\"/v1/models\",status=\"401\"} 1\n",
                             "heddle_http_response_bytes_total 1000\n", "heddle_http_requests_open 2\n",
                             "heddle_http_streams_open 1\n"});
  test::expect_says(before, {"heddle_http_connections_refused_total 4\n", "heddle_log_lines_lost_total 5\n"});
  EXPECT_EQ(before.find("heddle_steps_total"), before.npos) << "there is no engine yet";

  engine::Metrics metrics;
  metrics.steps = 5;
  metrics.blocks_all = 9;
  metrics.queue_seconds.add(0.0003);
  metrics.queue_seconds.add(1e9);
  const std::string page = metrics_text(traffic, {{.name = "m", .engine = metrics}});
  test::expect_says(page, {"heddle_requests_finished_total{model=\"m\",finish_reason=\"stop\"} 0",
                           "heddle_steps_total{model=\"m\"} 5\n", "heddle_kv_blocks{model=\"m\",state=\"all\"} 9\n",
                           "# TYPE heddle_queue_seconds histogram\n", "heddle_queue_seconds_count{model=\"m\"} 2\n",
                           "heddle_queue_seconds_bucket{model=\"m\",le=\"0.0002\"} 0\n",
                           "heddle_queue_seconds_bucket{model=\"m\",le=\"0.0005\"} 1\n",
                           "heddle_queue_seconds_bucket{model=\"m\",le=\"+Inf\"} 2\n"});
}

}  // namespace
}  // namespace heddle::server
