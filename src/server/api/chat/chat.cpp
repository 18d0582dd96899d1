// A chat: its body, the prompt that the template writes, and the response as choices with messages or chunks with
// deltas.
#include "server/api/chat/chat.h"

#include <nlohmann/json.hpp>

#include "server/api/json.h"
#include "server/api/tokenize.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

constexpr size_t max_messages = 10'000, max_content_parts = 10'000;

// One element of a message's content.
std::string read_content_part(const Json& part, const std::string& place) {
  Fields fields(part, place);
  const std::string& type = text_at(fields.at("type"), fields.place("type"));
  if (type != "text") throw unexpected(fields.place("type"), "\"text\"", type, "unsupported_value");
  std::string text = text_at(fields.at("text"), fields.place("text"));
  fields.finish();
  return text;
}

std::string read_content(const Json& content, const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw unexpected(place, "a string or a list of text parts", content);
  std::string text;
  size_t index = 0;
  for (const Json& part : list_at(content, place, max_content_parts))
    text += read_content_part(part, element(place, index++));
  return text;
}

// Clients send back the reply they got, with members that a reply of heddle does not fill.
void refuse_in_reply(Fields& fields) {
  for (const std::string_view name : {"tool_calls", "function_call", "audio", "refusal", "annotations"})
    if (const Json* value = fields.find(name); value && !(value->is_array() && value->empty()))
      throw unexpected(fields.place(name), "null", *value, "unsupported_parameter");
}

Json read_message(const Json& message, const std::string& place) {
  Fields fields(message, place);
  std::string role = text_at(fields.at("role"), fields.place("role"));
  if (role == "developer") role = "system";
  if (role == "tool" || role == "function")
    throw ApiError(400, "unsupported_value", fields.place("role"),
                   "{}: heddle does not support tool calls; expected system, developer, user or assistant, found {}",
                   fields.place("role"), role);
  if (role != "system" && role != "user" && role != "assistant")
    throw unexpected(fields.place("role"), "system, developer, user or assistant", role, "invalid_value");
  Json out{{"role", role}, {"content", read_content(fields.at("content"), fields.place("content"))}};
  if (auto name = fields.text("name")) out["name"] = std::move(*name);
  if (role == "assistant") {
    if (auto reasoning = fields.text("reasoning_content")) out["reasoning_content"] = std::move(*reasoning);
    refuse_in_reply(fields);
  }
  fields.finish();
  return out;
}

std::string read_messages(Fields& fields) {
  Json messages = Json::array();
  for (const Json& message : list_at(fields.at("messages"), "messages", max_messages))
    messages.push_back(read_message(message, element("messages", messages.size())));
  return messages.dump();
}

std::string read_template_variables(Fields& fields) {
  const Json* variables = fields.find("chat_template_kwargs");
  if (!variables) return "";
  if (!variables->is_object()) throw unexpected("chat_template_kwargs", "an object", *variables);
  for (const char* name : {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"})
    if (variables->contains(name))
      throw bad_field(fmt::format("chat_template_kwargs.{}", name),
                      "chat_template_kwargs.{}: cannot be set by a request", name);
  return variables->dump();
}

ChatRequest read_conversation(Fields& fields) {
  ChatRequest request;
  request.model = fields.text("model").value_or("");
  request.conversation.messages = read_messages(fields);
  request.conversation.variables = read_template_variables(fields);
  request.conversation.add_generation_prompt = fields.flag_or("add_generation_prompt", true);
  refuse_unsupported(fields);
  return request;
}

std::optional<uint32_t> read_max_tokens(Fields& fields) {
  const auto old_name = fields.whole("max_tokens", 1, max_max_tokens);
  const auto name = fields.whole("max_completion_tokens", 1, max_max_tokens);
  if (old_name && name && *old_name != *name)
    throw bad_field("max_tokens", "max_tokens: expected max_completion_tokens ({}) or nothing, found {}", *name,
                    *old_name);
  const auto tokens = name ? name : old_name;
  return tokens ? std::optional(uint32_t(*tokens)) : std::nullopt;
}

void read_logprobs(Fields& fields, const RequestRules& rules, engine::Sampling& sampling) {
  const bool wanted = fields.flag_or("logprobs", false);
  const auto top = fields.whole("top_logprobs", 0, max_top_logprobs);
  if (top && !wanted) throw bad_field("top_logprobs", "top_logprobs: only together with \"logprobs\": true");
  set_logprobs(fields, rules, wanted ? std::optional(top.value_or(0)) : std::nullopt, sampling);
}

}  // namespace

ChatRequest read_chat(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json);
  ChatRequest request = read_conversation(fields);
  GenerationRequest& generation = request.generation;
  generation.constraint = read_constraint(fields, body);
  generation.prompt_field = "messages";
  read_generation(fields, rules, generation);
  request.stream = read_stream_options(fields);
  generation.max_tokens = read_max_tokens(fields);
  read_logprobs(fields, rules, generation.sampling);
  fields.finish();
  return request;
}

ChatRequest read_template(std::string_view body, const RequestRules&) {
  const Json json = parse_body(body);
  Fields fields(json);
  ChatRequest request = read_conversation(fields);
  read_constraint(fields, body);  // the prompt is the same with it
  fields.finish();
  return request;
}

void chat_completions(const Call& call) {
  PreparationTimer timer(*call.exchange);
  ChatRequest request = call.read(read_chat);
  call.expect_model(request.model);
  timer.parsed();
  const std::string prompt = call.model->render(request.conversation);
  timer.rendered();
  // the template writes BOS itself
  request.generation.prompts.push_back(call.model->tokenizer().encode(prompt, {.add_special = false}));
  timer.encoded();
  expect_fits(*call.model, "messages", request.generation.prompts[0].size(), request.generation.max_tokens);
  auto writer = std::make_unique<ChatWriter>(*call.exchange, openai_head("chatcmpl-", *call.model), request.stream,
                                             request.generation);
  generate(call, std::move(request.generation), std::move(writer), timer.times());
}

void apply_template(const Call& call) {
  const ChatRequest request = call.read(read_template);
  call.expect_model(request.model);
  std::string out = R"({"prompt":)";
  append_json(out, call.model->render(request.conversation));
  call.exchange->send_json(out += "}");
}

namespace {

// {"token":...,"logprob":...,"bytes":[...] without the closing brace.
void append_token(std::string& out, const TokenLogprob& token) {
  out += R"({"token":)";
  append_json(out, token.bytes);
  out += R"(,"logprob":)";
  append_logprob(out, token.log_probability);
  out += R"(,"bytes":)";
  append_json_list(out, token.bytes, [&out](char byte) { append_json(out, uint64_t(uint8_t(byte))); });
}

// A list of tokens, each with its bytes and the most likely tokens in its place.
void append_chat_logprobs(std::string& out, const std::vector<TokenLogprobs>& tokens) {
  out += R"({"content":)";
  append_json_list(out, tokens, [&out](const TokenLogprobs& one) {
    append_token(out, one.token);
    out += R"(,"top_logprobs":)";
    append_json_list(out, one.top, [&out](const TokenLogprob& top) {
      append_token(out, top);
      out += "}";
    });
    out += "}";
  });
  out += R"(,"refusal":null})";
}

void append_chat_end(std::string& out, const Choice& choice) {
  append_choice_end(out, choice, [&out](const auto& tokens) { append_chat_logprobs(out, tokens); });
}

}  // namespace

void ChatWriter::append_choice(std::string& out, const Choice& choice) const {
  append_index(out, choice.index);
  out += R"(,"message":{"role":"assistant","content":)";
  append_json(out, choice.text);
  out += R"(,"refusal":null})";
  append_chat_end(out, choice);
}

void ChatWriter::append_first_chunk(std::string& out, uint32_t index) const {
  append_index(out, index);
  out += R"(,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null})";
}

void ChatWriter::append_chunk(std::string& out, const Choice& part) {
  append_index(out, part.index);
  out += R"(,"delta":{)";
  if (part.finish_reason.empty()) {
    out += R"("content":)";
    append_json(out, part.text);
  }
  out += "}";
  append_chat_end(out, part);
}

}  // namespace heddle::server
