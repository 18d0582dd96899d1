// Answers as lines and as one document.
#include <gtest/gtest.h>

#include <regex>

#include "chat/tools.h"
#include "tests/server/api/ollama/ollama_fixture.h"

namespace heddle::server {
namespace {

ChatReply reply_with_tools() {
  auto format = std::make_shared<chat::ChatFormat>();
  format->thought = {"<think>", "</think>"};
  format->calls = chat::generic_call_format();
  return {format, std::make_shared<chat::Tools>(chat::Tools{{"f", nlohmann::ordered_json::object()}})};
}

const Usage counted{
    .prompt = 5,
    .completion = 3,
    .cached = 2,
    .completions = {
        {.tokens = 3, .cached = 2, .timing = {.queue = 0.25, .prompt = 0.5, .generating = 1.5, .steps = 4}}}};

struct WrittenByOllama {
  WrittenByOllama(OllamaForm form, bool stream, const std::vector<std::string>& pieces,
                  const ChatReply& reply = reply_with_tools(), const Finish& finish = stopped, bool logprobs = false)
      : exchange(Exchange::open(std::make_shared<Traffic>(nullptr, false), {}, recorded.responder(), "")) {
    GenerationRequest request;
    request.prompts.resize(1);
    writer = std::make_unique<OllamaWriter>(*exchange, "m:latest", form, stream, request, reply);
    writer->on_accepted();
    for (const std::string& piece : pieces) {
      TextDelta delta{.text = piece};
      if (logprobs) delta.logprobs.push_back({.token = {piece, -1}, .top = {{"?", -2}}});
      writer->on_text(0, std::move(delta));
    }
    writer->on_finish(0, finish);
  }
  void end(std::string_view trace = "") { writer->on_end(counted, trace); }
  Json whole() {
    end();
    return strictly(recorded.response().body);
  }
  std::vector<Json> lines() {
    end();
    return lines_of(recorded.text());
  }

  test::Recorded recorded;
  std::shared_ptr<Exchange> exchange;
  std::unique_ptr<OllamaWriter> writer;
};

const std::vector<std::string> pieces{"<thi",
                                      "nk>Hm.</think>",
                                      "Text ",
                                      "<tool_call>{\"name\": \"f\", \"argu",
                                      "ments\": {\"b\": ",
                                      "1, \"a\": 2}}</tool_call>"};

void expect_time(Json& line) {
  static const std::regex rfc3339(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z)");
  EXPECT_TRUE(std::regex_match(line["created_at"].get<std::string>(), rfc3339)) << line;
  line.erase("created_at");
}

// What the last line says besides its text, and that its times are plausible.
void expect_end(Json& line, std::string_view reason) {
  expect_time(line);
  EXPECT_EQ(line["done"], true);
  EXPECT_EQ(line["done_reason"], reason);
  EXPECT_EQ(line["prompt_eval_count"], 5);
  EXPECT_EQ(line["eval_count"], 3);
  EXPECT_EQ(line["prompt_eval_duration"], 500'000'000);
  EXPECT_EQ(line["eval_duration"], 1'500'000'000);
  const int64_t total = line["total_duration"], load = line["load_duration"];
  EXPECT_GT(total, 0);
  EXPECT_NEAR(double(load), double(std::max<int64_t>(total - 2'000'000'000, 0)), 2);  // what is left of it
  for (const char* name : {"done", "done_reason", "prompt_eval_count", "eval_count", "prompt_eval_duration",
                           "eval_duration", "load_duration", "total_duration"})
    line.erase(name);
}

void take_id(Json& call) {
  EXPECT_TRUE(call["id"].get<std::string>().starts_with("call_")) << call;
  call.erase("id");
}

TEST(OllamaWriter, AWholeChat) {
  WrittenByOllama written(OllamaForm::chat, false, pieces);
  Json answer = written.whole();
  EXPECT_EQ(written.recorded.response().type, "application/json");
  expect_end(answer, "stop");
  take_id(answer["message"]["tool_calls"][0]);
  EXPECT_EQ(answer, Json::parse(R"({"model":"m:latest","message":{"role":"assistant","content":"Text","thinking":"Hm.",
    "tool_calls":[{"function":{"index":0,"name":"f","arguments":{"b":1,"a":2}}}]}})"));
  EXPECT_NE(written.recorded.response().body.find("\"arguments\":{\"b\": 1, \"a\": 2}"), std::string::npos);
}

TEST(OllamaWriter, AChatInLines) {
  WrittenByOllama written(OllamaForm::chat, true, pieces);
  std::vector<Json> lines = written.lines();
  EXPECT_EQ(written.recorded.response().type, "application/x-ndjson");
  EXPECT_TRUE(written.recorded.ended());
  ASSERT_EQ(lines.size(), 4u);
  for (size_t i = 0; i < 3; ++i) expect_time(lines[i]);
  expect_end(lines[3], "stop");
  take_id(lines[2]["message"]["tool_calls"][0]);
  const auto line = [](std::string_view message) {
    return Json::parse(fmt::format(R"({{"model":"m:latest","message":{},"done":false}})", message));
  };
  EXPECT_EQ(lines[0], line(R"({"role":"assistant","content":"","thinking":"Hm."})"));
  EXPECT_EQ(lines[1], line(R"({"role":"assistant","content":"Text"})"));
  EXPECT_EQ(lines[2], line(R"({"role":"assistant","content":"",
    "tool_calls":[{"function":{"index":0,"name":"f","arguments":{"b":1,"a":2}}}]})"));
  EXPECT_EQ(lines[3], Json::parse(R"({"model":"m:latest","message":{"role":"assistant","content":""}})"));
}

TEST(OllamaWriter, CallsAreNumbered) {
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  const Json message = WrittenByOllama(OllamaForm::chat, false, {call + call}).whole()["message"];
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][0]["function"]["index"], 0);
  EXPECT_EQ(message["tool_calls"][1]["function"]["index"], 1);
  EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], Json::object());
}

// JSON may have line breaks; a line has none.
TEST(OllamaWriter, ArgumentsStayOnTheirLine) {
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {\n  \"a\":\r\n \"x\\ny\"\n}}</tool_call>";
  const std::vector<Json> lines = WrittenByOllama(OllamaForm::chat, true, {call}).lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["message"]["tool_calls"][0]["function"]["arguments"], (Json{{"a", "x\ny"}}));
}

TEST(OllamaWriter, AText) {
  Json whole = WrittenByOllama(OllamaForm::generate, false, {"<think>Hm.</think>", "One", " two"}).whole();
  expect_end(whole, "stop");
  EXPECT_EQ(whole, Json::parse(R"({"model":"m:latest","response":"One two","thinking":"Hm."})"));
  std::vector<Json> lines = WrittenByOllama(OllamaForm::generate, true, {"One", " two"}, {}, too_long).lines();
  ASSERT_EQ(lines.size(), 3u);
  expect_time(lines[0]);
  EXPECT_EQ(lines[0], Json::parse(R"({"model":"m:latest","response":"One","done":false})"));
  EXPECT_EQ(lines[1]["response"], " two");
  expect_end(lines[2], "length");
  EXPECT_EQ(lines[2], Json::parse(R"({"model":"m:latest","response":""})"));
}

TEST(OllamaWriter, WhyItEnded) {
  const auto reason = [](Finish finish) {
    return WrittenByOllama(OllamaForm::chat, false, {"x"}, {}, finish).whole()["done_reason"];
  };
  EXPECT_EQ(reason(stopped), "stop");
  EXPECT_EQ(reason({Finish::Reason::stop_string, "x"}), "stop");
  EXPECT_EQ(reason(too_long), "length");
  EXPECT_EQ(reason({Finish::Reason::context}), "length");
}

// Half an object cannot be written as one.
TEST(OllamaWriter, ACallThatIsCutOffIsLeftOut) {
  Json answer = WrittenByOllama(OllamaForm::chat, false, {pieces[3], pieces[4]}, reply_with_tools(), too_long).whole();
  EXPECT_EQ(answer["done_reason"], "length");
  EXPECT_EQ(answer["message"], Json::parse(R"({"role":"assistant","content":""})"));
}

TEST(OllamaWriter, LogProbabilitiesOfEveryToken) {
  for (const bool stream : {false, true}) {
    WrittenByOllama written(OllamaForm::chat, stream, pieces, reply_with_tools(), stopped, true);
    std::vector<std::string> tokens;
    for (const Json& line : stream ? written.lines() : std::vector<Json>{written.whole()})
      if (line.contains("logprobs"))
        for (const Json& one : line["logprobs"]) {
          tokens.push_back(one["token"]);
          EXPECT_EQ(one["logprob"], -1);
          EXPECT_EQ(one["top_logprobs"][0]["token"], "?");
          EXPECT_EQ(one["top_logprobs"][0]["bytes"], Json::array({63}));
        }
    EXPECT_EQ(tokens, pieces) << stream;
  }
}

TEST(OllamaWriter, Traces) {
  WrittenByOllama written(OllamaForm::chat, false, {"x"});
  written.end(R"({"a":1})");
  EXPECT_EQ(strictly(written.recorded.response().body)["trace"], Json::parse(R"({"a":1})"));
}

TEST(OllamaWriter, ErrorsInAStreamAreItsLastLine) {
  WrittenByOllama written(OllamaForm::chat, true, {"Text"}, {});
  written.writer->on_error(ApiError(500, "", "", "the device \"failed\""));
  const std::vector<Json> lines = lines_of(written.recorded.text());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1], Json::parse(R"({"error":"the device \"failed\""})"));
  EXPECT_TRUE(written.recorded.ended());
}

TEST(OllamaWriter, ErrorsBeforeAResponse) {
  EXPECT_EQ(ollama_error(ApiError(404, "c", "p", "no \"m\"")), R"({"error":"no \"m\""})");
  WrittenByOllama written(OllamaForm::chat, false, {"Text"}, {});
  written.writer->on_error(ApiError(500, "", "", "failed"));
  EXPECT_EQ(written.recorded.status(), 500u);
}

TEST(OllamaWriter, LoadedModels) {
  Json chat = strictly(ollama_loaded(OllamaForm::chat, "m", "load"));
  expect_time(chat);
  EXPECT_EQ(chat, Json::parse(R"({"model":"m","message":{"role":"assistant","content":""},"done":true,
    "done_reason":"load"})"));
  Json text = strictly(ollama_loaded(OllamaForm::generate, "m", "unload"));
  expect_time(text);
  EXPECT_EQ(text, Json::parse(R"({"model":"m","response":"","done":true,"done_reason":"unload"})"));
}

}  // namespace
}  // namespace heddle::server
