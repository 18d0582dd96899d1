// System prompts and messages, as the templates of models get them.
#include "server/api/anthropic/anthropic_messages.h"

#include <gtest/gtest.h>

#include "server/api/anthropic/anthropic.h"
#include "tests/server/api/request_fixture.h"

namespace heddle::server {
namespace {

std::string conversation(std::string_view fields, IgnoredFields* ignored = nullptr) {
  RequestRules rules = small_rules();
  rules.ignored = ignored;
  return read_count_tokens(fmt::format("{{{}}}", fields), rules).conversation.messages;
}
std::string of_messages(std::string_view messages) { return conversation(fmt::format(R"("messages":[{}])", messages)); }
std::string of_blocks(std::string_view role, std::string_view blocks) {
  return of_messages(fmt::format(R"({{"role":"{}","content":[{}]}})", role, blocks));
}

TEST(AnthropicMessages, StringsAndTexts) {
  EXPECT_EQ(of_messages(R"({"role":"user","content":"a"},{"role":"assistant","content":"b"},
                           {"role":"user","content":[{"type":"text","text":"c","cache_control":{"type":"ephemeral"}},
                                                     {"type":"text","text":"d","citations":null}]})"),
            R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c\nd"}])");
  EXPECT_EQ(of_messages(R"({"role":"user","content":""})"), R"([{"role":"user","content":""}])");
  EXPECT_EQ(of_messages(R"({"role":"user","content":[]})"), R"([{"role":"user","content":""}])");
}

TEST(AnthropicMessages, TurnsOfOneRoleAreOne) {
  EXPECT_EQ(of_messages(R"({"role":"user","content":"a"},{"role":"user","content":"b"},
                           {"role":"assistant","content":"c"},{"role":"assistant","content":"d"})"),
            R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":"c\nd"}])");
}

TEST(AnthropicMessages, SystemPrompts) {
  constexpr std::string_view user = R"("messages":[{"role":"user","content":"x"}])";
  const auto system = [&](std::string_view value) {
    return conversation(fmt::format(R"("system":{},{})", value, user));
  };
  const auto expected = [](std::string_view text) {
    return fmt::format(R"([{{"role":"system","content":"{}"}},{{"role":"user","content":"x"}}])", text);
  };
  EXPECT_EQ(system(R"("Be kind.")"), expected("Be kind."));
  EXPECT_EQ(system(R"([{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}])"),
            expected("a\\nb"));
  EXPECT_EQ(system(R"([{"type":"text","text":"x-anthropic-billing-header: v=1;"},{"type":"text","text":"b"}])"),
            expected("b"));
  EXPECT_EQ(system(R"([{"type":"text","text":"a"},{"type":"text","text":"x-anthropic-billing-header: v=1;"}])"),
            expected("a\\nx-anthropic-billing-header: v=1;"))
      << "only the first block";
  for (const char* nothing : {"null", "\"\"", "[]"}) EXPECT_EQ(system(nothing), R"([{"role":"user","content":"x"}])");
}

TEST(AnthropicMessages, SystemMessagesStayInPlace) {
  EXPECT_EQ(of_messages(R"({"role":"user","content":"a"},{"role":"system","content":[{"type":"text","text":"b"}]},
                           {"role":"user","content":"c"},{"role":"system","content":"d"})"),
            R"([{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"},)"
            R"({"role":"system","content":"d"}])");
}

TEST(AnthropicMessages, CallsAndThoughts) {
  EXPECT_EQ(of_blocks("assistant", R"({"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"a"},
                {"type":"tool_use","id":"1","name":"f","input":{"z":1,"a":[]},"caller":{"type":"direct"},
                 "cache_control":{"type":"ephemeral"}},{"type":"tool_use","id":"2","name":"g","input":{}})"),
            R"([{"role":"assistant","content":"a","reasoning_content":"hm","tool_calls":[)"
            R"({"id":"1","type":"function","function":{"name":"f","arguments":{"z":1,"a":[]}}},)"
            R"({"id":"2","type":"function","function":{"name":"g","arguments":{}}}]}])");
  EXPECT_EQ(of_blocks("assistant", R"({"type":"tool_use","id":"1","name":"f","input":{}})"),
            R"([{"role":"assistant","content":null,"tool_calls":[)"
            R"({"id":"1","type":"function","function":{"name":"f","arguments":{}}}]}])");
  EXPECT_EQ(of_blocks("assistant", R"({"type":"thinking","thinking":"hm","signature":"s"})"),
            R"([{"role":"assistant","content":"","reasoning_content":"hm"}])");
}

TEST(AnthropicMessages, ThoughtsThatWereNotShown) {
  EXPECT_EQ(of_blocks("assistant", fmt::format(R"({{"type":"thinking","thinking":"","signature":"{}"}},
                {{"type":"text","text":"a"}})",
                                               thinking_signature("secret"))),
            R"([{"role":"assistant","content":"a","reasoning_content":"secret"}])");
  IgnoredFields ignored;
  EXPECT_EQ(conversation(R"("messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},
                                                                       {"type":"text","text":"a"}]}])",
                         &ignored),
            R"([{"role":"assistant","content":"a"}])");
  EXPECT_EQ(ignored.names(), std::vector<std::string>{"messages[].content[].data"});
}

TEST(AnthropicMessages, ResultsComeBeforeText) {
  EXPECT_EQ(of_blocks("user", R"({"type":"text","text":"now"},
                {"type":"tool_result","tool_use_id":"1","content":"12","cache_control":{"type":"ephemeral"}},
                {"type":"tool_result","tool_use_id":"2","is_error":true,
                 "content":[{"type":"text","text":"no such"},{"type":"text","text":"file"}]},
                {"type":"tool_result","tool_use_id":"3"})"),
            R"([{"role":"tool","content":"12","tool_call_id":"1"},)"
            R"({"role":"tool","content":"Error: no such\nfile","tool_call_id":"2"},)"
            R"({"role":"tool","content":"","tool_call_id":"3"},{"role":"user","content":"now"}])");
  EXPECT_EQ(of_blocks("user", R"({"type":"tool_result","tool_use_id":"1","content":[]})"),
            R"([{"role":"tool","content":"","tool_call_id":"1"}])");
}

TEST(AnthropicMessages, ReferencesToTools) {
  constexpr std::string_view body = R"({"tools":[{"name":"search","input_schema":{}},
      {"name":"f","description":"d","input_schema":{"type":"object"},"defer_loading":true},
      {"name":"g","input_schema":{},"defer_loading":true}],
    "messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[
      {"type":"tool_reference","tool_name":"f"},{"type":"tool_reference","tool_name":"other"}]}]}])";
  const MessageRequest request = read_count_tokens(std::string(body) + "}", small_rules());
  const std::string described =
      R"({"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}})";
  EXPECT_EQ(Json::parse(request.conversation.messages)[0]["content"], described + "\nother");
  EXPECT_EQ(request.tools.json, R"([{"type":"function","function":{"name":"search","parameters":{}}}])")
      << "the prompt begins as before";
  ASSERT_EQ(request.tools.tools->size(), 2u);
  EXPECT_EQ((*request.tools.tools)[0].name, "search");
  EXPECT_EQ((*request.tools.tools)[1].name, "f") << "it may be called, and g may not";
}

TEST(AnthropicMessages, RefusesOtherBlocks) {
  for (const char* type : {"image", "document", "search_result", "tool_use", "thinking", "x"})
    EXPECT_BAD(of_blocks("user", fmt::format(R"({{"type":"text","text":"a"}},{{"type":"{}"}})", type)),
               "messages[0].content[1].type", "unsupported_value", "expected \"text\" or \"tool_result\"", type);
  for (const char* type : {"image", "tool_result", "server_tool_use", "web_search_tool_result"})
    EXPECT_BAD(of_blocks("assistant", fmt::format(R"({{"type":"{}"}})", type)), "messages[0].content[0].type",
               "unsupported_value", "\"thinking\", \"redacted_thinking\" or \"tool_use\"", type);
  for (const char* type : {"image", "document", "search_result"})
    EXPECT_BAD(
        of_blocks("user",
                  fmt::format(R"({{"type":"tool_result","tool_use_id":"1","content":[{{"type":"{}"}}]}})", type)),
        "messages[0].content[0].content[0].type", "unsupported_value", "\"text\" or \"tool_reference\"", type);
  EXPECT_BAD(of_blocks("system", R"({"type":"image"})"), "messages[0].content[0].type", "unsupported_value", "image");
  EXPECT_BAD(conversation(R"("system":[{"type":"image"}],"messages":[{"role":"user","content":"x"}])"),
             "system[0].type", "unsupported_value", "\"text\"", "image");
}

TEST(AnthropicMessages, RefusesBadMessages) {
  EXPECT_BAD(conversation(""), "messages", "missing_required_parameter");
  EXPECT_BAD(of_messages(""), "messages", "empty_array");
  EXPECT_BAD(of_messages("7"), "messages[0]", "invalid_type");
  EXPECT_BAD(of_messages(R"({"content":"x"})"), "messages[0].role", "missing_required_parameter");
  EXPECT_BAD(of_messages(R"({"role":"tool","content":"x"})"), "messages[0].role", "invalid_value",
             "user, assistant or system", "\"tool\"");
  EXPECT_BAD(of_messages(R"({"role":"user"})"), "messages[0].content", "missing_required_parameter");
  for (const char* role : {"user", "assistant", "system"})
    EXPECT_BAD(of_messages(fmt::format(R"({{"role":"{}","content":7}})", role)), "messages[0].content", "invalid_type",
               "a string or a list of");
  EXPECT_BAD(of_messages(R"({"role":"user","content":"x","name":"n"})"), "messages[0].name", "unknown_parameter");
  EXPECT_BAD(conversation(R"("system":7,"messages":[{"role":"user","content":"x"}])"), "system", "invalid_type");
}

TEST(AnthropicMessages, RefusesBadBlocks) {
  EXPECT_BAD(of_blocks("user", "7"), "messages[0].content[0]", "invalid_type");
  EXPECT_BAD(of_blocks("user", R"({"text":"x"})"), "messages[0].content[0].type", "missing_required_parameter");
  EXPECT_BAD(of_blocks("user", R"({"type":"text"})"), "messages[0].content[0].text", "missing_required_parameter");
  EXPECT_BAD(of_blocks("user", R"({"type":"tool_result"})"), "messages[0].content[0].tool_use_id",
             "missing_required_parameter");
  EXPECT_BAD(of_blocks("user", R"({"type":"tool_result","tool_use_id":"1","content":{}})"),
             "messages[0].content[0].content", "invalid_type", "a string or a list of blocks");
  EXPECT_BAD(of_blocks("user", R"({"type":"tool_result","tool_use_id":"1","is_error":1})"),
             "messages[0].content[0].is_error", "invalid_type");
  EXPECT_BAD(of_blocks("assistant", R"({"type":"thinking"})"), "messages[0].content[0].thinking",
             "missing_required_parameter");
  EXPECT_BAD(of_blocks("assistant", R"({"type":"tool_use","name":"f","input":{}})"), "messages[0].content[0].id",
             "missing_required_parameter");
  EXPECT_BAD(of_blocks("assistant", R"({"type":"tool_use","id":"1","input":{}})"), "messages[0].content[0].name",
             "missing_required_parameter");
  EXPECT_BAD(of_blocks("assistant", R"({"type":"tool_use","id":"1","name":"f"})"), "messages[0].content[0].input",
             "missing_required_parameter");
  EXPECT_BAD(of_blocks("assistant", R"({"type":"tool_use","id":"1","name":"f","input":"{}"})"),
             "messages[0].content[0].input", "invalid_type", "an object");
}

}  // namespace
}  // namespace heddle::server
