// Routes, keys, health, models, metrics and the log.
#include "server/service/service.h"

#include <gtest/gtest.h>

#include "server/api/api_error.h"
#include "tests/server/service/service_fixture.h"
#include "tests/support/refused.h"
#include "text/pipeline.h"

namespace heddle::server {
namespace {

using test::Recorded;
using test::ServiceFixture;

// "status type code param", and the message's parts.
void expect_error(const Recorded& answer, unsigned status, const std::string& type, const Json& code, const Json& param,
                  std::initializer_list<std::string_view> parts) {
  EXPECT_EQ(answer.status(), status) << answer.response().body;
  const Json error = answer.json().at("error");
  EXPECT_EQ(error.at("type"), type);
  EXPECT_EQ(error.at("code"), code);
  EXPECT_EQ(error.at("param"), param);
  test::expect_says(error.at("message").get<std::string>(), parts);
}

TEST(Service, KnowsItsPaths) {
  ServiceFixture fixture;
  fixture.serve();
  expect_error(fixture.get("/v1/nothing"), 404, "invalid_request_error", "unknown_url", nullptr, {"/v1/nothing"});
  expect_error(fixture.get("/v1/chat/completions/"), 404, "invalid_request_error", "unknown_url", nullptr, {});
  const Recorded get = fixture.get("/v1/chat/completions");
  expect_error(get, 405, "invalid_request_error", "method_not_supported", nullptr, {"expected POST", "GET"});
  EXPECT_EQ(get.header("Allow"), "POST, OPTIONS");
  const Recorded options = fixture.ask("OPTIONS", "/health");
  EXPECT_EQ(options.status(), 204);
  EXPECT_EQ(options.header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(options.header("Access-Control-Allow-Origin"), "");
}

TEST(Service, AllowsPagesOfTheCorsOrigin) {
  ServiceFixture fixture({.cors_origin = "https://a.example"});
  fixture.serve();
  const Recorded before =
      fixture.ask("OPTIONS", "/v1/completions", {},
                  {{"access-control-request-method", "POST"},
                   {"access-control-request-headers", "authorization,content-type,x-stainless-os"}});
  EXPECT_EQ(before.status(), 204);
  EXPECT_EQ(before.response().body, "");
  EXPECT_EQ(before.header("Access-Control-Allow-Origin"), "https://a.example");
  EXPECT_EQ(before.header("Access-Control-Allow-Methods"), "POST, OPTIONS");
  EXPECT_EQ(before.header("Access-Control-Allow-Headers"), "authorization,content-type,x-stainless-os");
  EXPECT_EQ(before.header("Vary"), "Origin");
  EXPECT_EQ(fixture.ask("OPTIONS", "/metrics", {}, {{"access-control-request-headers", "a\r\nb: c"}})
                .header("Access-Control-Allow-Headers"),
            "");
  EXPECT_EQ(fixture.get("/v1/models").header("Access-Control-Allow-Origin"), "https://a.example");
  const Recorded wrong = fixture.ask("PUT", "/v1/models");
  EXPECT_EQ(wrong.status(), 405);
  EXPECT_EQ(wrong.header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(wrong.header("Access-Control-Allow-Origin"), "https://a.example") << "so that the page can read the error";
}

TEST(Service, RefusesABadCorsOrigin) {
  EXPECT_REFUSED(Service({.cors_origin = "a\r\nb"}), "CORS", "expected an origin", "a\\x0d\\nb");
}

TEST(Service, NeedsAKeyForAllButHealth) {
  ServiceFixture fixture({.keys = {"sk-1"}});
  fixture.serve();
  for (const char* path : {"/v1/models", "/v1/models/count%2Fer", "/metrics", "/v1/effective-config", "/v1/traces"}) {
    expect_error(fixture.get(path), 401, "invalid_request_error", "invalid_api_key", nullptr, {"API key"});
    expect_error(fixture.get(path, {{"authorization", "Bearer sk-2"}}), 401, "invalid_request_error", "invalid_api_key",
                 nullptr, {});
    EXPECT_EQ(fixture.get(path, {{"authorization", "Bearer sk-1"}}).status(), 200) << path;
  }
  EXPECT_EQ(fixture.post("/v1/chat/completions", "{}").status(), 401);
  EXPECT_EQ(fixture.post("/tokenize", R"({"content":"a"})").status(), 401);
  for (const char* path : {"/health", "/health/live", "/health/ready"}) EXPECT_EQ(fixture.get(path).status(), 200);
  EXPECT_EQ(fixture.get("/nothing").status(), 404);
}

TEST(Service, AcceptsOnlyJson) {
  ServiceFixture fixture;
  fixture.serve();
  const auto tokenize = [&](ServiceFixture::Headers headers) {
    return fixture.post("/tokenize", R"({"content":"a"})", std::move(headers));
  };
  EXPECT_EQ(tokenize({}).status(), 200);
  EXPECT_EQ(tokenize({{"content-type", "application/json"}}).status(), 200);
  EXPECT_EQ(tokenize({{"content-type", "Application/JSON ; charset=utf-8"}}).status(), 200);
  for (const char* type : {"application/x-www-form-urlencoded", "text/plain", "", "application/jsonx"})
    expect_error(tokenize({{"content-type", type}}), 415, "invalid_request_error", "unsupported_media_type", nullptr,
                 {"expected application/json", type});
}

TEST(Service, ReportsItsHealth) {
  ServiceFixture fixture;
  EXPECT_EQ(fixture.get("/health/live").response().body, R"({"status":"ok"})");
  EXPECT_EQ(fixture.get("/health/ready").response().body, R"({"status":"loading"})");
  EXPECT_EQ(fixture.get("/health/ready").status(), 503);
  EXPECT_EQ(fixture.get("/health").status(), 503);
  EXPECT_EQ(fixture.get("/metrics").status(), 200);
  const Recorded early = fixture.chat("a");
  expect_error(early, 503, "server_error", "service_unavailable", nullptr, {"being loaded"});
  EXPECT_EQ(early.header("Retry-After"), "5");
  EXPECT_EQ(fixture.get("/v1/models").status(), 503);

  fixture.serve();
  EXPECT_EQ(fixture.get("/health/ready").response().body, R"({"status":"ok"})");
  EXPECT_EQ(fixture.get("/health").status(), 200);
  EXPECT_EQ(fixture.chat("a", R"("max_tokens":1)").status(), 200);

  fixture.service->retire();
  EXPECT_EQ(fixture.get("/health/ready").response().body, R"({"status":"draining"})");
  EXPECT_EQ(fixture.get("/health/ready").response().status, 503u);
  EXPECT_EQ(fixture.get("/health/live").response().status, 200u);
  fixture.service->drain();
  EXPECT_EQ(fixture.get("/health/ready").response().body, R"({"status":"draining"})");
  EXPECT_EQ(fixture.get("/health/live").status(), 200);
  const Recorded late = fixture.chat("a");
  expect_error(late, 503, "server_error", "service_unavailable", nullptr, {"shutting down"});
  EXPECT_EQ(late.header("Retry-After"), "5");
  EXPECT_EQ(fixture.post("/tokenize", R"({"content":"a"})").status(), 200) << "it needs no engine";
}

TEST(Service, ListsItsModel) {
  ServiceFixture fixture;
  fixture.serve();
  const Json list = fixture.get("/v1/models").json();
  EXPECT_EQ(list.at("object"), "list");
  ASSERT_EQ(list.at("data").size(), 1);
  const Json model = list.at("data")[0];
  EXPECT_EQ(model.at("id"), "count/er");
  EXPECT_EQ(model.at("object"), "model");
  EXPECT_EQ(model.at("owned_by"), "heddle");
  EXPECT_GT(model.at("created"), 1'700'000'000);
  EXPECT_EQ(model.at("meta"), Json({{"context", 200}, {"vocabulary", 100}, {"width", 8}, {"chat", true}}));
  EXPECT_EQ(fixture.get("/v1/models/count/er").json(), model);
  EXPECT_EQ(fixture.get("/v1/models/count%2fer").json(), model);
  expect_error(fixture.get("/v1/models/other"), 404, "invalid_request_error", "model_not_found", "model",
               {"\"other\"", "\"count/er\""});
  expect_error(fixture.chat("a", R"("model":"gpt-4o")"), 404, "invalid_request_error", "model_not_found", "model",
               {"\"gpt-4o\"", "\"count/er\""});
  EXPECT_EQ(fixture.chat("a", R"("model":"count/er","max_tokens":1)").status(), 200);
}

TEST(Service, ShowsItsConfig) {
  ServiceFixture fixture({.keys = {"secret"}, .log_prompts = true});
  fixture.serve();
  const ServiceFixture::Headers key{{"authorization", "Bearer secret"}};
  EXPECT_EQ(fixture.chat("a", R"("max_tokens":5)", key).status(), 200);
  EXPECT_TRUE(fixture.wait_until_finished(1));
  const Recorded answer = fixture.get("/v1/effective-config", key);
  EXPECT_EQ(answer.response().body.find("secret"), std::string::npos) << "keys are not shown";
  const Json page = answer.json();
  EXPECT_EQ(page.at("config"), Json({{"device", "none"}}));
  EXPECT_EQ(page.at("limits").at("temperature"), Json({{"min", 0}, {"max", 2}, {"default", 1}, {"whole", false}}));
  EXPECT_EQ(page.at("limits").at("top_k"), Json({{"min", -1}, {"max", nullptr}, {"default", 0}, {"whole", true}}));
  EXPECT_EQ(page.at("service"), Json({{"api_keys", 1}, {"cors_origin", nullptr}, {"log_prompts", true}}));
  EXPECT_EQ(page.at("model").at("id"), "count/er");
  const Json measured = page.at("measured");
  EXPECT_EQ(measured.at("http_requests"), 1);
  EXPECT_EQ(measured.at("requests"), 1);
  EXPECT_EQ(measured.at("generated_tokens"), 5);
  EXPECT_GT(measured.at("tokens_per_second"), 0);
  EXPECT_EQ(measured.at("time_to_first_token").at("count"), 1);
  EXPECT_GT(measured.at("time_to_first_token").at("median_ms"), 0);
  EXPECT_EQ(measured.at("kv_blocks").at("all"), 256);
}

TEST(Service, CountsForPrometheus) {
  ServiceFixture fixture;
  fixture.serve();
  fixture.chat("a", R"("max_tokens":3)");
  EXPECT_TRUE(fixture.wait_until_finished(1));
  fixture.get("/whatever/1");
  fixture.get("/whatever/2");
  fixture.get("/v1/models/count/er");
  const Recorded page = fixture.get("/metrics");
  EXPECT_EQ(page.response().type, "text/plain; version=0.0.4; charset=utf-8");
  test::expect_says(page.response().body,
                    {"heddle_info{", "model=\"count/er\"",
                     "heddle_http_requests_total{path=\"/v1/chat/completions\",status=\"200\"} 1\n",
                     "heddle_http_requests_total{path=\"/v1/models/\",status=\"200\"} 1\n",
                     "heddle_http_requests_total{path=\"other\",status=\"404\"} 2\n", "heddle_http_requests_open 1\n",
                     "heddle_http_streams_open 0\n", "heddle_model_loaded{model=\"count/er\"} 1\n",
                     "heddle_requests_submitted_total{model=\"count/er\"} 1\n",
                     "heddle_generated_tokens_total{model=\"count/er\"} 3\n"});
}

TEST(Service, AnswersHeadLikeGetAndLogsItAsHead) {
  ServiceFixture fixture;
  EXPECT_EQ(fixture.ask("HEAD", "/health/live").status(), 200);
  EXPECT_EQ(fixture.last_log().at("method"), "HEAD");
  EXPECT_EQ(fixture.ask("HEAD", "/v1/completions").status(), 405);
}

// An error that the request did not cause is a fault of the server, and is logged.
TEST(Service, RespondsToItsOwnFaultsWith500) {
  struct BrokenModel : text::Model {
    void encode(std::string_view, std::vector<text::TokenId>&) const override { throw Error("a fault in a tokenizer"); }
  };
  text::Pipeline pipeline;
  pipeline.tokens.push_back({"a", "a"});
  pipeline.model = std::make_unique<BrokenModel>();
  const text::Tokenizer broken(std::move(pipeline));
  ServiceFixture fixture;
  fixture.serve();
  fixture.service->serve(
      {.card = {.name = "m", .context = 9, .vocabulary = 1}, .tokenizer = broken, .engine = *fixture.thread});
  expect_error(fixture.post("/tokenize", R"({"content":"a"})"), 500, "server_error", nullptr, nullptr,
               {"a fault in a tokenizer"});
  EXPECT_EQ(fixture.last_log().at("status"), 500);
  EXPECT_EQ(fixture.last_log().at("error"), "a fault in a tokenizer");
}

// The engine may refuse a request that the service accepted: the response blames the request and names the field.
TEST(Service, NamesTheFieldOfWhatTheEngineRefuses) {
  ServiceFixture fixture;
  fixture.serve();
  fixture.service->serve({.card = {.name = "m",
                                   .chat_template = test::counting_template,
                                   .context = 1000,  // the engine's is 200
                                   .vocabulary = test::counting_vocabulary,
                                   .width = test::counting_width},
                          .tokenizer = fixture.tokenizer,
                          .engine = *fixture.thread});
  const std::string text(300, 'a');
  expect_error(fixture.chat(text), 400, "invalid_request_error", nullptr, "messages", {"200", "301"});
  expect_error(fixture.complete(R"("prompt":")" + text + "\""), 400, "invalid_request_error", nullptr, "prompt",
               {"301"});
  expect_error(fixture.post("/v1/embeddings", R"({"input":")" + text + "\"}"), 400, "invalid_request_error", nullptr,
               "input", {"301"});
}

TEST(Service, NamesEveryRequest) {
  ServiceFixture fixture;
  EXPECT_EQ(fixture.get("/health/live", {{"x-request-id", "my own/1"}}).header("X-Request-Id"), "my own/1");
  const std::string longest(128, 'x');
  EXPECT_EQ(fixture.get("/health/live", {{"x-request-id", longest}}).header("X-Request-Id"), longest);
  for (const std::string& bad : {std::string(), longest + "x", std::string("a\x7f"), std::string("\u00e9")}) {
    const std::string id = fixture.get("/health/live", {{"x-request-id", bad}}).header("X-Request-Id");
    EXPECT_TRUE(id.starts_with("req-")) << id;
  }
  EXPECT_NE(fixture.get("/nothing").header("X-Request-Id"), fixture.get("/nothing").header("X-Request-Id"));
}

TEST(Service, LogsEveryRequest) {
  ServiceFixture fixture;
  fixture.serve();
  fixture.get("/nothing", {{"x-request-id", "r1"}});
  Json line = fixture.last_log();
  EXPECT_EQ(line.at("id"), "r1");
  EXPECT_EQ(line.at("peer"), "127.0.0.1:5");
  EXPECT_EQ(line.at("method"), "GET");
  EXPECT_EQ(line.at("path"), "/nothing");
  EXPECT_EQ(line.at("status"), 404);
  test::expect_says(line.at("error").get<std::string>(), {"/nothing"});
  EXPECT_GE(line.at("total_ms"), 0);

  // letters that the digits of an id cannot spell
  fixture.complete(R"("prompt":["tuv","hij"],"max_tokens":4,"n":2,"user":"me")");
  line = fixture.last_log();
  EXPECT_EQ(line.at("status"), 200);
  EXPECT_EQ(line.at("model"), "count/er");
  EXPECT_EQ(line.at("prompt_tokens"), 8) << "each prompt once, with its BOS";
  EXPECT_EQ(line.at("completion_tokens"), 16);
  EXPECT_EQ(line.at("cached_tokens"), 0);
  EXPECT_EQ(line.at("finish_reasons"), Json({"length", "length", "length", "length"}));
  EXPECT_EQ(line.at("user"), "me");
  EXPECT_LE(line.at("queue_ms"), line.at("first_token_ms"));
  EXPECT_LE(line.at("first_token_ms"), line.at("total_ms"));
  EXPECT_FALSE(line.contains("error"));
  EXPECT_FALSE(line.contains("request"));
  EXPECT_FALSE(line.contains("completions"));
  for (const char* prompt : {"tuv", "hij"})
    EXPECT_EQ(line.dump().find(prompt), std::string::npos) << "prompts are not logged: " << line;
  EXPECT_EQ(fixture.log().size(), 2);
}

TEST(Service, LogsRequestsRefusedWhileTheyAreRead) {
  ServiceFixture fixture;
  Recorded recorded;
  fixture.service->refuse({.peer = "10.0.0.1:5"}, recorded.responder(),
                          {413, "request_too_large", "", "the body is too long"});
  EXPECT_EQ(recorded.status(), 413);
  Json line = fixture.last_log();
  EXPECT_TRUE(line.at("id").get<std::string>().starts_with("req-"));
  EXPECT_EQ(recorded.header("X-Request-Id"), line.at("id").get<std::string>());
  for (const char* name : {"id", "time", "total_ms"}) line.erase(name);
  EXPECT_EQ(line, Json({{"peer", "10.0.0.1:5"}, {"status", 413}, {"error", "the body is too long"}}));
  EXPECT_NE(fixture.get("/metrics").text().find("heddle_http_requests_total{path=\"other\",status=\"413\"} 1"),
            std::string::npos);
}

TEST(Service, LogsPromptsIfAsked) {
  ServiceFixture fixture({.log_prompts = true});
  fixture.serve();
  for (const bool stream : {false, true}) {
    const std::string fields = R"("prompt":"abc","max_tokens":4,"stream":)" + std::string(stream ? "true" : "false");
    fixture.complete(fields);
    EXPECT_EQ(fixture.last_log().at("request"), "{" + fields + "}");
    EXPECT_EQ(fixture.last_log().at("completions"), Json({"defg"}));
  }
}

TEST(Service, ReadsLongRequestsOnWorkers) {
  ServiceFixture fixture({}, {}, 100'000);
  fixture.serve();
  const std::string text(20'000, 'a');
  const Json tokens = fixture.post("/tokenize", R"({"content":")" + text + "\"}").json().at("tokens");
  EXPECT_EQ(tokens, Json(std::vector<int>(20'000, 66)));
  expect_error(fixture.post("/tokenize", R"({"content":")" + text), 400, "invalid_request_error", nullptr, nullptr, {});
}

TEST(Service, EndsWithRequestsInProgress) {
  Recorded stream, whole;
  {
    ServiceFixture fixture;
    fixture.serve();
    fixture.hold_steps();
    stream = fixture.begin("POST", "/v1/chat/completions", ServiceFixture::chat_body("a", R"("stream":true)"));
    whole = fixture.begin("POST", "/v1/completions", R"({"prompt":"a"})");
    EXPECT_EQ(fixture.service->in_progress(), 2);
    fixture.service->cancel_all();
    fixture.release_steps();
  }
  EXPECT_TRUE(whole.ended());
  expect_error(whole, 503, "server_error", "service_unavailable", nullptr, {"shutting down"});
  EXPECT_TRUE(stream.ended());  // the token of the step that was held may have come first
  test::expect_says(stream.streamed() ? stream.events().back() : stream.response().body, {"error", "shutting down"});
}

TEST(Service, TokenizesAndDetokenizes) {
  ServiceFixture fixture;
  fixture.serve();
  EXPECT_EQ(fixture.post("/tokenize", R"({"content":"ab\u00e9"})").response().body, R"({"tokens":[66,67,96,97]})");
  EXPECT_EQ(fixture.post("/tokenize", R"({"content":"a<|im_end|>","add_special":true})").response().body,
            R"({"tokens":[0,66,98]})");
  EXPECT_EQ(fixture.post("/tokenize", R"({"content":"a\u00e9","with_pieces":true})").response().body,
            R"({"tokens":[{"id":66,"piece":"a"},{"id":96,"piece":[195]},{"id":97,"piece":[169]}]})");
  EXPECT_EQ(fixture.post("/detokenize", R"({"tokens":[0,66,96,97,98]})").json().at("content"), "<s>a\u00e9<|im_end|>");
  EXPECT_EQ(fixture.post("/detokenize", R"({"tokens":[0,66,96],"special":false})").json().at("content"), "a\ufffd");
  EXPECT_EQ(fixture.post("/detokenize", R"({"tokens":[]})").response().body, R"({"content":"","prompt":""})");
  EXPECT_EQ(fixture.post("/detokenize", R"({"tokens":[101]})").status(), 400);
}

TEST(Service, RendersItsTemplate) {
  ServiceFixture fixture;
  fixture.serve();
  const auto render = [&](const std::string& text) {
    return fixture.post("/apply-template", ServiceFixture::chat_body(text));
  };
  EXPECT_EQ(render("ab").response().body, R"({"prompt":"<s>ab"})");
  expect_error(render("refuse"), 400, "invalid_request_error", nullptr, "messages", {"refuses", "not that word"});
  fixture.serve("{% if %}");
  expect_error(render("ab"), 400, "invalid_request_error", nullptr, "messages", {"cannot be used"});
  fixture.serve("");
  expect_error(render("ab"), 400, "invalid_request_error", nullptr, "messages", {"no chat template"});
  expect_error(fixture.chat("ab"), 400, "invalid_request_error", nullptr, "messages", {"no chat template"});
  EXPECT_EQ(fixture.complete(R"("prompt":"ab","max_tokens":1)").status(), 200);
}

TEST(Service, GivesEmbeddings) {
  ServiceFixture fixture;
  fixture.serve();
  const Json answer = fixture.post("/v1/embeddings", R"({"input":["a",[66,66,67]],"dimensions":8})").json();
  EXPECT_EQ(answer.at("object"), "list");
  EXPECT_EQ(answer.at("model"), "count/er");
  EXPECT_EQ(answer.at("usage"), Json({{"prompt_tokens", 5}, {"total_tokens", 5}}));
  // BOS is at 0, 'a' at 66 % 8, 'b' at 67 % 8: the mean, of length 1
  const auto vector = answer.at("data")[0].at("embedding").get<std::vector<double>>();
  ASSERT_EQ(vector.size(), 8);
  EXPECT_NEAR(vector[0], std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(vector[2], std::sqrt(0.5), 1e-6);
  const auto second = answer.at("data")[1].at("embedding").get<std::vector<double>>();
  EXPECT_NEAR(second[2], 2 / std::sqrt(5.), 1e-6);
  EXPECT_NEAR(second[3], 1 / std::sqrt(5.), 1e-6);
  EXPECT_EQ(fixture.last_log().at("prompt_tokens"), 5);

  expect_error(fixture.post("/v1/embeddings", R"({"input":"a","dimensions":9})"), 400, "invalid_request_error", nullptr,
               "dimensions", {"at most 8", "found 9"});
  expect_error(fixture.post("/v1/embeddings", R"({"input":["a",")" + std::string(201, 'b') + "\"]}"), 400,
               "invalid_request_error", "context_length_exceeded", "input[1]", {"200 tokens", "202 tokens"});
}

TEST(Service, TakesOtherKeysWhileItRuns) {
  ServiceFixture fixture({.keys = {"one"}});
  fixture.serve();
  const auto status = [&](const std::string& key) {
    return fixture.get("/v1/models", {{"authorization", "Bearer " + key}}).status();
  };
  EXPECT_EQ(status("one"), 200);
  fixture.service->set_keys({"two", "three"});
  EXPECT_EQ(status("one"), 401);
  EXPECT_EQ(status("two"), 200);
  EXPECT_EQ(status("three"), 200);
  EXPECT_THROW(fixture.service->set_keys({""}), Error);
  EXPECT_EQ(status("two"), 200);
}

// Text that is far too long is not tokenized to its end.
TEST(Service, RefusesAPromptFarBeyondTheContextEarly) {
  ServiceFixture fixture;
  fixture.serve();
  const std::string text(1 << 20, 'a');
  const auto expect_refused = [](const Recorded& answer, const char* field) {
    EXPECT_EQ(answer.status(), 400);
    const Json error = answer.json().at("error");
    EXPECT_EQ(error.at("code"), "context_length_exceeded");
    EXPECT_EQ(error.at("param"), field);
    test::expect_says(error.at("message").get<std::string>(), {"200 tokens", "more than 400 tokens"});
  };
  expect_refused(fixture.complete(R"("prompt":")" + text + "\""), "prompt");
  expect_refused(fixture.complete(R"("prompt":["a",")" + text + "\"]"), "prompt[1]");
  expect_refused(fixture.post("/v1/embeddings", R"({"input":")" + text + "\"}"), "input");
  expect_refused(fixture.chat(text), "messages");
}

// Requests that do not fit in the queue are submitted when the first ones have ended.
TEST(Service, SubmitsALargeBatchThroughASmallQueue) {
  ServiceFixture fixture({}, {.max_waiting = 3});
  fixture.serve();
  std::string inputs;
  for (int i = 0; i < 300; ++i) inputs += fmt::format("{}[{}]", i ? "," : "", i % 96);
  const Json data = fixture.post("/v1/embeddings", R"({"input":[)" + inputs + "]}").json().at("data");
  ASSERT_EQ(data.size(), 300);
  for (size_t i = 0; i < 300; ++i) EXPECT_EQ(data[i].at("embedding")[i % 96 % 8], 1.0) << i;

  const Json choices = fixture.complete(R"("prompt":[)" + inputs + R"(],"max_tokens":2)").json().at("choices");
  ASSERT_EQ(choices.size(), 300);
  for (size_t i = 0; i < 300; ++i) EXPECT_EQ(choices[i].at("index"), i);
}

TEST(Service, RefusesATraceOfOtherRoutes) {
  ServiceFixture fixture;
  fixture.serve();
  const Recorded refused = fixture.post("/v1/embeddings", R"({"input":"a"})", {{"x-trace-level", "request"}});
  expect_error(refused, 400, "invalid_request_error", nullptr, "X-Trace-Level", {"chats and completions"});
  EXPECT_EQ(fixture.complete(R"("prompt":"a")", {{"x-trace-level", "request"}}).status(), 200);
  EXPECT_EQ(fixture.get("/v1/models", {{"x-trace-level", "step"}}).status(), 400);
}

// A page of any site can make a browser send a body without a type.
TEST(Service, NeedsATypeFromBrowsers) {
  ServiceFixture fixture;
  fixture.serve();
  EXPECT_EQ(fixture.complete(R"("prompt":"a")").status(), 200);
  EXPECT_EQ(fixture.complete(R"("prompt":"a")", {{"origin", "http://localhost"}}).status(), 415);
  EXPECT_EQ(fixture.complete(R"("prompt":"a")", {{"origin", "http://localhost"}, {"content-type", "application/json"}})
                .status(),
            200);
}

TEST(Service, RefusesOriginsThatCanBeRebound) {
  const auto ask = [](ServiceFixture& fixture, std::string origin) {
    fixture.serve();
    return fixture.complete(R"("prompt":"a")", {{"origin", origin}, {"content-type", "application/json"}});
  };
  ServiceFixture fixture;
  expect_error(ask(fixture, "http://evil.example:8080"), 403, "invalid_request_error", "unknown_origin", nullptr,
               {"evil.example", "--cors"});
  EXPECT_EQ(fixture.get("/health/live", {{"origin", "http://evil.example"}}).status(), 200);
  ServiceFixture other({.cors_origin = "https://a.example"});
  EXPECT_EQ(ask(other, "https://evil.example").status(), 403);
  EXPECT_EQ(ask(other, "https://a.example").status(), 200);
  ServiceFixture all({.cors_origin = "*"});
  EXPECT_EQ(ask(all, "https://a.example").status(), 200);
  ServiceFixture locked({.keys = {"key"}});
  EXPECT_EQ(ask(locked, "https://a.example").status(), 401) << "a key is enough";
}

TEST(Service, RespondsToRequestsRefusedWhileTheyAreRead) {
  ServiceFixture fixture({.cors_origin = "*"});
  Recorded recorded;
  fixture.service->refuse(
      {.method = "POST", .path = "/v1/completions", .headers = {{"x-request-id", "mine"}}, .peer = "p:1"},
      recorded.responder(), {413, "request_too_large", "", "too long"});
  expect_error(recorded, 413, "invalid_request_error", "request_too_large", nullptr, {"too long"});
  EXPECT_EQ(recorded.header("X-Request-Id"), "mine");
  EXPECT_EQ(recorded.header("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(fixture.last_log().at("path"), "/v1/completions");
  EXPECT_EQ(fixture.last_log().at("status"), 413);
  test::expect_says(fixture.get("/metrics").response().body, {R"(path="/v1/completions",status="413"} 1)"});
}

TEST(Service, RefusesEncodedBodies) {
  ServiceFixture fixture;
  fixture.serve();
  const Recorded refused = fixture.complete(R"("prompt":"a")", {{"content-encoding", "br"}});
  expect_error(refused, 415, "invalid_request_error", "unsupported_media_type", nullptr, {"Content-Encoding", "br"});
  EXPECT_EQ(fixture.complete(R"("prompt":"a")", {{"content-encoding", "Identity"}}).status(), 200);
}

TEST(Service, TakesAnyQuery) {
  ServiceFixture fixture;
  fixture.serve();
  EXPECT_EQ(fixture.get("/v1/models?limit=5&x").status(), 200);
  EXPECT_EQ(fixture.post("/v1/completions?beta=true", R"({"prompt":"a"})").status(), 200);
}

TEST(Service, NamesTheFieldsThatItIgnores) {
  ServiceFixture fixture;
  fixture.serve();
  const Recorded answer = fixture.complete(R"("prompt":"a","max_tokens":1,"store":true,"x, y":{"z":1})");
  EXPECT_EQ(answer.status(), 200);
  EXPECT_EQ(answer.header("X-Heddle-Ignored"), "store, x??y");
  EXPECT_EQ(fixture.complete(R"("prompt":"a","max_tokens":1)").header("X-Heddle-Ignored"), "");
}

TEST(Service, LimitsEchoedLogProbabilities) {
  ServiceFixture fixture({}, {}, 100'000);
  fixture.serve();
  std::string prompt = "1";
  for (int i = 1; i < 2000; ++i) prompt += ",1";
  const std::string fields = R"("prompt":[)" + prompt + R"(],"max_tokens":1,"echo":true,"logprobs":1,"n":)";
  const Recorded refused = fixture.complete(fields + "128");
  expect_error(refused, 400, "invalid_request_error", nullptr, "echo", {"131072", "256000"});
  EXPECT_EQ(fixture.complete(fields + "2").json().at("choices").size(), 2);
}

TEST(Service, AdmitsRequestsByTheirHeader) {
  ServiceFixture fixture({.keys = {"secret"}});
  const auto admit = [&](std::string path, std::vector<Header> headers) {
    fixture.service->admit({.method = "POST", .path = std::move(path), .headers = std::move(headers)});
  };
  EXPECT_THROW(admit("/v1/completions", {}), ApiError);
  EXPECT_THROW(admit("/v1/completions", {{"authorization", "Bearer wrong"}}), ApiError);
  EXPECT_NO_THROW(admit("/v1/completions", {{"authorization", "Bearer secret"}}));
  EXPECT_NO_THROW(admit("/nothing", {}));
}

}  // namespace
}  // namespace heddle::server
