// The body of a chat.
#include "server/api/openai/openai_chat.h"

#include <nlohmann/json.hpp>

#include "server/api/json.h"
#include "server/api/openai/openai_tools.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

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

OpenAiChatRequest read_conversation(Fields& fields, std::string_view body) {
  OpenAiChatRequest request;
  request.model = fields.text("model").value_or("");
  request.conversation.messages = read_messages(fields);
  request.conversation.variables = read_template_variables(fields);
  request.tools = read_tools(fields, body);
  request.thinking = read_thinking(fields);
  request.conversation.add_generation_prompt = fields.flag_or("add_generation_prompt", true);
  request.conversation.continues_last = fields.flag_or("continue_final_message", false);
  refuse_unsupported_in_chats(fields);
  return request;
}

std::optional<uint32_t> read_max_tokens(Fields& fields) {
  const auto old_name = read_token_limit(fields, "max_tokens", 1),
             name = read_token_limit(fields, "max_completion_tokens", 1);
  if (old_name && name && *old_name != *name) fields.ignore("max_tokens");
  return name ? name : old_name;
}

void read_logprobs(Fields& fields, const RequestRules& rules, engine::Sampling& sampling) {
  const bool wanted = fields.flag_or("logprobs", false);
  const auto top = fields.whole("top_logprobs", 0, max_top_logprobs);
  if (top.value_or(0) > 0 && !wanted)
    throw bad_field("top_logprobs", "top_logprobs: only together with \"logprobs\": true");
  set_logprobs(fields, rules, wanted ? std::optional(top.value_or(0)) : std::nullopt, sampling);
}

}  // namespace

OpenAiChatRequest read_chat(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  OpenAiChatRequest request = read_conversation(fields, body);
  GenerationRequest& generation = request.generation;
  generation.constraint = read_constraint(fields, body);
  read_generation(fields, rules, generation);
  request.stream = read_stream_options(fields);
  generation.max_tokens = read_max_tokens(fields);
  read_logprobs(fields, rules, generation.sampling);
  fields.finish();
  return request;
}

OpenAiChatRequest read_template(std::string_view body, const RequestRules& rules) {
  return read_template_and(body, rules, [](Fields&) {});
}

OpenAiChatRequest read_template_and(std::string_view body, const RequestRules& rules,
                                    const std::function<void(Fields&)>& more) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  OpenAiChatRequest request = read_conversation(fields, body);
  read_constraint(fields, body);  // the prompt is the same with it
  more(fields);
  fields.finish();
  return request;
}

void chat_completions(const Call& call) {
  PreparationTimer timer(*call.exchange);
  OpenAiChatRequest request = call.read(read_chat);
  generate_chat(call, request, timer, [&](const GenerationRequest& generation, const ChatReply& reply) {
    return std::make_unique<ChatWriter>(*call.exchange, openai_head("chatcmpl-", *call.model), request.stream,
                                        generation, reply);
  });
}

void apply_template(const Call& call) {
  const OpenAiChatRequest request = call.read(read_template);
  call.expect_model(request.model);
  std::string out = R"({"prompt":)";
  append_json(out, call.model->render(conversation_of(request)).prompt);
  call.exchange->send_json(out += "}");
}

}  // namespace heddle::server
