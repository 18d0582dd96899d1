// Answers with thoughts and calls, whole and as chunks.
#include <gtest/gtest.h>

#include "chat/tools.h"
#include "server/api/openai/openai_chat.h"
#include "tests/server/api/writer_fixture.h"

namespace heddle::server {
namespace {

ChatReply test_reply(chat::CallFormat::Ids ids = chat::CallFormat::Ids::any) {
  auto format = std::make_shared<chat::ChatFormat>();
  format->thought = {"<think>", "</think>"};
  format->calls = chat::generic_call_format();
  format->calls.ids = ids;
  return {format, std::make_shared<chat::Tools>(chat::Tools{{"f", nlohmann::ordered_json::object()}})};
}

// A response of one choice by these pieces of text.
struct WrittenReply {
  WrittenReply(StreamOptions options, const std::vector<std::string>& pieces, const ChatReply& reply,
               Finish finish = stopped, bool logprobs = false)
      : exchange(Exchange::open(std::make_shared<Traffic>(nullptr, false), {}, recorded.responder(), "")) {
    GenerationRequest request;
    request.prompts.resize(1);
    if (logprobs) request.sampling.logprobs = 0;
    ChatWriter writer(*exchange, {"chatcmpl-1", 5, "m"}, options, request, reply);
    for (const std::string& piece : pieces) {
      TextDelta delta{.text = piece};
      if (logprobs) delta.logprobs.push_back({.token = {piece, -1}});
      writer.on_text(0, std::move(delta));
    }
    writer.on_finish(0, finish);
    writer.on_end({}, "");
  }
  Json choice() const { return strictly(recorded.response().body)["choices"][0]; }

  test::Recorded recorded;
  std::shared_ptr<Exchange> exchange;
};

const std::vector<std::string> answer{
    "<thi", "nk>Hm.</think>", "Text ", "<tool_call>{\"name\": \"f\", \"argu", "ments\": {\"a\": ", "1}}</tool_call>"};

TEST(ChatWriter, WholeAnswers) {
  Json choice = WrittenReply({}, answer, test_reply()).choice();
  Json& message = choice["message"];
  const std::string id = message["tool_calls"][0]["id"];
  EXPECT_TRUE(id.starts_with("call_")) << id;
  message["tool_calls"][0].erase("id");
  EXPECT_EQ(message, Json::parse(R"({"role":"assistant","content":"Text","reasoning_content":"Hm.","refusal":null,
    "tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]})"));
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
}

TEST(ChatWriter, CallsAloneHaveNoContent) {
  const Json choice = WrittenReply({}, {"<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"},
                                   test_reply(chat::CallFormat::Ids::functions))
                          .choice();
  EXPECT_EQ(choice["message"]["content"], nullptr);
  EXPECT_EQ(choice["message"]["tool_calls"][0]["id"], "functions.f:0");
  EXPECT_FALSE(choice["message"].contains("reasoning_content"));
  const Json nine = WrittenReply({}, answer, test_reply(chat::CallFormat::Ids::nine)).choice();
  EXPECT_EQ(nine["message"]["tool_calls"][0]["id"].get<std::string>().size(), 9u);
}

TEST(ChatWriter, AnAnswerThatIsCutOffSaysSo) {
  const Json choice = WrittenReply({}, {answer[3], answer[4]}, test_reply(), too_long).choice();
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\": ");
}

TEST(ChatWriter, WithoutToolsCallsAreContent) {
  ChatReply reply = test_reply();
  reply.tools = nullptr;
  const Json choice = WrittenReply({}, answer, reply).choice();
  EXPECT_EQ(choice["message"]["content"], "Text <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Hm.");
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST(ChatWriter, Chunks) {
  const WrittenReply reply({.stream = true}, answer, test_reply());
  std::vector<Json> deltas;
  std::string id;
  for (const Json& chunk : reply.recorded.chunks()) {
    Json delta = chunk["choices"][0]["delta"];
    if (delta.contains("tool_calls") && delta["tool_calls"][0].contains("id")) {
      id = delta["tool_calls"][0]["id"];
      delta["tool_calls"][0].erase("id");
    }
    deltas.push_back(delta);
  }
  EXPECT_TRUE(id.starts_with("call_"));
  EXPECT_EQ(Json(deltas), Json::parse(R"([
    {"role":"assistant","content":"","refusal":null},
    {"reasoning_content":"Hm."},
    {"content":"Text"},
    {"tool_calls":[{"index":0,"type":"function","function":{"name":"f","arguments":""}}]},
    {"tool_calls":[{"index":0,"function":{"arguments":"{\"a\": "}}]},
    {"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]},
    {}])"));
  EXPECT_EQ(reply.recorded.chunks().back()["choices"][0]["finish_reason"], "tool_calls");
}

TEST(ChatWriter, NoLogProbabilityIsLost) {
  for (const bool stream : {false, true}) {
    const WrittenReply reply({.stream = stream}, answer, test_reply(), stopped, true);
    std::vector<std::string> tokens;
    const auto add = [&](const Json& logprobs) {
      if (!logprobs.is_null())
        for (const Json& one : logprobs["content"]) tokens.push_back(one["token"]);
    };
    if (stream)
      for (const Json& chunk : reply.recorded.chunks()) add(chunk["choices"][0]["logprobs"]);
    else
      add(reply.choice()["logprobs"]);
    EXPECT_EQ(tokens, answer);
  }
}

}  // namespace
}  // namespace heddle::server
