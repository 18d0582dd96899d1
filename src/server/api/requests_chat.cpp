// Chats: messages, and what templates get besides them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/api/generation_fields.h"
#include "server/api/requests.h"
#include "server/api/unsupported_fields.h"

namespace heddle::server {
namespace {

constexpr size_t most_messages = 10'000, most_parts = 10'000;

std::string text_of_part(const Json& part, const std::string& place) {
  Fields fields(part, place);
  const std::string& type = text_at(fields.at("type"), fields.place("type"));
  if (type != "text") throw unexpected(fields.place("type"), "\"text\"", type, "unsupported_value");
  std::string text = text_at(fields.at("text"), fields.place("text"));
  fields.finish();
  return text;
}

std::string content_of(const Json& content, const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw unexpected(place, "a string or a list of text parts", content);
  std::string text;
  size_t index = 0;
  for (const Json& part : list_at(content, place, most_parts)) text += text_of_part(part, element(place, index++));
  return text;
}

// What clients send back of the answer they got, and what it cannot have been: calls of tools, sounds, refusals.
void refuse_in_answer(Fields& fields) {
  for (const std::string_view name : {"tool_calls", "function_call", "audio", "refusal", "annotations"})
    if (const Json* value = fields.find(name); value && !(value->is_array() && value->empty()))
      throw unexpected(fields.place(name), "null", *value, "unsupported_parameter");
}

Json message_of(const Json& message, const std::string& place) {
  Fields fields(message, place);
  std::string role = text_at(fields.at("role"), fields.place("role"));
  if (role == "developer") role = "system";
  if (role == "tool" || role == "function")
    throw ApiError(400, "invalid_request_error", "unsupported_value", fields.place("role"),
                   "{}: heddle does not do tool calls; expected system, developer, user or assistant, found {}",
                   fields.place("role"), role);
  if (role != "system" && role != "user" && role != "assistant")
    throw unexpected(fields.place("role"), "system, developer, user or assistant", role, "invalid_value");
  Json out{{"role", role}, {"content", content_of(fields.at("content"), fields.place("content"))}};
  if (auto name = fields.text("name")) out["name"] = std::move(*name);
  if (role == "assistant") {
    if (auto thoughts = fields.text("reasoning_content")) out["reasoning_content"] = std::move(*thoughts);
    refuse_in_answer(fields);
  }
  fields.finish();
  return out;
}

std::string messages_of(Fields& fields) {
  Json messages = Json::array();
  for (const Json& message : list_at(fields.at("messages"), "messages", most_messages))
    messages.push_back(message_of(message, element("messages", messages.size())));
  return messages.dump();
}

std::string template_variables(Fields& fields) {
  const Json* variables = fields.find("chat_template_kwargs");
  if (!variables) return "";
  if (!variables->is_object()) throw unexpected("chat_template_kwargs", "an object", *variables);
  for (const char* name : {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"})
    if (variables->contains(name))
      throw bad_field(fmt::format("chat_template_kwargs.{}", name),
                      "chat_template_kwargs.{}: is not for the request to set", name);
  return variables->dump();
}

// What is said about the conversation itself.
ChatRequest conversation_of(Fields& fields) {
  ChatRequest request;
  request.model = fields.text("model").value_or("");
  request.messages = messages_of(fields);
  request.extra = template_variables(fields);
  request.add_generation_prompt = fields.flag_or("add_generation_prompt", true);
  refuse_unsupported(fields);
  return request;
}

std::optional<uint32_t> most_of(Fields& fields) {
  const auto old_name = fields.whole("max_tokens", 1, most_tokens);
  const auto name = fields.whole("max_completion_tokens", 1, most_tokens);
  if (old_name && name && *old_name != *name)
    throw bad_field("max_tokens", "max_tokens: expected max_completion_tokens ({}) or nothing, found {}", *name,
                    *old_name);
  const auto most = name ? name : old_name;
  return most ? std::optional(uint32_t(*most)) : std::nullopt;
}

void read_logprobs(Fields& fields, const RequestRules& rules, engine::Sampling& sampling) {
  const bool wanted = fields.flag_or("logprobs", false);
  const auto top = fields.whole("top_logprobs", 0, most_top);
  if (top && !wanted) throw bad_field("top_logprobs", "top_logprobs: only together with \"logprobs\": true");
  set_logprobs(fields, rules, wanted ? std::optional(top.value_or(0)) : std::nullopt, sampling);
}

}  // namespace

ChatRequest chat_request(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json);
  ChatRequest request = conversation_of(fields);
  request.generation = generation_of(fields, rules);
  request.generation.max_tokens = most_of(fields);
  read_logprobs(fields, rules, request.generation.sampling);
  fields.finish();
  return request;
}

ChatRequest template_request(std::string_view body, const RequestRules&) {
  const Json json = parse_body(body);
  Fields fields(json);
  ChatRequest request = conversation_of(fields);
  fields.finish();
  return request;
}

}  // namespace heddle::server
