// The messages of a chat, read into the form that chat::prepare takes.
#include <nlohmann/json.hpp>

#include "server/api/openai/openai_tools.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t max_messages = 10'000, max_content_parts = 10'000, max_calls = 1'000;

// One element of a message's content.
std::string read_content_part(const Fields& message, const Json& part, const std::string& place) {
  Fields fields(part, place, message);
  const std::string& type = text_at(fields.at("type"), fields.place("type"));
  if (type != "text") throw unexpected(fields.place("type"), "\"text\"", type, "unsupported_value");
  std::string text = text_at(fields.at("text"), fields.place("text"));
  fields.ignore("cache_control");
  fields.finish();
  return text;
}

std::string read_content(const Fields& message, const Json& content, const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw unexpected(place, "a string or a list of text parts", content);
  std::string text;
  size_t index = 0;
  if (content.empty()) return text;
  for (const Json& part : list_at(content, place, max_content_parts))
    text += read_content_part(message, part, element(place, index++));
  return text;
}

Ordered read_call(const Fields& message, const Json& call, const std::string& place) {
  Fields fields(call, place, message);
  std::string id = text_at(fields.at("id"), fields.place("id"));
  if (const auto type = fields.text("type"); type && *type != "function")
    throw unexpected(fields.place("type"), "\"function\"", *type, "unsupported_value");
  fields.find("index");  // of a chunk that was kept as it came
  Fields function(fields.at("function"), fields.place("function"), fields);
  std::string name = text_at(function.at("name"), function.place("name"));
  Ordered arguments = read_arguments(function.at("arguments"), function.place("arguments"));
  function.find("parsed_arguments");  // OpenAI's client adds what it has read in `arguments`
  function.finish();
  fields.finish();
  return {{"id", std::move(id)},
          {"type", "function"},
          {"function", {{"name", std::move(name)}, {"arguments", std::move(arguments)}}}};
}

// Clients send back the reply they got, with members that a reply of heddle does not fill.
void refuse_in_reply(Fields& fields) {
  for (const std::string_view name : {"function_call", "audio", "refusal", "annotations"})
    if (const Json* value = fields.find(name); value && !(value->is_array() && value->empty()))
      throw unexpected(fields.place(name), "null", *value, "unsupported_parameter");
}

void read_reply(Fields& fields, Ordered& out) {
  // other servers have other names for it, some two at once
  for (const std::string_view name : {"reasoning", "thinking", "reasoning_content"})
    if (auto reasoning = fields.text(name)) out["reasoning_content"] = std::move(*reasoning);
  fields.ignore("reasoning_details");
  const std::string place = fields.place("tool_calls");
  if (const Json* calls = fields.find("tool_calls"); calls && !(calls->is_array() && calls->empty())) {
    Ordered& list = out["tool_calls"] = Ordered::array();
    for (const Json& call : list_at(*calls, place, max_calls))
      list.push_back(read_call(fields, call, element(place, list.size())));
  }
  fields.find("parsed");  // OpenAI's client adds what it has read in `content`
  refuse_in_reply(fields);
}

Ordered read_message(const Fields& body, const Json& message, const std::string& place) {
  Fields fields(message, place, body);
  std::string role = text_at(fields.at("role"), fields.place("role"));
  if (role == "developer") role = "system";
  if (role == "function")
    throw ApiError(400, "unsupported_value", fields.place("role"), "{}: expected tool instead, found function",
                   fields.place("role"));
  if (role != "system" && role != "user" && role != "assistant" && role != "tool")
    throw unexpected(fields.place("role"), "system, developer, user, assistant or tool", role, "invalid_value");
  Ordered out{{"role", role}, {"content", nullptr}};
  if (auto name = fields.text("name")) out["name"] = std::move(*name);
  if (role == "assistant") read_reply(fields, out);
  if (role == "tool") out["tool_call_id"] = text_at(fields.at("tool_call_id"), fields.place("tool_call_id"));
  for (const std::string_view name : {"id", "timestamp", "cache_control"}) fields.ignore(name);
  if (const Json* content = fields.find("content"))
    out["content"] = read_content(fields, *content, fields.place("content"));
  else if (role != "assistant")
    fields.at("content");  // refuses
  else if (!out.contains("tool_calls"))
    out["content"] = "";  // an answer that was a thought alone, or was cut off
  fields.finish();
  return out;
}

}  // namespace

Ordered read_arguments(const Json& value, const std::string& place) {
  if (value.is_object()) return Ordered::parse(value.dump());
  const std::string& text = text_at(value, place);
  if (text.empty()) return Ordered::object();
  try {
    if (!parse_json(text, place).is_object())
      throw unexpected(place, "the text of a JSON object", text, "invalid_value");
  } catch (const ApiError&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(400, "invalid_value", place, "{}", error.what());
  }
  return Ordered::parse(text);
}

std::string read_messages(Fields& fields) {
  Ordered messages = Ordered::array();
  for (const Json& message : list_at(fields.at("messages"), "messages", max_messages))
    messages.push_back(read_message(fields, message, element("messages", messages.size())));
  return messages.dump();
}

}  // namespace heddle::server
