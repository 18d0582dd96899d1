// Tools and tool_choice of a response.
#include "server/api/responses/responses.h"
#include "tests/server/api/request_fixture.h"

namespace heddle::server {
namespace {

constexpr std::string_view two_functions = R"("tools":[
  {"type":"function","name":"f","description":"F.","parameters":{"type":"object","properties":{"b":{},"a":{}}},"strict":false},
  {"type":"function","name":"g"}])";

ResponsesRequest with_response_tools(std::string_view fields, IgnoredFields* ignored = nullptr) {
  RequestRules rules = small_rules();
  rules.ignored = ignored;
  return read_response(fmt::format(R"({{"input":"x",{}}})", fields), rules, ResponseStore({}));
}
std::vector<std::string> names_of(const ToolUse& use) {
  std::vector<std::string> names;
  if (use.tools)
    for (const chat::Tool& tool : *use.tools) names.push_back(tool.name);
  return names;
}

TEST(ResponseTools, Functions) {
  const ResponsesRequest request = with_response_tools(two_functions);
  EXPECT_EQ(
      request.tools.json,
      R"([{"type":"function","function":{"name":"f","description":"F.",)"
      R"("parameters":{"type":"object","properties":{"b":{},"a":{}}}}},{"type":"function","function":{"name":"g"}}])");
  EXPECT_EQ(names_of(request.tools), (std::vector<std::string>{"f", "g"}));
  EXPECT_EQ(request.tools.choice, ToolUse::Choice::automatic);
  EXPECT_TRUE(request.tools.parallel);
  EXPECT_EQ(request.response["tools"].dump(),
            R"([{"type":"function","name":"f","description":"F.",)"
            R"("parameters":{"type":"object","properties":{"b":{},"a":{}}},"strict":false},)"
            R"({"type":"function","name":"g","description":null,"parameters":null,"strict":true}])");
  EXPECT_EQ(request.response["tool_choice"], "auto");
  EXPECT_FALSE(with_response_tools(std::string(two_functions) + R"(,"parallel_tool_calls":false)").tools.parallel);
  EXPECT_FALSE(with_response_tools(R"("tools":[])").tools);
}

TEST(ResponseTools, OthersAreSkippedAndNamed) {
  IgnoredFields ignored;
  const ResponsesRequest request = with_response_tools(R"("tools":[{"type":"web_search","external_web_access":false},
    {"type":"namespace","name":"n","tools":[{"type":"function","name":"h"}]},{"type":"function","name":"f"},
    {"type":"custom","name":"apply_patch","format":{"type":"grammar"}},{"type":"local_shell"},{"type":"mcp"},
    {"type":"file_search","vector_store_ids":[]}])",
                                                       &ignored);
  EXPECT_EQ(names_of(request.tools), std::vector<std::string>{"f"});
  EXPECT_EQ(request.response["tools"].size(), 1u);
  EXPECT_EQ(ignored.names(),
            (std::vector<std::string>{"tools[].type=web_search", "tools[].type=namespace", "tools[].type=custom",
                                      "tools[].type=local_shell", "tools[].type=mcp", "tools[].type=file_search"}));
  EXPECT_BAD(with_response_tools(R"("tools":[{"type":"web_search"}])"), "tools[0].type", "unsupported_parameter",
             "web_search");
}

// The prompt has all tools whatever the choice, so that the prefix cache finds it again.
TEST(ResponseTools, Choices) {
  const auto choose = [](std::string_view choice) {
    return with_response_tools(fmt::format(R"({},"tool_choice":{})", two_functions, choice));
  };
  const std::string all = with_response_tools(two_functions).tools.json;
  EXPECT_EQ(choose(R"("required")").tools.choice, ToolUse::Choice::required);
  EXPECT_FALSE(choose(R"("none")").tools);
  const ResponsesRequest one = choose(R"({"type":"function","name":"g"})");
  EXPECT_EQ(names_of(one.tools), std::vector<std::string>{"g"});
  EXPECT_EQ(one.tools.choice, ToolUse::Choice::required);
  EXPECT_EQ(one.tools.json, all);
  EXPECT_EQ(one.response["tool_choice"].dump(), R"({"type":"function","name":"g"})");
  const ResponsesRequest allowed =
      choose(R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]})");
  EXPECT_EQ(names_of(allowed.tools), std::vector<std::string>{"f"});
  EXPECT_EQ(allowed.tools.choice, ToolUse::Choice::automatic);
  EXPECT_EQ(allowed.tools.json, all);
  EXPECT_EQ(
      choose(R"({"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]})").tools.choice,
      ToolUse::Choice::required);
}

TEST(ResponseTools, Refused) {
  EXPECT_BAD(with_response_tools(R"("tools":{})"), "tools", "invalid_type", "a list");
  EXPECT_BAD(with_response_tools(R"("tools":[{"name":"f"}])"), "tools[0].type", "missing_required_parameter",
             "missing");
  EXPECT_BAD(with_response_tools(R"("tools":[{"type":"function"}])"), "tools[0].name", "missing_required_parameter",
             "missing");
  EXPECT_BAD(with_response_tools(R"("tools":[{"type":"function","name":"a b"}])"), "tools[0].name", "invalid_value",
             "letters", "a b");
  EXPECT_BAD(with_response_tools(R"("tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}])"),
             "tools[1].name", "", "a second time");
  EXPECT_BAD(with_response_tools(R"("tools":[{"type":"function","name":"f","parameters":[]}])"), "tools[0].parameters",
             "invalid_type", "JSON Schema");
  EXPECT_BAD(with_response_tools(R"("tools":[{"type":"function","function":{"name":"f"}}])"), "tools[0].name",
             "missing_required_parameter", "missing");
  EXPECT_BAD(with_response_tools(R"("tool_choice":"any")"), "tool_choice", "invalid_value", "\"required\"", "any");
  EXPECT_BAD(with_response_tools(R"("tool_choice":"required")"), "tool_choice", "", "expected functions", "found none");
  EXPECT_BAD(with_response_tools(std::string(two_functions) + R"(,"tool_choice":{"type":"function","name":"h"})"),
             "tool_choice.name", "invalid_value", "one of the tools", "h");
  EXPECT_BAD(with_response_tools(std::string(two_functions) + R"(,"tool_choice":{"type":"web_search"})"),
             "tool_choice.type", "unsupported_value", "allowed_tools", "web_search");
}

}  // namespace
}  // namespace heddle::server
