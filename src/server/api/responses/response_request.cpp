// The body of POST /v1/responses.
#include <algorithm>

#include "base/utf8.h"
#include "server/api/openai/openai.h"
#include "server/api/openai/openai_tools.h"
#include "server/api/responses/responses.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t max_includes = 100, max_metadata = 16;

// A value that asks for what heddle does not do.
void refuse_in_response(Fields& fields, std::string_view name, std::string_view what) {
  const Json* value = fields.find(name);
  if (value && *value != false)
    throw ApiError(400, "unsupported_parameter", fields.place(name),
                   "{}: heddle does not support {}; expected null, found {}", fields.place(name), what,
                   shortened(*value));
}

void ignore_unless(Fields& fields, std::string_view name, std::initializer_list<std::string_view> neutral) {
  const auto value = fields.text(name);
  if (value && std::ranges::find(neutral, *value) == neutral.end()) fields.ignore(name);
}

Ordered echoed(Fields& fields, std::string_view name, const Ordered& ordered) {
  return fields.find(name) ? ordered[std::string(name)] : Ordered();
}

void read_reasoning(Fields& fields, ResponsesRequest& request) {
  Ordered& echo = request.response["reasoning"] = {{"effort", nullptr}, {"summary", nullptr}};
  request.thinking = read_thinking(fields);
  const Json* value = fields.find("reasoning");
  if (!value) return;
  Fields reasoning(*value, "reasoning", fields);
  if (auto effort = read_effort(reasoning, "effort"); !effort.empty()) request.thinking.effort = std::move(effort);
  if (!request.thinking.effort.empty()) echo["effort"] = request.thinking.effort;
  for (const std::string_view name : {"summary", "generate_summary"}) {  // the whole thought is there instead
    reasoning.text(name);
    reasoning.ignore(name);
  }
  for (const std::string_view name : {"context", "mode"}) reasoning.ignore(name);
  reasoning.finish();
}

std::optional<ConstraintField> read_text_format(Fields& text, const Ordered& ordered, Ordered& echo) {
  const Json* value = text.find("format");
  if (!value) return std::nullopt;
  Fields format(*value, text.place("format"), text);
  echo = ordered["text"]["format"];
  using Kind = grammar::Source::Kind;
  std::optional<ConstraintField> constraint;
  const std::string& type = text_at(format.at("type"), format.place("type"));
  if (type == "json_schema") {
    format.text("name");
    format.text("description");
    format.flag("strict");  // it is kept whether or not it is asked for strictly
    const Json& schema = format.at("schema");
    if (!schema.is_object() && !schema.is_boolean()) throw unexpected(format.place("schema"), "a schema", schema);
    constraint = {{Kind::json_schema, echo["schema"].dump()}, format.place("schema")};
  } else if (type == "json_object") {
    constraint = {{Kind::json_schema, R"({"type":"object"})"}, "text.format"};
  } else if (type != "text") {
    throw unexpected(format.place("type"), "text, json_object or json_schema", type, "invalid_value");
  }
  format.finish();
  return constraint;
}

void read_text_options(Fields& fields, const Ordered& ordered, ResponsesRequest& request) {
  Ordered& echo = request.response["text"] = {{"format", {{"type", "text"}}}, {"verbosity", "medium"}};
  const Json* value = fields.find("text");
  if (!value) return;
  Fields text(*value, "text", fields);
  request.generation.constraint = read_text_format(text, ordered, echo["format"]);
  ignore_unless(text, "verbosity", {"medium"});
  text.finish();
}

void read_include(Fields& fields, const RequestRules& rules, ResponsesRequest& request) {
  auto top = fields.whole("top_logprobs", 0, max_top_logprobs);
  request.response["top_logprobs"] = top.value_or(0);
  if (top == 0) top.reset();
  const Json* list = fields.find("include");
  if (list && !(list->is_array() && list->empty())) {
    size_t index = 0;
    for (const Json& one : list_at(*list, "include", max_includes)) {
      const std::string& what = text_at(one, element("include", index++));
      if (what == "reasoning.encrypted_content")
        request.wraps_thoughts = true;
      else if (what == "message.output_text.logprobs")
        top = top.value_or(0);
      else
        fields.ignore("include");  // of tools that only other servers run
    }
  }
  set_logprobs(fields, rules, top, request.generation.sampling);
}

void read_conversation_so_far(Fields& fields, const Ordered& ordered, const ResponseStore& store,
                              ResponsesRequest& request) {
  request.instructions = fields.text("instructions").value_or("");
  request.response["instructions"] = echoed(fields, "instructions", ordered);
  request.response["previous_response_id"] = echoed(fields, "previous_response_id", ordered);
  request.messages = Ordered::array();
  const auto previous = fields.text("previous_response_id");
  if (previous) {
    const auto found = store.find(*previous);
    if (!found)
      throw ApiError(400, "previous_response_not_found", "previous_response_id",
                     "previous_response_id: there is no response {} here: it was never stored, or is forgotten",
                     in_quotes(*previous, 100));
    request.messages = Ordered::parse(found->messages);
  }
  const Json* input = previous ? fields.find("input") : &fields.at("input");
  if (input) request.input = read_response_input(fields, *input, ordered["input"], store);
  for (Ordered& message : request.input.messages) request.messages.push_back(std::move(message));
  if (request.messages.empty() && request.instructions.empty())
    throw unexpected("input", "at least one item", Json::array(), "empty_array");
  request.conversation.messages = prompt_messages(request.instructions, request.messages);
  request.conversation.field = "input";
  request.conversation.continues_last = fields.flag_or("continue_final_message", false);
}

// Fields that say how a response is handled, not what it is.
void read_handling(Fields& fields, const Ordered& ordered, ResponsesRequest& request) {
  request.stream = fields.flag_or("stream", false);
  request.store = fields.flag_or("store", true);
  request.response["store"] = request.store;
  const std::string truncation = fields.text("truncation").value_or("disabled");
  if (truncation != "auto" && truncation != "disabled")
    throw unexpected("truncation", "\"auto\" or \"disabled\"", truncation, "invalid_value");
  request.truncates = truncation == "auto";
  request.response["truncation"] = truncation;
  if (const Json* metadata = fields.find("metadata")) {
    if (!metadata->is_object() || metadata->size() > max_metadata)
      throw unexpected("metadata", fmt::format("an object of at most {} strings", max_metadata), *metadata);
    for (const auto& [name, value] : metadata->get_ref<const Json::object_t&>())
      text_at(value, fmt::format("metadata.{}", in_quotes(name, 64)));
  }
  request.response["metadata"] = fields.find("metadata") ? ordered["metadata"] : Ordered::object();
  if (const Json* options = fields.find("stream_options")) {
    Fields inner(*options, "stream_options", fields);
    if (inner.flag_or("include_obfuscation", false)) inner.ignore("include_obfuscation");
    inner.finish();
  }
  request.generation.user = read_user(fields);
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"}) {
    fields.text(name);  // which prompts share a prefix is found without a key
    request.response[name] = echoed(fields, name, ordered);
  }
  ignore_unless(fields, "service_tier", {"auto", "default"});
  ignore_unless(fields, "prompt_cache_retention", {"in_memory"});
  for (const std::string_view name : {"client_metadata", "max_tool_calls", "context_management", "moderation", "image",
                                      "prompt_cache_options", "access_programs"})
    fields.ignore(name);
  request.background = fields.flag_or("background", false);
  if (request.background && !request.store)
    throw bad_field("background", "background: expected \"store\": true with it, found false");
  refuse_in_response(fields, "conversation", "conversations: use previous_response_id");
  refuse_in_response(fields, "prompt", "templates of prompts");
}

}  // namespace

ResponsesRequest read_response(std::string_view body, const RequestRules& rules, const ResponseStore& store) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  const Ordered ordered = Ordered::parse(body);
  ResponsesRequest request;
  GenerationRequest& generation = request.generation;
  request.model = fields.text("model").value_or("");
  read_conversation_so_far(fields, ordered, store, request);
  request.tools = read_response_tools(fields, rules, ordered, request.response);
  read_reasoning(fields, request);
  read_text_options(fields, ordered, request);
  read_sampling(fields, rules, generation);
  read_include(fields, rules, request);
  generation.max_tokens = read_token_limit(fields, "max_output_tokens", 1);
  read_handling(fields, ordered, request);
  Ordered& response = request.response;
  response["max_output_tokens"] = echoed(fields, "max_output_tokens", ordered);
  response["max_tool_calls"] = echoed(fields, "max_tool_calls", ordered);
  for (const char* name : {"temperature", "top_p"})  // the default is the model's own distribution
    response[name] = fields.find(name) ? ordered[name] : Ordered(1);
  fields.finish();
  return request;
}

std::string prompt_messages(const std::string& instructions, const Ordered& messages) {
  std::string system = instructions;
  size_t first = 0;
  for (; first < messages.size() && messages[first]["role"] == "system"; ++first) {
    const auto& text = messages[first]["content"].get_ref<const std::string&>();
    system.append(system.empty() || text.empty() ? "" : "\n\n").append(text);
  }
  Ordered all = Ordered::array();
  if (first > 0 || !system.empty()) all.push_back({{"role", "system"}, {"content", system}});
  for (; first < messages.size(); ++first) all.push_back(messages[first]);
  return all.dump();
}

Ordered without_oldest(const Ordered& messages, size_t count) {
  size_t last = messages.empty() ? 0 : messages.size() - 1;
  while (last > 0 && messages[last]["role"] == "tool") --last;  // the call stays with its results
  Ordered kept = Ordered::array();
  bool is_begun = count == 0;  // a message that is not of the system is kept, or nothing is left out
  for (size_t i = 0; i < messages.size(); ++i) {
    const bool is_system = messages[i]["role"] == "system", begins = is_begun || messages[i]["role"] == "user";
    if (!is_system && i < last && (count > 0 || !begins)) {
      if (count > 0) --count;
      continue;
    }
    is_begun = is_begun || !is_system;
    kept.push_back(messages[i]);
  }
  return kept;
}

}  // namespace heddle::server
