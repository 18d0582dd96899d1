// Paths, methods, keys, health, pages and the log.
#include "server/service/service.h"

#include <gtest/gtest.h>

#include "server/api/api_error.h"
#include "server/http/origins.h"
#include "tests/server/service/service_fixture.h"
#include "tests/support/refused.h"

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
  ServiceFixture house;
  house.serve();
  expect_error(house.get("/v1/nothing"), 404, "invalid_request_error", "unknown_url", nullptr, {"/v1/nothing"});
  expect_error(house.get("/v1/chat/completions/"), 404, "invalid_request_error", "unknown_url", nullptr, {});
  const Recorded get = house.get("/v1/chat/completions");
  expect_error(get, 405, "invalid_request_error", "method_not_supported", nullptr, {"expected POST", "GET"});
  EXPECT_EQ(get.header("Allow"), "POST");
  const Recorded options = house.ask("OPTIONS", "/health");
  EXPECT_EQ(options.status(), 405) << "nobody asked for CORS";
  EXPECT_EQ(options.header("Allow"), "GET");
  EXPECT_EQ(options.header("Access-Control-Allow-Origin"), "");
}

TEST(Service, AnswersPagesOfOtherSitesWhereAsked) {
  ServiceFixture house({.cors_origin = "https://a.example"});
  house.serve();
  const Recorded before = house.ask("OPTIONS", "/v1/completions", {},
                                    {{"access-control-request-method", "POST"},
                                     {"access-control-request-headers", "authorization,content-type,x-stainless-os"}});
  EXPECT_EQ(before.status(), 204);
  EXPECT_EQ(before.response().body, "");
  EXPECT_EQ(before.header("Access-Control-Allow-Origin"), "https://a.example");
  EXPECT_EQ(before.header("Access-Control-Allow-Methods"), "POST, OPTIONS");
  EXPECT_EQ(before.header("Access-Control-Allow-Headers"), "authorization,content-type,x-stainless-os");
  EXPECT_EQ(before.header("Vary"), "Origin");
  EXPECT_EQ(house.ask("OPTIONS", "/metrics", {}, {{"access-control-request-headers", "a\r\nb: c"}})
                .header("Access-Control-Allow-Headers"),
            "");
  EXPECT_EQ(house.get("/v1/models").header("Access-Control-Allow-Origin"), "https://a.example");
  const Recorded wrong = house.ask("PUT", "/v1/models");
  EXPECT_EQ(wrong.status(), 405);
  EXPECT_EQ(wrong.header("Allow"), "GET, OPTIONS");
  EXPECT_EQ(wrong.header("Access-Control-Allow-Origin"), "https://a.example") << "so that the page can read it";
}

TEST(Service, RefusesAnOriginThatIsNone) {
  EXPECT_REFUSED(Service({.cors_origin = "a\r\nb"}), "CORS", "expected an origin", "a\\x0d\\nb");
}

TEST(Service, WantsAKeyForAllButHealth) {
  ServiceFixture house({.keys = {"sk-1"}});
  house.serve();
  for (const char* path : {"/v1/models", "/v1/models/count%2Fer", "/metrics", "/v1/effective-config"}) {
    expect_error(house.get(path), 401, "invalid_request_error", "invalid_api_key", nullptr, {"API key"});
    expect_error(house.get(path, {{"authorization", "Bearer sk-2"}}), 401, "invalid_request_error", "invalid_api_key",
                 nullptr, {});
    EXPECT_EQ(house.get(path, {{"authorization", "Bearer sk-1"}}).status(), 200) << path;
  }
  EXPECT_EQ(house.post("/v1/chat/completions", "{}").status(), 401);
  EXPECT_EQ(house.post("/tokenize", R"({"content":"a"})").status(), 401);
  for (const char* path : {"/health", "/health/live", "/health/ready"}) EXPECT_EQ(house.get(path).status(), 200);
  EXPECT_EQ(house.get("/nothing").status(), 404);
}

TEST(Service, WantsJson) {
  ServiceFixture house;
  house.serve();
  const auto tokenize = [&](ServiceFixture::Headers headers) {
    return house.post("/tokenize", R"({"content":"a"})", std::move(headers));
  };
  EXPECT_EQ(tokenize({}).status(), 200);
  EXPECT_EQ(tokenize({{"content-type", "application/json"}}).status(), 200);
  EXPECT_EQ(tokenize({{"content-type", "Application/JSON ; charset=utf-8"}}).status(), 200);
  for (const char* type : {"application/x-www-form-urlencoded", "text/plain", "", "application/jsonx"})
    expect_error(tokenize({{"content-type", type}}), 415, "invalid_request_error", "unsupported_media_type", nullptr,
                 {"expected application/json", type});
}

TEST(Service, TellsHowItIs) {
  ServiceFixture house;
  EXPECT_EQ(house.get("/health/live").response().body, R"({"status":"ok"})");
  EXPECT_EQ(house.get("/health/ready").response().body, R"({"status":"loading"})");
  EXPECT_EQ(house.get("/health/ready").status(), 503);
  EXPECT_EQ(house.get("/health").status(), 503);
  EXPECT_EQ(house.get("/metrics").status(), 200);
  const Recorded early = house.chat("a");
  expect_error(early, 503, "server_error", "service_unavailable", nullptr, {"being loaded"});
  EXPECT_EQ(early.header("Retry-After"), "5");
  EXPECT_EQ(house.get("/v1/models").status(), 503);

  house.serve();
  EXPECT_EQ(house.get("/health/ready").response().body, R"({"status":"ok"})");
  EXPECT_EQ(house.get("/health").status(), 200);
  EXPECT_EQ(house.chat("a", R"("max_tokens":1)").status(), 200);

  house.service->drain();
  EXPECT_EQ(house.get("/health/ready").response().body, R"({"status":"draining"})");
  EXPECT_EQ(house.get("/health/live").status(), 200);
  const Recorded late = house.chat("a");
  expect_error(late, 503, "server_error", "service_unavailable", nullptr, {"about to end"});
  EXPECT_EQ(late.header("Retry-After"), "5");
  EXPECT_EQ(house.post("/tokenize", R"({"content":"a"})").status(), 200) << "it takes no work";
}

TEST(Service, ListsItsModel) {
  ServiceFixture house;
  house.serve();
  const Json list = house.get("/v1/models").json();
  EXPECT_EQ(list.at("object"), "list");
  ASSERT_EQ(list.at("data").size(), 1);
  const Json model = list.at("data")[0];
  EXPECT_EQ(model.at("id"), "count/er");
  EXPECT_EQ(model.at("object"), "model");
  EXPECT_EQ(model.at("owned_by"), "heddle");
  EXPECT_GT(model.at("created"), 1'700'000'000);
  EXPECT_EQ(model.at("meta"), Json({{"context", 200}, {"vocabulary", 100}, {"width", 8}, {"chat", true}}));
  EXPECT_EQ(house.get("/v1/models/count/er").json(), model);
  EXPECT_EQ(house.get("/v1/models/count%2fer").json(), model);
  expect_error(house.get("/v1/models/other"), 404, "invalid_request_error", "model_not_found", "model",
               {"\"other\"", "\"count/er\""});
  expect_error(house.chat("a", R"("model":"gpt-4o")"), 404, "invalid_request_error", "model_not_found", "model",
               {"\"gpt-4o\"", "\"count/er\""});
  EXPECT_EQ(house.chat("a", R"("model":"count/er","max_tokens":1)").status(), 200);
}

TEST(Service, ShowsWhatIsInForce) {
  ServiceFixture house({.keys = {"secret"}, .log_prompts = true});
  house.serve();
  const ServiceFixture::Headers key{{"authorization", "Bearer secret"}};
  EXPECT_EQ(house.chat("a", R"("max_tokens":5)", key).status(), 200);
  const Recorded answer = house.get("/v1/effective-config", key);
  EXPECT_EQ(answer.response().body.find("secret"), std::string::npos) << "keys are not shown";
  const Json page = answer.json();
  EXPECT_EQ(page.at("config"), Json({{"device", "none"}}));
  EXPECT_EQ(page.at("service"), Json({{"api_keys", 1}, {"cors_origin", nullptr}, {"log_prompts", true}}));
  EXPECT_EQ(page.at("model").at("id"), "count/er");
  const Json measured = page.at("measured");
  EXPECT_EQ(measured.at("http_requests"), 1);
  EXPECT_EQ(measured.at("requests"), 1);
  EXPECT_EQ(measured.at("tokens_made"), 5);
  EXPECT_GT(measured.at("tokens_per_second"), 0);
  EXPECT_EQ(measured.at("time_to_first_token").at("count"), 1);
  EXPECT_GT(measured.at("time_to_first_token").at("median_ms"), 0);
  EXPECT_EQ(measured.at("kv_blocks").at("all"), 256);
}

TEST(Service, CountsForPrometheus) {
  ServiceFixture house;
  house.serve();
  house.chat("a", R"("max_tokens":3)");
  house.get("/whatever/1");
  house.get("/whatever/2");
  house.get("/v1/models/count/er");
  const Recorded page = house.get("/metrics");
  EXPECT_EQ(page.response().type, "text/plain; version=0.0.4; charset=utf-8");
  test::expect_says(
      page.response().body,
      {"heddle_info{", "model=\"count/er\"",
       "heddle_http_requests_total{path=\"/v1/chat/completions\",status=\"200\"} 1\n",
       "heddle_http_requests_total{path=\"/v1/models/\",status=\"200\"} 1\n",
       "heddle_http_requests_total{path=\"other\",status=\"404\"} 2\n", "heddle_http_requests_open 1\n",
       "heddle_http_streams_open 0\n", "heddle_requests_submitted_total 1\n", "heddle_tokens_made_total 3\n"});
}

TEST(Service, NamesEveryRequest) {
  ServiceFixture house;
  EXPECT_EQ(house.get("/health/live", {{"x-request-id", "my own/1"}}).header("X-Request-Id"), "my own/1");
  const std::string longest(128, 'x');
  EXPECT_EQ(house.get("/health/live", {{"x-request-id", longest}}).header("X-Request-Id"), longest);
  for (const std::string& bad : {std::string(), longest + "x", std::string("a\x7f"), std::string("\u00e9")}) {
    const std::string made = house.get("/health/live", {{"x-request-id", bad}}).header("X-Request-Id");
    EXPECT_TRUE(made.starts_with("req-")) << made;
  }
  EXPECT_NE(house.get("/nothing").header("X-Request-Id"), house.get("/nothing").header("X-Request-Id"));
}

TEST(Service, WritesALineForEveryRequest) {
  ServiceFixture house;
  house.serve();
  house.get("/nothing", {{"x-request-id", "r1"}});
  Json line = house.last_log();
  EXPECT_EQ(line.at("id"), "r1");
  EXPECT_EQ(line.at("peer"), "127.0.0.1:5");
  EXPECT_EQ(line.at("method"), "GET");
  EXPECT_EQ(line.at("path"), "/nothing");
  EXPECT_EQ(line.at("status"), 404);
  test::expect_says(line.at("error").get<std::string>(), {"/nothing"});
  EXPECT_GE(line.at("total_ms"), 0);

  house.complete(R"("prompt":["abc","hij"],"max_tokens":4,"n":2,"user":"me")");
  line = house.last_log();
  EXPECT_EQ(line.at("status"), 200);
  EXPECT_EQ(line.at("model"), "count/er");
  EXPECT_EQ(line.at("prompt_tokens"), 8) << "each prompt once, with its BOS";
  EXPECT_EQ(line.at("completion_tokens"), 16);
  EXPECT_EQ(line.at("cached_tokens"), 0);
  EXPECT_EQ(line.at("finish"), Json({"length", "length", "length", "length"}));
  EXPECT_EQ(line.at("user"), "me");
  EXPECT_LE(line.at("queue_ms"), line.at("first_token_ms"));
  EXPECT_LE(line.at("first_token_ms"), line.at("total_ms"));
  EXPECT_FALSE(line.contains("error"));
  EXPECT_FALSE(line.contains("request"));
  EXPECT_FALSE(line.contains("answers"));
  EXPECT_EQ(line.dump().find("abc"), std::string::npos) << "prompts are not logged";
  EXPECT_EQ(house.log().size(), 2);
}

TEST(Service, WritesALineForWhatWasRefusedBeforeItCame) {
  ServiceFixture house;
  Recorded recorded;
  house.service->refuse({.peer = "10.0.0.1:5"}, recorded.answer(),
                        {413, "invalid_request_error", "request_too_large", "", "the body is too long"});
  EXPECT_EQ(recorded.status(), 413);
  Json line = house.last_log();
  EXPECT_TRUE(line.at("id").get<std::string>().starts_with("req-"));
  EXPECT_EQ(recorded.header("X-Request-Id"), line.at("id").get<std::string>());
  line.erase("id"), line.erase("time"), line.erase("total_ms");
  EXPECT_EQ(line, Json({{"peer", "10.0.0.1:5"}, {"status", 413}, {"error", "the body is too long"}}));
  EXPECT_NE(house.get("/metrics").text().find("heddle_http_requests_total{path=\"other\",status=\"413\"} 1"),
            std::string::npos);
}

TEST(Service, LogsPromptsWhereAsked) {
  ServiceFixture house({.log_prompts = true});
  house.serve();
  for (const bool stream : {false, true}) {
    const std::string fields = R"("prompt":"abc","max_tokens":4,"stream":)" + std::string(stream ? "true" : "false");
    house.complete(fields);
    EXPECT_EQ(house.last_log().at("request"), "{" + fields + "}");
    EXPECT_EQ(house.last_log().at("answers"), Json({"defg"}));
  }
}

TEST(Service, ReadsLongRequestsElsewhere) {
  ServiceFixture house({}, {}, 100'000);
  house.serve();
  const std::string text(20'000, 'a');
  const Json tokens = house.post("/tokenize", R"({"content":")" + text + "\"}").json().at("tokens");
  EXPECT_EQ(tokens, Json(std::vector<int>(20'000, 66)));
  expect_error(house.post("/tokenize", R"({"content":")" + text), 400, "invalid_request_error", nullptr, nullptr, {});
}

TEST(Service, EndsWithWorkUnderWay) {
  Recorded stream, whole;
  {
    ServiceFixture house;
    house.serve();
    house.hold_steps();
    stream = house.begin("POST", "/v1/chat/completions", ServiceFixture::chat_body("a", R"("stream":true)"));
    whole = house.begin("POST", "/v1/completions", R"({"prompt":"a"})");
    EXPECT_EQ(house.service->under_way(), 2);
    house.service->cancel_all();
    house.release_steps();
  }
  EXPECT_TRUE(whole.ended());
  expect_error(whole, 503, "server_error", "service_unavailable", nullptr, {"given up"});
  EXPECT_TRUE(stream.ended());  // the token of the step that was held may have come first
  test::expect_says(stream.streamed() ? stream.events().back() : stream.response().body, {"error", "given up"});
}

TEST(Service, TokenizesAndBack) {
  ServiceFixture house;
  house.serve();
  EXPECT_EQ(house.post("/tokenize", R"({"content":"ab\u00e9"})").response().body, R"({"tokens":[66,67,96,97]})");
  EXPECT_EQ(house.post("/tokenize", R"({"content":"a<|im_end|>","add_special":true})").response().body,
            R"({"tokens":[0,66,98]})");
  EXPECT_EQ(house.post("/tokenize", R"({"content":"a\u00e9","with_pieces":true})").response().body,
            R"({"tokens":[{"id":66,"piece":"a"},{"id":96,"piece":[195]},{"id":97,"piece":[169]}]})");
  EXPECT_EQ(house.post("/detokenize", R"({"tokens":[0,66,96,97,98]})").json().at("content"), "<s>a\u00e9<|im_end|>");
  EXPECT_EQ(house.post("/detokenize", R"({"tokens":[0,66,96],"special":false})").json().at("content"), "a\ufffd");
  EXPECT_EQ(house.post("/detokenize", R"({"tokens":[]})").response().body, R"({"content":""})");
  EXPECT_EQ(house.post("/detokenize", R"({"tokens":[101]})").status(), 400);
}

TEST(Service, RendersItsTemplate) {
  ServiceFixture house;
  house.serve();
  const auto render = [&](const std::string& text) {
    return house.post("/apply-template", ServiceFixture::chat_body(text));
  };
  EXPECT_EQ(render("ab").response().body, R"({"prompt":"<s>ab"})");
  expect_error(render("refuse"), 400, "invalid_request_error", nullptr, "messages", {"refuses", "not that word"});
  house.serve("{% if %}");
  expect_error(render("ab"), 400, "invalid_request_error", nullptr, "messages", {"cannot be used"});
  house.serve("");
  expect_error(render("ab"), 400, "invalid_request_error", nullptr, "messages", {"no chat template"});
  expect_error(house.chat("ab"), 400, "invalid_request_error", nullptr, "messages", {"no chat template"});
  EXPECT_EQ(house.complete(R"("prompt":"ab","max_tokens":1)").status(), 200);
}

TEST(Service, GivesEmbeddings) {
  ServiceFixture house;
  house.serve();
  const Json answer = house.post("/v1/embeddings", R"({"input":["a",[66,66,67]],"dimensions":8})").json();
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
  EXPECT_EQ(house.last_log().at("prompt_tokens"), 5);

  expect_error(house.post("/v1/embeddings", R"({"input":"a","dimensions":4})"), 400, "invalid_request_error", nullptr,
               "dimensions", {"expected 8", "found 4"});
  expect_error(house.post("/v1/embeddings", R"({"input":["a",")" + std::string(201, 'b') + "\"]}"), 400,
               "invalid_request_error", "context_length_exceeded", "input[1]", {"200 tokens", "202 tokens"});
}

// What does not fit in the queue comes when the first ones have ended.
TEST(Service, GivesManyAnswersThroughANarrowQueue) {
  ServiceFixture house({}, {.max_waiting = 3});
  house.serve();
  std::string inputs;
  for (int i = 0; i < 300; ++i) inputs += fmt::format("{}[{}]", i ? "," : "", i % 96);
  const Json data = house.post("/v1/embeddings", R"({"input":[)" + inputs + "]}").json().at("data");
  ASSERT_EQ(data.size(), 300);
  for (size_t i = 0; i < 300; ++i) EXPECT_EQ(data[i].at("embedding")[i % 96 % 8], 1.0) << i;

  const Json choices = house.complete(R"("prompt":[)" + inputs + R"(],"max_tokens":2)").json().at("choices");
  ASSERT_EQ(choices.size(), 300);
  for (size_t i = 0; i < 300; ++i) EXPECT_EQ(choices[i].at("index"), i);
}

TEST(Service, RefusesATraceWhereThereIsNoPlaceForIt) {
  ServiceFixture house;
  house.serve();
  const Recorded refused = house.post("/v1/embeddings", R"({"input":"a"})", {{"x-trace-level", "request"}});
  expect_error(refused, 400, "invalid_request_error", nullptr, "X-Trace-Level", {"chats and completions"});
  EXPECT_EQ(house.complete(R"("prompt":"a")", {{"x-trace-level", "request"}}).status(), 200);
  EXPECT_EQ(house.get("/v1/models", {{"x-trace-level", "step"}}).status(), 400);
}

// A page of another site can make a browser send a body without a type.
TEST(Service, WantsATypeOfWhatABrowserSends) {
  ServiceFixture house;
  house.serve();
  EXPECT_EQ(house.complete(R"("prompt":"a")").status(), 200);
  EXPECT_EQ(house.complete(R"("prompt":"a")", {{"origin", "http://localhost"}}).status(), 415);
  EXPECT_EQ(house.complete(R"("prompt":"a")", {{"origin", "http://localhost"}, {"content-type", "application/json"}})
                .status(),
            200);
}

TEST(Service, KeepsOutPagesWhoseNameMayBeMadeToMeanThisMachine) {
  const auto ask = [](ServiceFixture& house, std::string origin) {
    house.serve();
    return house.complete(R"("prompt":"a")", {{"origin", origin}, {"content-type", "application/json"}});
  };
  ServiceFixture house;
  expect_error(ask(house, "http://evil.example:8080"), 403, "invalid_request_error", "unknown_origin", nullptr,
               {"evil.example", "--cors"});
  EXPECT_EQ(house.get("/health/live", {{"origin", "http://evil.example"}}).status(), 200);
  ServiceFixture other({.cors_origin = "https://a.example"});
  EXPECT_EQ(ask(other, "https://evil.example").status(), 403);
  EXPECT_EQ(ask(other, "https://a.example").status(), 200);
  ServiceFixture all({.cors_origin = "*"});
  EXPECT_EQ(ask(all, "https://a.example").status(), 200);
  ServiceFixture locked({.keys = {"key"}});
  EXPECT_EQ(ask(locked, "https://a.example").status(), 401) << "who has the key may";
}

TEST(Service, KnowsWhichNamesMayBeTakenOver) {
  for (const char* origin : {"http://a.example", "https://a.example:8443", "http://127.0.0.1.evil.example",
                             "http://localhost.evil.example", "http://1.2.3.4e"})
    EXPECT_TRUE(may_be_taken_over(origin)) << origin;
  for (const char* origin :
       {"http://127.0.0.1:8080", "http://192.168.1.5", "http://[::1]:8080", "http://localhost:3000",
        "http://a.localhost", "https://gpubox", "null", "app://a.example", ""})
    EXPECT_FALSE(may_be_taken_over(origin)) << origin;
}

TEST(Service, AnswersWhatWasRefusedBeforeItCame) {
  ServiceFixture house({.cors_origin = "*"});
  Recorded recorded;
  house.service->refuse(
      {.method = "POST", .path = "/v1/completions", .headers = {{"x-request-id", "mine"}}, .peer = "p:1"},
      recorded.answer(), {413, "invalid_request_error", "request_too_large", "", "too long"});
  expect_error(recorded, 413, "invalid_request_error", "request_too_large", nullptr, {"too long"});
  EXPECT_EQ(recorded.header("X-Request-Id"), "mine");
  EXPECT_EQ(recorded.header("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(house.last_log().at("path"), "/v1/completions");
  EXPECT_EQ(house.last_log().at("status"), 413);
  test::expect_says(house.get("/metrics").response().body, {R"(path="/v1/completions",status="413"} 1)"});
}

TEST(Service, RefusesEncodedBodies) {
  ServiceFixture house;
  house.serve();
  const Recorded refused = house.complete(R"("prompt":"a")", {{"content-encoding", "gzip"}});
  expect_error(refused, 415, "invalid_request_error", "unsupported_media_type", nullptr, {"Content-Encoding", "gzip"});
  EXPECT_EQ(house.complete(R"("prompt":"a")", {{"content-encoding", "Identity"}}).status(), 200);
}

TEST(Service, KnowsWhatAnOriginIs) {
  for (const char* text : {"https://a.example", "http://localhost:3000", "app://obsidian.md"})
    EXPECT_TRUE(is_origin(text));
  for (const char* text :
       {"", "*", "a.example", "https://", "://a", "https://a.example/", "https://a b", "https://u@a"})
    EXPECT_FALSE(is_origin(text)) << text;
}

TEST(Service, RefusesWhatStandsBehindThePath) {
  ServiceFixture house;
  house.serve();
  expect_error(house.get("/v1/models?limit=5&x"), 400, "invalid_request_error", nullptr, "limit",
               {"/v1/models", "expected nothing", "limit=5&x"});
  expect_error(house.post("/v1/completions?stream", R"({"prompt":"a"})"), 400, "invalid_request_error", nullptr,
               "stream", {"expected nothing"});
  EXPECT_EQ(house.get("/v1/models?").status(), 200);
}

TEST(Service, BoundsWhatIsEchoed) {
  ServiceFixture house({}, {}, 100'000);
  house.serve();
  std::string prompt = "1";
  for (int i = 1; i < 2000; ++i) prompt += ",1";
  const std::string fields = R"("prompt":[)" + prompt + R"(],"max_tokens":1,"echo":true,"logprobs":1,"n":)";
  const Recorded refused = house.complete(fields + "128");
  expect_error(refused, 400, "invalid_request_error", nullptr, "echo", {"131072", "256000"});
  EXPECT_EQ(house.complete(fields + "2").json().at("choices").size(), 2);
}

TEST(Service, SaysWhoMayBeforeTheBodyCame) {
  ServiceFixture house({.keys = {"secret"}});
  const auto admit = [&](std::string path, std::vector<Header> headers) {
    house.service->admit({.method = "POST", .path = std::move(path), .headers = std::move(headers)});
  };
  EXPECT_THROW(admit("/v1/completions", {}), ApiError);
  EXPECT_THROW(admit("/v1/completions", {{"authorization", "Bearer wrong"}}), ApiError);
  EXPECT_NO_THROW(admit("/v1/completions", {{"authorization", "Bearer secret"}}));
  EXPECT_NO_THROW(admit("/nothing", {}));
}

}  // namespace
}  // namespace heddle::server
