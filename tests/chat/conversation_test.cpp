#include "chat/conversation.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "families.h"
#include "tests/support/shared_data.h"

namespace heddle::chat {
namespace {

using Ordered = nlohmann::ordered_json;

const std::string calls = R"([{"role":"user","content":"q"},
  {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
   {"id":"1","type":"function","function":{"name":"f","arguments":{"a":1}}},
   {"id":"2","type":"function","function":{"name":"g","arguments":{}}}]},
  {"role":"tool","tool_call_id":"2","content":"two"},
  {"role":"tool","tool_call_id":"1","content":"one"}])";
const std::string tools = R"([{"type":"function","function":{"name":"f"}}])";

std::shared_ptr<ChatFormat> format_with_calls() {
  auto format = std::make_shared<ChatFormat>();
  format->calls = generic_call_format();
  format->tools_in_template = true;
  return format;
}
Ordered prepared(const ChatFormat& format, const std::string& messages, const std::string& list = "") {
  return Ordered::parse(prepare(std::make_shared<ChatFormat>(format), {.messages = messages, .tools = list}).messages);
}

TEST(PrepareConversation, AsTheTemplateWantsIt) {
  auto format = format_with_calls();
  Ordered messages = prepared(*format, calls);
  EXPECT_EQ(messages[1]["content"], "");
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"], (Ordered{{"a", 1}}));
  EXPECT_EQ(messages[2]["name"], "g");
  EXPECT_EQ(messages[3]["name"], "f");
  format->arguments_as_text = true;
  format->content_of_calls = ContentOfCalls::null;
  format->thought_field = "thinking";
  messages = prepared(*format, calls);
  EXPECT_TRUE(messages[1]["content"].is_null());
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"], R"({"a":1})");
  EXPECT_EQ(messages[1]["thinking"], "hm");
  format->content_of_calls = ContentOfCalls::absent;
  EXPECT_FALSE(prepared(*format, calls)[1].contains("content"));
}

TEST(PrepareConversation, SystemMessagesInTheMiddle) {
  const std::string late = R"([{"role":"system","content":"first"},{"role":"user","content":"a"},
    {"role":"system","content":"b"},{"role":"assistant","content":"c"},{"role":"system","content":"d"},
    {"role":"user","content":"e"},{"role":"user","content":"f"},{"role":"assistant","content":"g"},
    {"role":"user","content":"h"},{"role":"user","content":"i"}])";
  auto format = format_with_calls();
  EXPECT_EQ(prepared(*format, late), Ordered::parse(late));
  format->late_system = false;
  EXPECT_EQ(prepared(*format, late),
            Ordered::parse(R"([{"role":"system","content":"first"},{"role":"user","content":"a\n\nb"},
              {"role":"assistant","content":"c"},{"role":"user","content":"d\n\ne\n\nf"},
              {"role":"assistant","content":"g"},{"role":"user","content":"h"},{"role":"user","content":"i"}])"));
}

// Where a template takes the conversation of an agent, it takes it with a system message in the middle, too.
TEST(PrepareConversation, SystemMessagesInTheMiddleOfPublishedTemplates) {
  SHARED_DATA(folder, "templates/llama.cpp-templates");
  const auto rendered = [](const std::string& source, const std::string& late) {
    try {
      const text::ChatTemplate chat_template(source);
      const auto format = std::make_shared<ChatFormat>(detect_format(chat_template, source));
      const std::string messages = R"([{"role":"system","content":"first"},{"role":"user","content":"q"},)" + late +
                                   R"({"role":"assistant","content":null,"tool_calls":[
        {"id":"123456789","type":"function","function":{"name":"f","arguments":{"a":1}}}]},
        {"role":"tool","tool_call_id":"123456789","content":"one"}])";
      PreparedConversation ready = prepare(format, {.messages = messages, .tools = tools});
      return chat_template.render({.messages = ready.messages, .tools = ready.tools, .extra = ready.variables});
    } catch (const Error&) {
      return std::string();
    }
  };
  size_t taken = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    SCOPED_TRACE(entry.path().filename());
    std::ifstream file(entry.path());
    const std::string source(std::istreambuf_iterator<char>(file), {});
    if (rendered(source, "").empty()) continue;
    ++taken;
    EXPECT_NE(rendered(source, R"({"role":"system","content":"zqlate"},)").find("zqlate"), std::string::npos);
  }
  EXPECT_GT(taken, 40u);
}

TEST(PrepareConversation, OneCallInAMessage) {
  auto format = format_with_calls();
  format->calls.one_call = true;
  const Ordered messages = prepared(*format, calls);
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[1]["tool_calls"].size(), 1u);
  EXPECT_EQ(messages[1]["reasoning_content"], "hm");
  EXPECT_EQ(messages[2]["content"], "one");
  EXPECT_EQ(messages[3]["tool_calls"][0]["id"], "2");
  EXPECT_FALSE(messages[3].contains("reasoning_content"));
  EXPECT_EQ(messages[4]["content"], "two");
}

// A message gets a member while another is read, which moves them all.
TEST(PrepareConversation, ThoughtTextAndCallInOneMessage) {
  const std::string long_thought(100, 'h');
  const std::string messages = R"([{"role":"user","content":"q"},{"role":"assistant","content":"I look.",)"
                               R"("reasoning_content":")" +
                               long_thought +
                               R"(","tool_calls":[{"id":"1","type":"function","function":)"
                               R"({"name":"f","arguments":{"a":1}}}]}])";
  auto format = format_with_calls();
  format->thought_field = "thinking";
  EXPECT_EQ(prepared(*format, messages)[1]["thinking"], long_thought);
  EXPECT_EQ(prepared(*format, messages)[1]["content"], "I look.");
  format->calls = named_call_format("harmony");
  const Ordered answer = prepared(*format, messages)[1];
  EXPECT_EQ(answer["thinking"], long_thought + "\nI look.") << "gpt-oss has one place for both";
  EXPECT_EQ(answer["content"], "");
  EXPECT_EQ(answer["tool_calls"].size(), 1u);
}

TEST(PrepareConversation, TemplatesWithoutToolsGetThemAsText) {
  const PreparedConversation chat = prepare(std::make_shared<ChatFormat>(), {.messages = calls, .tools = tools});
  EXPECT_EQ(chat.tools, "");
  EXPECT_EQ(chat.format->calls, generic_call_format());
  const Ordered messages = Ordered::parse(chat.messages);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_NE(messages[0]["content"].get<std::string>().find(tools), std::string::npos);
  EXPECT_EQ(messages[2]["content"],
            "<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n</tool_call>\n"
            "<tool_call>\n{\"name\":\"g\",\"arguments\":{}}\n</tool_call>");
  EXPECT_EQ(messages[3]["role"], "user");
  EXPECT_EQ(messages[3]["content"], "<tool_response>\ntwo\n</tool_response>\n<tool_response>\none\n</tool_response>");
  const auto with_system = R"([{"role":"system","content":"s"},{"role":"user","content":"q"}])";
  EXPECT_TRUE(prepared({}, with_system, tools)[0]["content"].get<std::string>().starts_with("s\n\nYou can call"));
}

// A template may write calls and not tools: then its own calls are asked for.
TEST(PrepareConversation, CallsOfTheTemplateWithoutItsTools) {
  for (const Family& family : families()) {
    if (family.name != "deepseek v3.1") continue;
    const PreparedConversation chat = prepare(family.format, {.messages = calls, .tools = tools});
    EXPECT_EQ(chat.format->calls, family.format->calls);
    const Ordered messages = Ordered::parse(chat.messages);
    EXPECT_EQ(messages[2]["tool_calls"].size(), 2u);
    EXPECT_NE(messages[0]["content"].get<std::string>().find(family.format->calls.arguments_begin), std::string::npos);
  }
}

TEST(PrepareConversation, EffortSetsWhatTheTemplateHas) {
  const std::string messages = R"([{"role":"user","content":"q"}])";
  const auto variables = [&](const ChatFormat& format, std::string effort, std::string given = "") {
    return prepare(std::make_shared<ChatFormat>(format),
                   {.messages = messages, .variables = std::move(given), .effort = std::move(effort)})
        .variables;
  };
  ChatFormat format;
  EXPECT_EQ(variables(format, ""), "");
  EXPECT_EQ(variables(format, "low"), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(variables(format, "none"), "{}");
  format.thought_switch = "enable_thinking";
  EXPECT_EQ(variables(format, "none"), R"({"enable_thinking":false})");
  EXPECT_EQ(variables(format, "high"), R"({"reasoning_effort":"high","enable_thinking":true})");
  EXPECT_EQ(variables(format, "high", R"({"enable_thinking":false})"),
            R"({"enable_thinking":false,"reasoning_effort":"high"})");
  format.calls.kind = CallFormat::Kind::harmony;
  format.thought_switch = "";
  EXPECT_EQ(variables(format, "none"), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(variables(format, "xhigh"), R"({"reasoning_effort":"high"})");
}

}  // namespace
}  // namespace heddle::chat
