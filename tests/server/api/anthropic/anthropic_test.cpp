// POST /v1/messages and the other routes of Anthropic's API, through the service.
#include "server/api/anthropic/anthropic.h"

#include <gtest/gtest.h>

#include "tests/server/api/anthropic/message_stream.h"
#include "tests/server/api/request_fixture.h"
#include "tests/server/service/service_fixture.h"
#include "tests/server/service/weft_service.h"

namespace heddle::server {
namespace {

using test::Recorded;
using test::ServiceFixture;

const std::vector<Header> anthropic_headers{{"anthropic-version", "2023-06-01"}, {"anthropic-beta", "a-2025-01-01,b"}};

Recorded ask_message(ServiceFixture& fixture, const std::string& text,
                     const std::string& fields = R"("max_tokens":5)") {
  return fixture.post("/v1/messages?beta=true", ServiceFixture::chat_body(text, fields), anthropic_headers);
}

TEST(Messages, WholeAndStreamed) {
  ServiceFixture fixture;
  fixture.serve();
  const Recorded whole = ask_message(fixture, "a", R"("max_tokens":5,"betas":["x"])");
  ASSERT_EQ(whole.status(), 200u) << whole.response().body;
  EXPECT_EQ(whole.header("X-Heddle-Ignored"), "betas");
  Json message = whole.json();
  EXPECT_TRUE(message["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(message["model"], "count/er");
  EXPECT_EQ(message["content"], Json::parse(R"([{"type":"text","text":"bcdef","citations":null}])"));
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  EXPECT_EQ(message["usage"]["input_tokens"], 2);
  EXPECT_EQ(message["usage"]["output_tokens"], 5);
  EXPECT_EQ(whole.header("request-id"), whole.header("X-Request-Id"));
  EXPECT_NE(whole.header("request-id"), "");

  const Recorded streamed = ask_message(fixture, "a", R"("max_tokens":5,"stream":true)");
  ASSERT_TRUE(streamed.streamed());
  EXPECT_EQ(streamed.header("request-id"), streamed.header("X-Request-Id"));
  Json added_up = test::read_message_stream(streamed.text()).message;
  added_up["id"] = message["id"];
  EXPECT_EQ(added_up, message);
}

TEST(Messages, Ends) {
  ServiceFixture fixture({}, {}, 40);
  fixture.serve();
  const auto end = [&](const std::string& text, const std::string& fields) {
    const Json message = ask_message(fixture, text, fields).json();
    return Json{message["content"][0]["text"], message["stop_reason"], message["stop_sequence"]}.dump();
  };
  EXPECT_EQ(end("x", R"("max_tokens":500)"), "[\"yz{|}~\u00e9\",\"end_turn\",null]");
  EXPECT_EQ(end("a", R"("max_tokens":500,"stop_sequences":["q","ef"])"), R"(["bcd","stop_sequence","ef"])");
  const Recorded full = ask_message(fixture, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", R"("max_tokens":32000)");
  EXPECT_EQ(full.json()["stop_reason"], "model_context_window_exceeded");
  EXPECT_EQ(full.header("X-Heddle-Clamped"), "max_tokens=9");
}

// The prompt ends inside of a thought: ">" is followed by "?@A", and after the budget by the mark that ends it.
TEST(Messages, Thinking) {
  ServiceFixture fixture;
  fixture.serve("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}<think>{# </think> #}");
  const std::string fields = R"("max_tokens":20,"thinking":{"type":"enabled","budget_tokens":3)";
  const Json shown = ask_message(fixture, "a", fields + "}").json();
  EXPECT_EQ(shown["content"], Json::parse(R"([{"type":"thinking","thinking":"?@A","signature":"heddle."},
    {"type":"text","text":"?@ABCDEFG","citations":null}])"));
  const Recorded streamed = ask_message(fixture, "a", fields + R"(},"stream":true)");
  EXPECT_EQ(test::read_message_stream(streamed.text()).message["content"], shown["content"]);
  const Json hidden = ask_message(fixture, "a", fields + R"(,"display":"omitted"})").json();
  EXPECT_EQ(hidden["content"][0]["thinking"], "");
  EXPECT_EQ(hidden_thought(hidden["content"][0]["signature"].get<std::string>()), "?@A");
  EXPECT_EQ(hidden["content"][1], shown["content"][1]);
}

TEST(Messages, UsageTellsCachedTokensApart) {
  ServiceFixture fixture;
  fixture.serve();
  const std::string text(100, 'a');
  const Json first = ask_message(fixture, text).json()["usage"], second = ask_message(fixture, text).json()["usage"];
  EXPECT_EQ(first["cache_read_input_tokens"], 0);
  EXPECT_EQ(first["input_tokens"], 101);
  EXPECT_GT(second["cache_read_input_tokens"], 64);
  EXPECT_EQ(second["input_tokens"].get<int>() + second["cache_read_input_tokens"].get<int>(), 101);
}

TEST(Messages, CountTokens) {
  ServiceFixture fixture;
  fixture.serve();
  const auto count = [&](const std::string& body) { return fixture.post("/v1/messages/count_tokens?beta=true", body); };
  EXPECT_EQ(count(R"({"model":"count/er","system":"be","messages":[{"role":"user","content":"abc"}]})").response().body,
            R"({"input_tokens":6})");
  const Recorded other = count(R"({"model":"gpt","messages":[{"role":"user","content":"abc"}]})");
  EXPECT_EQ(other.status(), 404u);
  EXPECT_EQ(other.json()["error"]["type"], "not_found_error");
}

TEST(Messages, Models) {
  ServiceFixture fixture;
  fixture.serve();
  const Json list = fixture.get("/v1/models?limit=1000", anthropic_headers).json();
  EXPECT_EQ(list["has_more"], false);
  EXPECT_EQ(list["first_id"], "count/er");
  EXPECT_EQ(list["last_id"], "count/er");
  ASSERT_EQ(list["data"].size(), 1u);
  Json model = list["data"][0];
  EXPECT_EQ(fixture.get("/v1/models/count%2Fer", anthropic_headers).json(), model);
  EXPECT_EQ(model["created_at"].get<std::string>().size(), 24u);
  model.erase("created_at");
  EXPECT_EQ(model, Json::parse(R"({"type":"model","id":"count/er","display_name":"count/er","max_input_tokens":200,
    "max_tokens":200,"capabilities":null,"lifecycle":"active","line":null,"deprecated_at":null,"retires_at":null})"));
  EXPECT_EQ(fixture.get("/v1/models/gpt", anthropic_headers).json()["error"]["type"], "not_found_error");
  EXPECT_EQ(fixture.get("/v1/models").json()["object"], "list") << "OpenAI's without the header";
  EXPECT_EQ(fixture.post("/v1/models", "{}", anthropic_headers).header("Allow"), "GET, HEAD, OPTIONS");
}

TEST(Messages, Errors) {
  ServiceFixture fixture({.keys = {"k"}}, {}, 40);
  const auto expect = [](const Recorded& answer, unsigned status, const std::string& type, const std::string& part) {
    EXPECT_EQ(answer.status(), status);
    const Json body = answer.json();
    EXPECT_EQ(body.at("type"), "error");
    EXPECT_EQ(body.at("error").at("type"), type);
    EXPECT_NE(body.at("error").at("message").get<std::string>().find(part), std::string::npos) << body;
    EXPECT_EQ(body.at("request_id"), answer.header("request-id"));
  };
  const auto ask = [&](const std::string& body, std::vector<Header> headers = {{"x-api-key", "k"}}) {
    return fixture.post("/v1/messages", body, std::move(headers));
  };
  const std::string hello = ServiceFixture::chat_body("a");
  expect(ask(hello, {}), 401, "authentication_error", "x-api-key");
  expect(fixture.get("/v1/models", anthropic_headers), 401, "authentication_error", "x-api-key");
  expect(ask(hello), 503, "overloaded_error", "loaded");
  fixture.serve();
  expect(ask("{"), 400, "invalid_request_error", "body");
  expect(ask(R"({"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]})"), 400,
         "invalid_request_error", "messages[0].content[0].type: expected \"text\" or \"tool_result\", found \"image\"");
  expect(ask(ServiceFixture::chat_body("a", R"("model":"claude")")), 404, "not_found_error", "claude");
  expect(ask(ServiceFixture::chat_body(std::string(50, 'a'))), 400, "invalid_request_error",
         "prompt is too long: 51 tokens > 40 maximum");
  expect(ask(hello, {{"x-api-key", "k"}, {"content-type", "text/plain"}}), 415, "invalid_request_error", "json");
  EXPECT_EQ(ask(hello).status(), 200u);
}

TEST(Messages, TypesOfErrors) {
  const auto type = [](unsigned status) {
    return Json::parse(anthropic_error({status, "", "", "x"}))["error"]["type"].get<std::string>();
  };
  EXPECT_EQ(type(400), "invalid_request_error");
  EXPECT_EQ(type(403), "permission_error");
  EXPECT_EQ(type(413), "request_too_large");
  EXPECT_EQ(type(429), "rate_limit_error");
  EXPECT_EQ(type(500), "api_error");
  EXPECT_EQ(anthropic_error({500, "", "", "a\"b"}),
            R"({"type":"error","error":{"type":"api_error","message":"a\"b"},"request_id":null})");
}

// weft is made to call a tool, and gets its result.
TEST(Messages, ToolsSlow) {
  test::WeftService weft;
  const auto post = [&](const std::string& body) {
    Recorded recorded;
    weft.service->handle({.method = "POST", .path = "/v1/messages", .body = body}, recorded.responder());
    EXPECT_TRUE(recorded.wait_for_end());
    return recorded;
  };
  const std::string asked =
      R"("max_tokens":200,"temperature":0,"frequency_penalty":1,"tools":[{"name":"weather","input_schema":{"type":"object",
    "properties":{"city":{"enum":["Oslo","Paris"]},"days":{"type":"integer","minimum":1,"maximum":9}},
    "required":["city","days"],"additionalProperties":false}}])";
  const std::string user = R"({"role":"user","content":"What is the weather?"})";
  const std::string choice = R"("tool_choice":{"type":"tool","name":"weather","disable_parallel_tool_use":true})";
  const Json whole = post(fmt::format(R"({{"messages":[{}],{},{}}})", user, asked, choice)).json();
  ASSERT_EQ(whole["stop_reason"], "tool_use") << whole;
  const Json block = whole["content"].back();
  EXPECT_EQ(block["type"], "tool_use");
  EXPECT_EQ(block["name"], "weather");
  EXPECT_TRUE(block["input"]["city"] == "Oslo" || block["input"]["city"] == "Paris");
  EXPECT_GE(block["input"]["days"], 1);
  const Recorded streamed = post(fmt::format(R"({{"messages":[{}],{},{},"stream":true}})", user, asked, choice));
  EXPECT_EQ(test::read_message_stream(streamed.text()).message["content"].back()["input"], block["input"]);
  const Json result{{"role", "user"},
                    {"content", {{{"type", "tool_result"}, {"tool_use_id", block["id"]}, {"content", "12 degrees"}}}}};
  const Json next =
      post(fmt::format(R"({{"messages":[{},{},{}],{},"tool_choice":{{"type":"none"}}}})", user,
                       Json{{"role", "assistant"}, {"content", whole["content"]}}.dump(), result.dump(), asked))
          .json();
  ASSERT_TRUE(next.contains("content")) << next;
  EXPECT_EQ(next["content"][0]["type"], "text");
}

}  // namespace
}  // namespace heddle::server
