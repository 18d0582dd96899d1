#include "server/api/chat/chat_tools.h"

#include <algorithm>

#include "chat/tools.h"
#include "engine/request.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t max_tools = 1024, max_tool_name = 64;

// Templates and formats of calls write names as they are.
std::string read_tool_name(Fields& fields) {
  const std::string place = fields.place("name");
  const std::string& name = text_at(fields.at("name"), place);
  const bool fits = !name.empty() && name.size() <= max_tool_name && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
  if (!fits)
    throw unexpected(place, fmt::format("1 to {} letters, digits, _, - and .", max_tool_name), name, "invalid_value");
  return name;
}

// One of `tools`; `ordered` is the same with its keys in the order of the body.
chat::Tool read_tool(const Json& tool, const Ordered& ordered, const std::string& place) {
  Fields fields(tool, place);
  const std::string& type = text_at(fields.at("type"), fields.place("type"));
  if (type != "function") throw unexpected(fields.place("type"), "\"function\"", type, "unsupported_value");
  Fields function(fields.at("function"), fields.place("function"));
  chat::Tool out{read_tool_name(function), Ordered::object()};
  function.text("description");
  function.flag("strict");  // arguments are always kept to the schema
  if (const Json* parameters = function.find("parameters")) {
    if (!parameters->is_object()) throw unexpected(function.place("parameters"), "a JSON Schema", *parameters);
    out.parameters = ordered["function"]["parameters"];
  }
  if (!out.parameters.contains("type")) out.parameters["type"] = "object";
  function.finish();
  fields.finish();
  return out;
}

struct AllTools {
  chat::Tools list;
  Ordered json = Ordered::array();

  void keep(const std::vector<std::string>& names) {
    const auto is_kept = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
    std::erase_if(list, [&](const chat::Tool& tool) { return !is_kept(tool.name); });
    Ordered kept = Ordered::array();
    for (Ordered& tool : json)
      if (is_kept(tool["function"]["name"].get<std::string>())) kept.push_back(std::move(tool));
    json = std::move(kept);
  }
};

AllTools read_all_tools(Fields& fields, std::string_view body) {
  AllTools all;
  const Json* tools = fields.find("tools");
  if (!tools || (tools->is_array() && tools->empty())) return all;
  list_at(*tools, "tools", max_tools);
  all.json = std::move(Ordered::parse(body)["tools"]);
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string place = element("tools", i);
    chat::Tool tool = read_tool((*tools)[i], all.json[i], place);
    if (chat::find_tool(all.list, tool.name))
      throw bad_field(place + ".function.name", "{}.function.name: expected another name, found {} a second time",
                      place, tool.name);
    all.list.push_back(std::move(tool));
  }
  return all;
}

std::string named_function(const Json& choice, const std::string& place, const AllTools& all) {
  Fields fields(choice, place);
  if (const std::string& type = text_at(fields.at("type"), fields.place("type")); type != "function")
    throw unexpected(fields.place("type"), "\"function\"", type, "unsupported_value");
  Fields function(fields.at("function"), fields.place("function"));
  const std::string& name = text_at(function.at("name"), function.place("name"));
  if (!chat::find_tool(all.list, name))
    throw unexpected(function.place("name"), "the name of one of the tools", name, "invalid_value");
  function.finish();
  fields.finish();
  return name;
}

// {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}
void read_allowed_tools(Fields& choice, AllTools& all, std::string& mode) {
  Fields allowed(choice.at("allowed_tools"), choice.place("allowed_tools"));
  mode = text_at(allowed.at("mode"), allowed.place("mode"));
  if (mode != "auto" && mode != "required")
    throw unexpected(allowed.place("mode"), "\"auto\" or \"required\"", mode, "invalid_value");
  std::vector<std::string> names;
  for (const Json& tool : list_at(allowed.at("tools"), allowed.place("tools"), max_tools))
    names.push_back(named_function(tool, element(allowed.place("tools"), names.size()), all));
  allowed.finish();
  choice.finish();
  all.keep(names);
}

// "none", "auto" or "required"; of what is more, the tools are left that may be called.
std::string read_choice(Fields& fields, AllTools& all) {
  const Json* value = fields.find("tool_choice");
  if (!value) return "auto";
  if (value->is_string()) {
    const auto& mode = value->get_ref<const std::string&>();
    if (mode != "none" && mode != "auto" && mode != "required")
      throw unexpected("tool_choice", "\"none\", \"auto\", \"required\" or a function", *value, "invalid_value");
    return mode;
  }
  Fields choice(*value, "tool_choice");
  if (text_at(choice.at("type"), "tool_choice.type") == "allowed_tools") {
    std::string mode;
    read_allowed_tools(choice, all, mode);
    return mode;
  }
  all.keep({named_function(*value, "tool_choice", all)});
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

ToolUse read_tools(Fields& fields, std::string_view body) {
  refuse_functions(fields);
  AllTools all = read_all_tools(fields, body);
  const std::string choice = read_choice(fields, all);
  ToolUse use{.parallel = fields.flag_or("parallel_tool_calls", true)};
  if (choice == "required" && all.list.empty())
    throw bad_field("tool_choice", "tool_choice: expected tools to choose from, found none");
  if (choice == "none" || all.list.empty()) return use;
  use.json = all.json.dump();
  use.tools = std::make_shared<const chat::Tools>(std::move(all.list));
  use.choice = choice == "required" ? ToolUse::Choice::required : ToolUse::Choice::automatic;
  return use;
}

Thinking read_thinking(Fields& fields) {
  Thinking thinking;
  constexpr std::string_view efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
  if (auto effort = fields.text("reasoning_effort")) {
    if (std::ranges::find(efforts, *effort) == std::end(efforts))
      throw unexpected("reasoning_effort", "none, minimal, low, medium, high, xhigh or max", *effort, "invalid_value");
    thinking.effort = std::move(*effort);
  }
  const std::string_view name = fields.either("thinking_token_budget", "reasoning_budget");
  if (const auto tokens = fields.whole(name, -1, engine::no_limit - 1); tokens && *tokens >= 0)  // -1: no limit
    thinking.max_tokens = uint32_t(*tokens);
  return thinking;
}

}  // namespace heddle::server
