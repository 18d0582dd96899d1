// The bodies of POST /v1/messages and of /v1/messages/count_tokens.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/request.h"
#include "server/api/anthropic/anthropic.h"
#include "server/api/anthropic/anthropic_messages.h"
#include "server/api/openai/openai.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t max_anthropic_tools = 1024;

struct AnthropicTools {
  ToolList list;
  DeferredTools deferred;
};

// Tools that Anthropic's servers run, or have schemas for, are known by their type. They are left out.
bool is_left_out(Fields& tool, const RequestRules& rules) {
  const std::string type = tool.text("type").value_or("custom");
  if (type == "custom") return false;
  if (!rules.ignored) throw unexpected(tool.place("type"), "\"custom\"", type, "unsupported_value");
  rules.ignored->add(tool.place(type));
  return true;
}

void read_custom_tool(Fields& tool, const Ordered& ordered, AnthropicTools& out) {
  const std::string place = tool.place("name");
  std::string name = text_at(tool.at("name"), place);
  Ordered function{{"name", name}};
  if (auto description = tool.text("description")) function["description"] = std::move(*description);
  if (const Json& schema = tool.at("input_schema"); !schema.is_object())
    throw unexpected(tool.place("input_schema"), "a JSON Schema", schema);
  function["parameters"] = ordered["input_schema"];
  const bool deferred = tool.flag_or("defer_loading", false);
  tool.flag("strict");                 // input is always kept to the schema
  tool.flag("eager_input_streaming");  // it always comes as it is generated
  tool.find("cache_control");          // prefixes are found without it
  for (const std::string_view ignored : {"allowed_callers", "input_examples"}) tool.ignore(ignored);
  tool.finish();
  Ordered read{{"type", "function"}, {"function", std::move(function)}};
  if (deferred)
    out.deferred.insert({std::move(name), {place, std::move(read)}});
  else
    out.list.add(place, std::move(read));
}

AnthropicTools read_anthropic_tools(Fields& fields, const Ordered& body, const RequestRules& rules) {
  AnthropicTools out;
  const Json* tools = fields.find("tools");
  if (!tools || (tools->is_array() && tools->empty())) return out;
  list_at(*tools, "tools", max_anthropic_tools);
  for (size_t i = 0; i < tools->size(); ++i) {
    Fields tool((*tools)[i], element("tools", i), fields);
    if (!is_left_out(tool, rules)) read_custom_tool(tool, body["tools"][i], out);
  }
  return out;
}

ToolUse read_anthropic_choice(Fields& fields, ToolList tools) {
  const Json* value = fields.find("tool_choice");
  if (!value) return std::move(tools).use(ToolUse::Choice::automatic, true);
  Fields choice(*value, "tool_choice", fields);
  const std::string type = text_at(choice.at("type"), choice.place("type"));
  const bool parallel = !choice.flag_or("disable_parallel_tool_use", false);
  const bool is_named = type == "tool";
  if (is_named) {
    const std::string& name = text_at(choice.at("name"), choice.place("name"));
    if (!tools.has(name)) throw unexpected(choice.place("name"), "the name of one of the tools", name, "invalid_value");
    tools.allow({name});
  } else if (type == "any" && tools.empty()) {
    throw bad_field("tool_choice", "tool_choice: expected tools to choose from, found none");
  } else if (type != "auto" && type != "any" && type != "none") {
    throw unexpected(choice.place("type"), "auto, any, tool or none", type, "invalid_value");
  }
  choice.finish();
  if (type == "none") return {.parallel = parallel};
  const bool must_call = is_named || type == "any";
  return std::move(tools).use(must_call ? ToolUse::Choice::required : ToolUse::Choice::automatic, parallel);
}

// {"type": "json_schema", "schema": ...}
ConstraintField read_output_format(const Fields& outer, const Json& value, const std::string& place,
                                   const Ordered& ordered) {
  Fields format(value, place, outer);
  if (const std::string type = text_at(format.at("type"), format.place("type")); type != "json_schema")
    throw unexpected(format.place("type"), "\"json_schema\"", type, "unsupported_value");
  const Json& schema = format.at("schema");
  if (!schema.is_object()) throw unexpected(format.place("schema"), "a JSON Schema", schema);
  format.text("name");
  format.finish();
  return {{grammar::Source::Kind::json_schema, ordered["schema"].dump()}, format.place("schema")};
}

// Effort, and what the answer must be.
void read_output(Fields& fields, const Ordered& body, MessageRequest& request) {
  auto& constraint = request.generation.constraint;
  if (const Json* format = fields.find("output_format"))
    constraint = read_output_format(fields, *format, "output_format", body["output_format"]);
  const Json* value = fields.find("output_config");
  if (!value) return;
  Fields config(*value, "output_config", fields);
  if (const auto effort = config.text("effort")) {
    constexpr std::string_view efforts[] = {"low", "medium", "high", "xhigh", "max"};
    if (std::ranges::find(efforts, *effort) == std::end(efforts))
      throw unexpected(config.place("effort"), "low, medium, high, xhigh or max", *effort, "invalid_value");
    request.thinking.effort = *effort;
  }
  if (const Json* format = config.find("format")) {
    const std::string place = config.place("format");
    if (constraint) throw bad_field(place, "{}: expected one format, found output_format as well", place);
    constraint = read_output_format(config, *format, place, body["output_config"]["format"]);
  }
  config.ignore("task_budget");
  config.finish();
}

// After the effort, which "disabled" overrides.
void read_anthropic_thinking(Fields& fields, MessageRequest& request) {
  const Json* value = fields.find("thinking");
  if (!value) return;
  Fields thinking(*value, "thinking", fields);
  const std::string type = text_at(thinking.at("type"), thinking.place("type"));
  if (type == "enabled") {
    if (request.thinking.effort.empty()) request.thinking.effort = "medium";
    if (const auto tokens = thinking.whole("budget_tokens", 0, engine::no_limit - 1))
      request.thinking.max_tokens = uint32_t(*tokens);
  } else if (type == "disabled") {
    request.thinking.effort = "none";
  } else if (type != "adaptive") {
    throw unexpected(thinking.place("type"), "enabled, adaptive or disabled", type, "invalid_value");
  }
  if (const auto display = thinking.text("display")) {
    if (*display != "summarized" && *display != "omitted")
      throw unexpected(thinking.place("display"), "summarized or omitted", *display, "invalid_value");
    request.options.shows_thinking = *display != "omitted";
  }
  if (type != "enabled") thinking.ignore("budget_tokens");
  thinking.finish();
}

std::string read_user_id(Fields& fields) {
  const Json* value = fields.find("metadata");
  if (!value) return "";
  Fields metadata(*value, "metadata", fields);
  std::string user = metadata.text("user_id").value_or("");
  metadata.finish();
  return user;
}

// What the prompt is made of.
MessageRequest read_prompt(Fields& fields, std::string_view text, const RequestRules& rules) {
  const Ordered body = Ordered::parse(text);
  MessageRequest request;
  request.model = fields.text("model").value_or("");
  AnthropicTools tools = read_anthropic_tools(fields, body, rules);
  AnthropicMessages read = read_anthropic_messages(fields, body, tools.deferred);
  request.conversation.messages = read.messages.dump();
  for (const std::string& name : read.references) {
    DeferredTool& tool = tools.deferred.at(name);
    tools.list.add(tool.name_place, std::move(tool.tool), ToolList::Place::messages);
  }
  request.tools = read_anthropic_choice(fields, std::move(tools.list));
  read_output(fields, body, request);
  read_anthropic_thinking(fields, request);
  fields.find("cache_control");
  for (const std::string_view name : {"betas", "container", "context_management", "diagnostics", "inference_geo",
                                      "mcp_servers", "service_tier", "speed", "user_profile_id", "workspace_id"})
    fields.ignore(name);
  return request;
}

}  // namespace

MessageRequest read_create_message(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  MessageRequest request = read_prompt(fields, body, rules);
  if (json["messages"].back()["role"] == "assistant")
    throw ApiError(400, "unsupported_value", "messages",
                   "messages: expected a user message at the end, found one of the assistant: the beginning of an "
                   "answer cannot be given");
  GenerationRequest& generation = request.generation;
  read_sampling(fields, rules, generation);
  generation.stop_strings = read_stop_strings(fields, "stop_sequences");
  generation.max_tokens = read_token_limit(fields, "max_tokens", 1);
  generation.user = read_user_id(fields);
  request.options.stream = fields.flag_or("stream", false);
  fields.finish();
  return request;
}

MessageRequest read_count_tokens(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  MessageRequest request = read_prompt(fields, body, rules);
  fields.finish();
  return request;
}

}  // namespace heddle::server
