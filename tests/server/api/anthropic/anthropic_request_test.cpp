// Bodies of POST /v1/messages but for their messages.
#include <gtest/gtest.h>

#include "server/api/anthropic/anthropic.h"
#include "tests/server/api/request_fixture.h"

namespace heddle::server {
namespace {

MessageRequest message_request(std::string_view fields, IgnoredFields* ignored = nullptr) {
  RequestRules rules = small_rules();
  rules.ignored = ignored;
  return read_create_message(with_message(fields), rules);
}

constexpr std::string_view anthropic_tools = R"("tools":[
  {"name":"f","description":"d","strict":true,"cache_control":{"type":"ephemeral"},
   "input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}}}},
  {"type":"custom","name":"g","input_schema":{"type":"object"}}])";
MessageRequest with_both(std::string_view fields) {
  return message_request(fmt::format("{},{}", anthropic_tools, fields));
}

TEST(AnthropicRequests, Generation) {
  const MessageRequest none = message_request("");
  EXPECT_EQ(none.model, "");
  EXPECT_EQ(none.generation.max_tokens, std::nullopt);
  EXPECT_EQ(none.generation.sampling.temperature, 1);
  EXPECT_FALSE(none.options.stream);
  EXPECT_TRUE(none.options.shows_thinking);
  EXPECT_EQ(none.thinking.effort, "");
  EXPECT_FALSE(none.tools);
  const MessageRequest all = message_request(R"("model":"m","max_tokens":32000,"temperature":0.5,"top_p":0.25,"top_k":7,
    "stop_sequences":["a","b"],"stream":true,"metadata":{"user_id":"somebody"})");
  EXPECT_EQ(all.model, "m");
  EXPECT_EQ(all.generation.max_tokens, 32000u);
  EXPECT_EQ(all.generation.sampling.temperature, 0.5f);
  EXPECT_EQ(all.generation.sampling.top_p, 0.25f);
  EXPECT_EQ(all.generation.sampling.top_k, 7);
  EXPECT_EQ(all.generation.stop_strings, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(all.generation.user, "somebody");
  EXPECT_TRUE(all.options.stream);
}

TEST(AnthropicRequests, RefusesBadFields) {
  EXPECT_BAD(message_request(R"("max_tokens":0)"), "max_tokens", "integer_below_min_value", "from 1");
  EXPECT_BAD(message_request(R"("temperature":3)"), "temperature", "decimal_above_max_value");
  EXPECT_BAD(message_request(R"("stop_sequences":7)"), "stop_sequences", "invalid_type");
  EXPECT_BAD(message_request(R"("stop_sequences":[7])"), "stop_sequences[0]", "invalid_type");
  EXPECT_BAD(message_request(R"("stream":1)"), "stream", "invalid_type");
  EXPECT_BAD(message_request(R"("metadata":"x")"), "metadata", "invalid_type");
  EXPECT_BAD(message_request(R"("metadata":{"user_id":7})"), "metadata.user_id", "invalid_type");
  EXPECT_BAD(message_request(R"("prompt":"x")"), "prompt", "unknown_parameter");
  EXPECT_BAD(read_create_message(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})",
                                 small_rules()),
             "messages", "unsupported_value", "a user message at the end", "the assistant");
  EXPECT_NO_THROW(read_count_tokens(
      R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})", small_rules()));
}

TEST(AnthropicRequests, FieldsWithoutEffect) {
  constexpr const char* fields[] = {"betas",           "container",   "context_management", "diagnostics",
                                    "inference_geo",   "mcp_servers", "service_tier",       "speed",
                                    "user_profile_id", "workspace_id"};
  for (const char* field : fields) {
    IgnoredFields ignored;
    message_request(fmt::format(R"("{}":{{"a":[1]}})", field), &ignored);
    EXPECT_EQ(ignored.names(), std::vector<std::string>{field});
    EXPECT_BAD(message_request(fmt::format(R"("{}":"x")", field)), field, "unsupported_parameter", "no effect");
  }
  IgnoredFields ignored;
  message_request(R"("cache_control":{"type":"ephemeral"},"unheard_of":1)", &ignored);
  EXPECT_EQ(ignored.names(), std::vector<std::string>{"unheard_of"});
}

TEST(AnthropicTools, InTheFormOfChats) {
  const ToolUse use = message_request(anthropic_tools).tools;
  EXPECT_EQ(use.json, R"([{"type":"function","function":{"name":"f","description":"d","parameters":)"
                      R"({"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}}}}},)"
                      R"({"type":"function","function":{"name":"g","parameters":{"type":"object"}}}])");
  ASSERT_EQ(use.tools->size(), 2u);
  EXPECT_EQ(use.choice, ToolUse::Choice::automatic);
  EXPECT_TRUE(use.parallel);
  EXPECT_FALSE(message_request(R"("tools":[])").tools);
}

TEST(AnthropicTools, ThoseOfServersAreLeftOut) {
  constexpr std::string_view tools = R"("tools":[{"type":"web_search_20250305","name":"web_search","max_uses":5},
    {"name":"f","input_schema":{}},{"type":"bash_20250124","name":"bash"},
    {"type":"text_editor_20250728","name":"str_replace_based_edit_tool"}])";
  IgnoredFields ignored;
  const ToolUse use = message_request(tools, &ignored).tools;
  EXPECT_EQ(use.json, R"([{"type":"function","function":{"name":"f","parameters":{}}}])");
  EXPECT_EQ(ignored.names(), (std::vector<std::string>{"tools[].web_search_20250305", "tools[].bash_20250124",
                                                       "tools[].text_editor_20250728"}));
  EXPECT_BAD(message_request(tools), "tools[0].type", "unsupported_value", "\"custom\"", "web_search_20250305");
  IgnoredFields others;
  EXPECT_FALSE(message_request(R"("tools":[{"type":"bash_20250124","name":"bash"}])", &others).tools);
  EXPECT_BAD(
      message_request(R"("tools":[{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"any"})", &others),
      "tool_choice", "", "expected tools", "found none");
}

TEST(AnthropicTools, Choices) {
  EXPECT_EQ(with_both(R"("tool_choice":{"type":"auto"})").tools.choice, ToolUse::Choice::automatic);
  EXPECT_FALSE(with_both(R"("tool_choice":{"type":"none"})").tools);
  const ToolUse any = with_both(R"("tool_choice":{"type":"any","disable_parallel_tool_use":true})").tools;
  EXPECT_EQ(any.choice, ToolUse::Choice::required);
  EXPECT_EQ(any.tools->size(), 2u);
  EXPECT_FALSE(any.parallel);
  const ToolUse one = with_both(R"("tool_choice":{"type":"tool","name":"g"})").tools;
  EXPECT_EQ(one.choice, ToolUse::Choice::required);
  ASSERT_EQ(one.tools->size(), 1u);
  EXPECT_EQ((*one.tools)[0].name, "g");
  EXPECT_BAD(with_both(R"("tool_choice":"auto")"), "tool_choice", "invalid_type");
  EXPECT_BAD(with_both(R"("tool_choice":{"type":"required"})"), "tool_choice.type", "invalid_value",
             "auto, any, tool or none", "required");
  EXPECT_BAD(with_both(R"("tool_choice":{"type":"tool"})"), "tool_choice.name", "missing_required_parameter");
  EXPECT_BAD(with_both(R"("tool_choice":{"type":"tool","name":"x"})"), "tool_choice.name", "invalid_value",
             "one of the tools", "\"x\"");
  EXPECT_BAD(message_request(R"("tool_choice":{"type":"any"})"), "tool_choice", "", "found none");
}

TEST(AnthropicTools, RefusesBadTools) {
  const auto tool = [](std::string_view text) { return message_request(fmt::format(R"("tools":[{}])", text)); };
  EXPECT_BAD(message_request(R"("tools":{})"), "tools", "invalid_type");
  EXPECT_BAD(tool("7"), "tools[0]", "invalid_type");
  EXPECT_BAD(tool(R"({"input_schema":{}})"), "tools[0].name", "missing_required_parameter");
  EXPECT_BAD(tool(R"({"name":"a b","input_schema":{}})"), "tools[0].name", "invalid_value", "letters");
  EXPECT_BAD(tool(R"({"name":"f"})"), "tools[0].input_schema", "missing_required_parameter");
  EXPECT_BAD(tool(R"({"name":"f","input_schema":[]})"), "tools[0].input_schema", "invalid_type", "a JSON Schema");
  EXPECT_BAD(tool(R"({"name":"f","input_schema":{}},{"name":"f","input_schema":{}})"), "tools[1].name", "",
             "a second time");
}

TEST(AnthropicThinking, TypesAndEfforts) {
  const auto effort = [](std::string_view fields) { return message_request(fields).thinking.effort; };
  EXPECT_EQ(effort(R"("thinking":{"type":"disabled"})"), "none");
  EXPECT_EQ(effort(R"("thinking":{"type":"enabled","budget_tokens":1024})"), "medium");
  EXPECT_EQ(effort(R"("thinking":{"type":"adaptive"})"), "") << "as the template does";
  EXPECT_EQ(effort(R"("thinking":{"type":"adaptive"},"output_config":{"effort":"high"})"), "high");
  EXPECT_EQ(effort(R"("thinking":{"type":"disabled"},"output_config":{"effort":"high"})"), "none");
  EXPECT_EQ(effort(R"("output_config":{"effort":"low"})"), "low");
  EXPECT_EQ(message_request(R"("thinking":{"type":"enabled","budget_tokens":1024})").thinking.max_tokens, 1024u);
  EXPECT_EQ(message_request(R"("thinking":{"type":"adaptive"})").thinking.max_tokens, std::nullopt);
  EXPECT_FALSE(message_request(R"("thinking":{"type":"adaptive","display":"omitted"})").options.shows_thinking);
  EXPECT_TRUE(message_request(R"("thinking":{"type":"adaptive","display":"summarized"})").options.shows_thinking);
  EXPECT_BAD(effort(R"("thinking":{"type":"on"})"), "thinking.type", "invalid_value", "enabled, adaptive or disabled");
  EXPECT_BAD(effort(R"("thinking":true)"), "thinking", "invalid_type");
  EXPECT_BAD(effort(R"("thinking":{"type":"enabled","budget_tokens":-1})"), "thinking.budget_tokens",
             "integer_below_min_value");
  EXPECT_BAD(effort(R"("thinking":{"type":"disabled","budget_tokens":1})"), "thinking.budget_tokens",
             "unsupported_parameter");
  EXPECT_BAD(effort(R"("thinking":{"type":"adaptive","display":"some"})"), "thinking.display", "invalid_value");
  EXPECT_BAD(effort(R"("output_config":{"effort":"none"})"), "output_config.effort", "invalid_value", "low, medium");
}

TEST(AnthropicFormats, Schemas) {
  constexpr std::string_view schema = R"({"type":"object","properties":{"z":{},"a":{}}})";
  const std::string format = fmt::format(R"({{"type":"json_schema","schema":{}}})", schema);
  for (const auto& [fields, place] : std::vector<std::pair<std::string, std::string>>{
           {fmt::format(R"("output_config":{{"format":{}}})", format), "output_config.format.schema"},
           {fmt::format(R"("output_format":{})", format), "output_format.schema"}}) {
    const auto constraint = message_request(fields).generation.constraint;
    ASSERT_TRUE(constraint);
    EXPECT_EQ(constraint->source.kind, grammar::Source::Kind::json_schema);
    EXPECT_EQ(constraint->source.text, schema) << "keys in their order";
    EXPECT_EQ(constraint->field, place);
  }
  EXPECT_BAD(message_request(fmt::format(R"("output_format":{0},"output_config":{{"format":{0}}})", format)),
             "output_config.format", "", "output_format as well");
  EXPECT_BAD(message_request(R"("output_format":{"type":"text"})"), "output_format.type", "unsupported_value",
             "json_schema");
  EXPECT_BAD(message_request(R"("output_config":{"format":{"type":"json_schema"}})"), "output_config.format.schema",
             "missing_required_parameter");
  EXPECT_BAD(message_request(R"("output_config":{"format":{"type":"json_schema","schema":[]}})"),
             "output_config.format.schema", "invalid_type");
}

}  // namespace
}  // namespace heddle::server
