#include "server/api/openai/openai_tools.h"

#include <algorithm>

#include "engine/request.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t max_tools = 1024;

// One of `tools`.
void read_tool(const Fields& body, const Json& tool, const std::string& place) {
  Fields fields(tool, place, body);
  const std::string& type = text_at(fields.at("type"), fields.place("type"));
  if (type != "function") throw unexpected(fields.place("type"), "\"function\"", type, "unsupported_value");
  Fields function(fields.at("function"), fields.place("function"), fields);
  text_at(function.at("name"), function.place("name"));
  function.text("description");
  function.flag("strict");  // arguments are always kept to the schema
  if (const Json* parameters = function.find("parameters"); parameters && !parameters->is_object())
    throw unexpected(function.place("parameters"), "a JSON Schema", *parameters);
  function.finish();
  fields.finish();
}

ToolList read_all_tools(Fields& fields, std::string_view body) {
  ToolList all;
  const Json* tools = fields.find("tools");
  if (!tools || (tools->is_array() && tools->empty())) return all;
  list_at(*tools, "tools", max_tools);
  Ordered ordered = std::move(Ordered::parse(body)["tools"]);
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string place = element("tools", i);
    read_tool(fields, (*tools)[i], place);
    all.add(place + ".function.name", std::move(ordered[i]));
  }
  return all;
}

std::string named_function(const Fields& outer, const Json& choice, const std::string& place, const ToolList& all) {
  Fields fields(choice, place, outer);
  if (const std::string& type = text_at(fields.at("type"), fields.place("type")); type != "function")
    throw unexpected(fields.place("type"), "\"function\"", type, "unsupported_value");
  Fields function(fields.at("function"), fields.place("function"), fields);
  const std::string& name = text_at(function.at("name"), function.place("name"));
  if (!all.has(name)) throw unexpected(function.place("name"), "the name of one of the tools", name, "invalid_value");
  function.finish();
  fields.finish();
  return name;
}

// {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}
void read_allowed_tools(Fields& choice, ToolList& all, std::string& mode) {
  Fields allowed(choice.at("allowed_tools"), choice.place("allowed_tools"), choice);
  mode = text_at(allowed.at("mode"), allowed.place("mode"));
  if (mode != "auto" && mode != "required")
    throw unexpected(allowed.place("mode"), "\"auto\" or \"required\"", mode, "invalid_value");
  std::vector<std::string> names;
  for (const Json& tool : list_at(allowed.at("tools"), allowed.place("tools"), max_tools))
    names.push_back(named_function(allowed, tool, element(allowed.place("tools"), names.size()), all));
  allowed.finish();
  choice.finish();
  all.allow(names);
}

// "none", "auto" or "required". An object also says which tools may be called.
std::string read_choice(Fields& fields, ToolList& all) {
  if (const auto mode = tool_choice_mode(fields)) return *mode;
  const Json& value = fields.at("tool_choice");
  Fields choice(value, "tool_choice", fields);
  if (text_at(choice.at("type"), "tool_choice.type") == "allowed_tools") {
    std::string mode;
    read_allowed_tools(choice, all, mode);
    return mode;
  }
  all.allow({named_function(fields, value, "tool_choice", all)});
  return "required";
}

void refuse_functions(Fields& fields) {
  if (const Json* functions = fields.find("functions"); functions && !(functions->is_array() && functions->empty()))
    throw ApiError(400, "unsupported_parameter", "functions",
                   "functions: expected tools instead, a list of {{\"type\": \"function\", \"function\": ...}}");
  if (const Json* call = fields.find("function_call"); call && *call != "none" && *call != "auto")
    throw ApiError(400, "unsupported_parameter", "function_call", "function_call: expected tool_choice instead");
}

}  // namespace

std::optional<std::string> tool_choice_mode(Fields& fields) {
  const Json* value = fields.find("tool_choice");
  if (!value) return "auto";
  if (!value->is_string()) return std::nullopt;
  const auto& mode = value->get_ref<const std::string&>();
  if (mode != "none" && mode != "auto" && mode != "required")
    throw unexpected("tool_choice", "\"none\", \"auto\", \"required\" or a function", *value, "invalid_value");
  return mode;
}

ToolUse read_tools(Fields& fields, std::string_view body) {
  refuse_functions(fields);
  ToolList all = read_all_tools(fields, body);
  const std::string choice = read_choice(fields, all);
  const bool parallel = fields.flag_or("parallel_tool_calls", true);
  if (choice == "required" && all.empty())
    throw bad_field("tool_choice", "tool_choice: expected tools to choose from, found none");
  if (choice == "none") return {.parallel = parallel};
  return std::move(all).use(choice == "required" ? ToolUse::Choice::required : ToolUse::Choice::automatic, parallel);
}

std::string read_effort(Fields& fields, std::string_view name) {
  constexpr std::string_view efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
  std::string effort = fields.text(name).value_or("");
  if (!effort.empty() && std::ranges::find(efforts, effort) == std::end(efforts))
    throw unexpected(fields.place(name), "none, minimal, low, medium, high, xhigh or max", effort, "invalid_value");
  return effort;
}

Thinking read_thinking(Fields& fields) {
  Thinking thinking{.effort = read_effort(fields, "reasoning_effort")};
  // Ollama's clients say it here too
  if (const Json* think = fields.find("think")) {
    if (!think->is_boolean()) throw unexpected("think", "true or false", *think);
    if (thinking.effort.empty() && !think->get<bool>()) thinking.effort = "none";
  }
  const std::string_view name = fields.either("thinking_token_budget", "reasoning_budget");
  if (const auto tokens = fields.whole(name, -1, engine::no_limit - 1); tokens && *tokens >= 0)  // -1: no limit
    thinking.max_tokens = uint32_t(*tokens);
  return thinking;
}

}  // namespace heddle::server
