// Ollama's messages become those of OpenAI's chats: calls get ids, and results find the calls they belong to.
#include <gtest/gtest.h>

#include "tests/server/api/ollama/ollama_fixture.h"

namespace heddle::server {
namespace {

std::string messages_of(std::string_view messages) {
  return read_ollama_chat(fmt::format(R"({{"messages":[{}]}})", messages), small_rules()).conversation.messages;
}

TEST(OllamaMessages, RolesAndTexts) {
  EXPECT_EQ(messages_of(R"({"role":"System","content":"s"},{"role":"user","content":"u"},{"role":"assistant"},
                           {"role":"developer","content":"d"},{"role":"assistant","content":"a","thinking":"t"})"),
            R"([{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":""},)"
            R"({"role":"system","content":"d"},{"role":"assistant","content":"a","reasoning_content":"t"}])");
  EXPECT_BAD(messages_of(R"({"role":"god","content":""})"), "messages[0].role", "invalid_value", "user, assistant",
             "found \"god\"");
  EXPECT_BAD(messages_of(R"({"content":""})"), "messages[0].role", "missing_required_parameter");
  EXPECT_BAD(messages_of(R"({"role":"user","content":["x"]})"), "messages[0].content", "invalid_type", "a string");
  EXPECT_BAD(messages_of(R"({"role":"user","content":"","images":["aGk="]})"), "messages[0].images",
             "unsupported_parameter", "does not support images");
  EXPECT_EQ(messages_of(R"({"role":"user","content":"u","images":[]})"), R"([{"role":"user","content":"u"}])");
  EXPECT_BAD(messages_of("3"), "messages[0]", "invalid_type", "an object");
  EXPECT_BAD(read_ollama_chat(R"({"messages":"hi"})", small_rules()), "messages", "invalid_type", "a list");
}

TEST(OllamaMessages, CallsAndResults) {
  const Json messages = Json::parse(messages_of(R"({"role":"user","content":"u"},
    {"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"z":1,"a":2}}},
      {"function":{"index":1,"name":"g"}},{"id":"own","function":{"name":"f","arguments":{}}}]},
    {"role":"tool","tool_name":"g","content":"of g"},{"role":"tool","tool_call_id":"own","content":"of own"},
    {"role":"tool","content":"of f"})"));
  const Json& calls = messages[1]["tool_calls"];
  EXPECT_EQ(calls[0]["id"], "call00000");
  EXPECT_EQ(calls[1]["id"], "call00001");
  EXPECT_EQ(calls[2]["id"], "own");
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[1]["function"], Json::parse(R"({"name":"g","arguments":{}})"));
  EXPECT_EQ(messages[2], Json::parse(R"({"role":"tool","content":"of g","tool_call_id":"call00001","name":"g"})"));
  EXPECT_EQ(messages[3]["tool_call_id"], "own");
  EXPECT_EQ(messages[4]["tool_call_id"], "call00000");
}

// The template writes them as the model did, so that the prompt's beginning is found in the cache.
TEST(OllamaMessages, ArgumentsKeepTheirOrder) {
  EXPECT_NE(messages_of(R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"z":1,"a":2}}}]})")
                .find(R"("arguments":{"z":1,"a":2})"),
            std::string::npos);
}

TEST(OllamaMessages, TwoCallsOfOneToolGetTheirResultsInOrder) {
  const Json messages = Json::parse(messages_of(
      R"({"role":"assistant","tool_calls":[{"function":{"name":"f"}},{"function":{"name":"f"}}]},
         {"role":"tool","tool_name":"f","content":"1"},{"role":"tool","tool_name":"f","content":"2"},
         {"role":"tool","tool_name":"f","content":"of no call"})"));
  EXPECT_EQ(messages[1]["tool_call_id"], "call00000");
  EXPECT_EQ(messages[2]["tool_call_id"], "call00001");
  EXPECT_EQ(messages[3]["tool_call_id"], "");
}

TEST(OllamaMessages, BadCalls) {
  const auto call = [](std::string_view text) {
    return messages_of(fmt::format(R"({{"role":"assistant","tool_calls":[{}]}})", text));
  };
  EXPECT_BAD(call("{}"), "messages[0].tool_calls[0].function", "missing_required_parameter");
  EXPECT_BAD(call(R"({"function":{}})"), "messages[0].tool_calls[0].function.name", "missing_required_parameter");
  EXPECT_BAD(call(R"({"function":{"name":"f","arguments":"{}"}})"), "messages[0].tool_calls[0].function.arguments",
             "invalid_type", "an object", "found \"{}\"");
}

}  // namespace
}  // namespace heddle::server
