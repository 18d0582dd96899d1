// Tools of a response. Those that are no functions are for servers that run them; clients send them to every server.
#include <algorithm>

#include "server/api/responses/responses.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t max_response_tools = 1024;

// In the form of OpenAI's chats. `echo`: gets the tool as responses write it.
Ordered read_function_tool(Fields& fields, Ordered tool, Ordered& echo) {
  const std::string name = text_at(fields.at("name"), fields.place("name"));
  Ordered function{{"name", name}};
  if (const auto description = fields.text("description")) function["description"] = *description;
  if (const Json* parameters = fields.find("parameters")) {
    if (!parameters->is_object()) throw unexpected(fields.place("parameters"), "a JSON Schema", *parameters);
    function["parameters"] = tool["parameters"];
  }
  const bool strict = fields.flag_or("strict", true);  // arguments are always kept to the schema
  for (const std::string_view ignored : {"defer_loading", "async", "allowed_callers", "output_schema"})
    fields.ignore(ignored);
  fields.finish();
  echo.push_back({{"type", "function"},
                  {"name", name},
                  {"description", function.value("description", Ordered())},
                  {"parameters", function.value("parameters", Ordered())},
                  {"strict", strict}});
  return {{"type", "function"}, {"function", std::move(function)}};
}

ToolList read_tool_list(Fields& fields, const RequestRules& rules, const Ordered& ordered, Ordered& echo) {
  ToolList all;
  const Json* tools = fields.find("tools");
  if (!tools || (tools->is_array() && tools->empty())) return all;
  list_at(*tools, "tools", max_response_tools);
  for (size_t i = 0; i < tools->size(); ++i) {
    Fields tool((*tools)[i], element("tools", i), fields);
    const std::string& type = text_at(tool.at("type"), tool.place("type"));
    if (type == "function")
      all.add(tool.place("name"), read_function_tool(tool, ordered["tools"][i], echo));
    else if (rules.ignored)
      rules.ignored->add("tools[].type=" + type);
    else
      tool.ignore("type");  // refuses
  }
  return all;
}

// The functions that tool_choice names in `tools`; other tools are left out, as in the list of all.
std::vector<std::string> read_allowed_names(Fields& choice, const ToolList& all) {
  std::vector<std::string> names;
  const std::string place = choice.place("tools");
  size_t index = 0;
  for (const Json& one : list_at(choice.at("tools"), place, max_response_tools)) {
    Fields tool(one, element(place, index++), choice);
    if (text_at(tool.at("type"), tool.place("type")) != "function") {
      tool.ignore("type");
      continue;
    }
    const std::string& name = text_at(tool.at("name"), tool.place("name"));
    if (!all.has(name)) throw unexpected(tool.place("name"), "the name of one of the tools", name, "invalid_value");
    names.push_back(name);
    tool.finish();
  }
  return names;
}

// "none", "auto" or "required". An object also says which tools may be called.
std::string read_tool_choice(Fields& fields, ToolList& all) {
  if (const auto mode = tool_choice_mode(fields)) return *mode;
  Fields choice(fields.at("tool_choice"), "tool_choice", fields);
  const std::string& type = text_at(choice.at("type"), "tool_choice.type");
  std::string mode = "required";
  if (type == "allowed_tools") {
    mode = text_at(choice.at("mode"), choice.place("mode"));
    if (mode != "auto" && mode != "required")
      throw unexpected(choice.place("mode"), "\"auto\" or \"required\"", mode, "invalid_value");
    all.allow(read_allowed_names(choice, all));
  } else if (type == "function") {
    const std::string& name = text_at(choice.at("name"), choice.place("name"));
    if (!all.has(name)) throw unexpected(choice.place("name"), "the name of one of the tools", name, "invalid_value");
    all.allow({name});
  } else {
    throw unexpected("tool_choice.type", "\"function\" or \"allowed_tools\"", type, "unsupported_value");
  }
  choice.finish();
  return mode;
}

}  // namespace

ToolUse read_response_tools(Fields& fields, const RequestRules& rules, const Ordered& ordered, Ordered& response) {
  Ordered echo = Ordered::array();
  ToolList all = read_tool_list(fields, rules, ordered, echo);
  const std::string choice = read_tool_choice(fields, all);
  const bool parallel = fields.flag_or("parallel_tool_calls", true);
  response["parallel_tool_calls"] = parallel;
  response["tool_choice"] = fields.find("tool_choice") ? ordered["tool_choice"] : Ordered("auto");
  response["tools"] = std::move(echo);
  if (choice == "required" && all.empty())
    throw bad_field("tool_choice", "tool_choice: expected functions to choose from, found none");
  if (choice == "none") return {.parallel = parallel};
  return std::move(all).use(choice == "required" ? ToolUse::Choice::required : ToolUse::Choice::automatic, parallel);
}

}  // namespace heddle::server
