// Tools, calls and results in the body of a chat, and how much to think.
#include "server/api/openai/openai_tools.h"

#include <gtest/gtest.h>

#include "chat/tools.h"
#include "tests/server/api/request_fixture.h"

namespace heddle::server {
namespace {

constexpr std::string_view two_tools = R"("tools":[
  {"type":"function","function":{"name":"f","description":"d","strict":true,
   "parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}}}}},
  {"type":"function","function":{"name":"g.h-1_"}}])";

ToolUse tools_of(std::string_view fields) { return chat(fields).tools; }
std::string with_tools(std::string_view fields) { return fmt::format("{},{}", two_tools, fields); }

TEST(ChatTools, KeepTheOrderOfTheBody) {
  const ToolUse use = tools_of(two_tools);
  ASSERT_TRUE(use);
  ASSERT_EQ(use.tools->size(), 2u);
  EXPECT_EQ((*use.tools)[0].name, "f");
  EXPECT_EQ((*use.tools)[0].parameters.dump(),
            R"({"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}}})");
  EXPECT_EQ((*use.tools)[1].parameters.dump(), R"({"type":"object"})");
  EXPECT_TRUE(use.json.starts_with(R"([{"type":"function","function":{"name":"f","description":"d","strict":true,)"));
  EXPECT_EQ(use.choice, ToolUse::Choice::automatic);
  EXPECT_TRUE(use.parallel);
  EXPECT_EQ(conversation_of(chat(two_tools)).tools, use.json);
}

TEST(ChatTools, Choices) {
  EXPECT_FALSE(tools_of(""));
  EXPECT_FALSE(tools_of(R"("tools":[],"tool_choice":"auto")"));
  EXPECT_FALSE(tools_of(with_tools(R"("tool_choice":"none")")));
  EXPECT_FALSE(tools_of(with_tools(R"("parallel_tool_calls":false)")).parallel);
  const ToolUse required = tools_of(with_tools(R"("tool_choice":"required")"));
  EXPECT_EQ(required.choice, ToolUse::Choice::required);
  EXPECT_EQ(required.tools->size(), 2u);
  const ToolUse one = tools_of(with_tools(R"("tool_choice":{"type":"function","function":{"name":"g.h-1_"}})"));
  EXPECT_EQ(one.choice, ToolUse::Choice::required);
  ASSERT_EQ(one.tools->size(), 1u);
  EXPECT_EQ((*one.tools)[0].name, "g.h-1_");
  EXPECT_EQ(one.json, required.json) << "the prompt stays as it was, for the prefix cache";
  const ToolUse allowed = tools_of(with_tools(R"("tool_choice":{"type":"allowed_tools","allowed_tools":
    {"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}})"));
  EXPECT_EQ(allowed.choice, ToolUse::Choice::automatic);
  ASSERT_EQ(allowed.tools->size(), 1u);
  EXPECT_EQ((*allowed.tools)[0].name, "f");
}

TEST(ChatTools, RefusesBadTools) {
  const auto tool = [](std::string_view text) { return tools_of(fmt::format(R"("tools":[{}])", text)); };
  EXPECT_BAD(tools_of(R"("tools":{})"), "tools", "invalid_type");
  EXPECT_BAD(tool("7"), "tools[0]", "invalid_type");
  EXPECT_BAD(tool(R"({"type":"web_search"})"), "tools[0].type", "unsupported_value", "\"function\"", "web_search");
  EXPECT_BAD(tool(R"({"type":"function"})"), "tools[0].function", "missing_required_parameter");
  EXPECT_BAD(tool(R"({"type":"function","function":{}})"), "tools[0].function.name", "missing_required_parameter");
  for (const std::string& name : std::vector<std::string>{"", "a b", "a\\n", "\u00e9", std::string(129, 'a')})
    EXPECT_BAD(tool(fmt::format(R"({{"type":"function","function":{{"name":"{}"}}}})", name)), "tools[0].function.name",
               "invalid_value", "1 to 128 letters");
  EXPECT_BAD(tool(R"({"type":"function","function":{"name":"f","parameters":[]}})"), "tools[0].function.parameters",
             "invalid_type", "a JSON Schema");
  EXPECT_BAD(tool(R"({"type":"function","function":{"name":"f","x":1}})"), "tools[0].function.x", "unknown_parameter");
  EXPECT_BAD(tool(R"({"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}})"),
             "tools[1].function.name", "", "a second time");
  EXPECT_BAD(tools_of(R"("functions":[{"name":"f"}])"), "functions", "unsupported_parameter", "tools instead");
  EXPECT_BAD(tools_of(R"("function_call":{"name":"f"})"), "function_call", "unsupported_parameter", "tool_choice");
}

TEST(ChatTools, RefusesBadChoices) {
  EXPECT_BAD(tools_of(R"("tool_choice":"required")"), "tool_choice", "", "found none");
  EXPECT_BAD(tools_of(with_tools(R"("tool_choice":"some")")), "tool_choice", "invalid_value", "\"required\"");
  EXPECT_BAD(tools_of(with_tools(R"("tool_choice":7)")), "tool_choice", "invalid_type");
  EXPECT_BAD(tools_of(with_tools(R"("tool_choice":{"type":"function","function":{"name":"x"}})")),
             "tool_choice.function.name", "invalid_value", "one of the tools", "\"x\"");
  EXPECT_BAD(tools_of(with_tools(R"("tool_choice":{"type":"custom"})")), "tool_choice.type", "unsupported_value");
  EXPECT_BAD(tools_of(with_tools(R"("parallel_tool_calls":1)")), "parallel_tool_calls", "invalid_type");
}

std::string one_message(std::string_view message) {
  return read_chat(fmt::format(R"({{"messages":[{}]}})", message), small_rules()).conversation.messages;
}
std::string one_call(std::string_view members) {
  return one_message(fmt::format(R"({{"role":"assistant","tool_calls":[{{{}}}]}})", members));
}

TEST(ChatMessages, CallsAndResults) {
  EXPECT_EQ(
      one_message(R"({"role":"assistant","content":null,"reasoning":"hm","tool_calls":[{"id":"1","type":"function",
              "function":{"name":"f","arguments":"{\"z\":1,\"a\":[]}"}}]})"),
      R"([{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"1","type":"function",)"
      R"("function":{"name":"f","arguments":{"z":1,"a":[]}}}]}])");
  EXPECT_EQ(one_call(R"("id":"1","index":0,"function":{"name":"f","arguments":"","parsed_arguments":{}})"),
            R"([{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",)"
            R"("function":{"name":"f","arguments":{}}}]}])");
  EXPECT_EQ(one_message(R"({"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"12"}],"name":"f"})"),
            R"([{"role":"tool","content":"12","name":"f","tool_call_id":"1"}])");
}

TEST(ChatMessages, AnAnswerMayBeEmpty) {
  EXPECT_EQ(one_message(R"({"role":"assistant","content":null,"tool_calls":[]})"),
            R"([{"role":"assistant","content":""}])");
  EXPECT_EQ(one_message(R"({"role":"assistant","reasoning":"a","reasoning_content":"b","reasoning_details":null})"),
            R"([{"role":"assistant","content":"","reasoning_content":"b"}])");
}

TEST(ChatMessages, RefusesBadCalls) {
  EXPECT_BAD(one_call(""), "messages[0].tool_calls[0].id", "missing_required_parameter");
  EXPECT_BAD(one_call(R"("id":"1","function":{"arguments":"{}"})"), "messages[0].tool_calls[0].function.name",
             "missing_required_parameter");
  const auto arguments = [](std::string_view text) {
    return one_call(fmt::format(R"("id":"1","function":{{"name":"f","arguments":{}}})", text));
  };
  constexpr const char* place = "messages[0].tool_calls[0].function.arguments";
  EXPECT_BAD(arguments("null"), place, "missing_required_parameter");
  EXPECT_BAD(arguments("7"), place, "invalid_type");
  EXPECT_BAD(arguments(R"("[]")"), place, "invalid_value", "a JSON object");
  EXPECT_BAD(arguments(R"("{\"a\":")"), place, "invalid_value");
  EXPECT_BAD(one_call(R"("id":"1","type":"custom","function":{})"), "messages[0].tool_calls[0].type",
             "unsupported_value");
  EXPECT_BAD(one_message(R"({"role":"tool","content":"x"})"), "messages[0].tool_call_id", "missing_required_parameter");
  EXPECT_BAD(one_message(R"({"role":"tool","tool_call_id":"1"})"), "messages[0].content", "missing_required_parameter");
}

TEST(ChatThinking, EffortAndBudget) {
  EXPECT_EQ(chat("").thinking.effort, "");
  EXPECT_EQ(conversation_of(chat(R"("reasoning_effort":"none")")).effort, "none");
  EXPECT_BAD(chat(R"("reasoning_effort":"some")"), "reasoning_effort", "invalid_value", "minimal", "\"some\"");
  EXPECT_EQ(chat("").thinking.max_tokens, std::nullopt);
  EXPECT_EQ(chat(R"("thinking_token_budget":0)").thinking.max_tokens, 0u);
  EXPECT_EQ(chat(R"("reasoning_budget":7)").thinking.max_tokens, 7u);
  EXPECT_EQ(chat(R"("reasoning_budget":-1)").thinking.max_tokens, std::nullopt);
  EXPECT_BAD(chat(R"("thinking_token_budget":-2)"), "thinking_token_budget", "integer_below_min_value");
}

}  // namespace
}  // namespace heddle::server
