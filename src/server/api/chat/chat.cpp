// A chat: its body, and the prompt that the template writes.
#include "server/api/chat/chat.h"

#include <nlohmann/json.hpp>

#include "server/api/json.h"
#include "server/api/tokenize.h"
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

ChatRequest read_conversation(Fields& fields, std::string_view body) {
  ChatRequest request;
  request.model = fields.text("model").value_or("");
  request.conversation.messages = read_messages(fields);
  request.conversation.variables = read_template_variables(fields);
  request.tools = read_tools(fields, body);
  request.conversation.tools = request.tools.json;
  request.thinking = read_thinking(fields);
  request.conversation.effort = request.thinking.effort;
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
  ChatRequest request = read_conversation(fields, body);
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
  ChatRequest request = read_conversation(fields, body);
  read_constraint(fields, body);  // the prompt is the same with it
  fields.finish();
  return request;
}

void chat_completions(const Call& call) {
  PreparationTimer timer(*call.exchange);
  ChatRequest request = call.read(read_chat);
  call.expect_model(request.model);
  timer.parsed();
  const RenderedChat chat = call.model->render(request.conversation);
  timer.rendered();
  GenerationRequest& generation = request.generation;
  // the template writes BOS itself
  generation.prompts.push_back(call.model->tokenizer().encode(chat.prompt, {.add_special = false}));
  timer.encoded();
  expect_fits(*call.model, "messages", generation.prompts[0].size(), generation.max_tokens);
  ChatTokens tokens = call.model->chat_tokens(*chat.format, bool(request.tools));
  generation.shown_tokens = std::move(tokens.shown);
  generation.end_tokens = std::move(tokens.ends);
  const ChatReply reply{chat.format, request.tools.tools, chat::opens_thought(chat.format->thought, chat.prompt)};
  auto writer = std::make_unique<ChatWriter>(*call.exchange, openai_head("chatcmpl-", *call.model), request.stream,
                                             generation, reply);
  generate(call, std::move(generation), std::move(writer), timer.times());
}

void apply_template(const Call& call) {
  const ChatRequest request = call.read(read_template);
  call.expect_model(request.model);
  std::string out = R"({"prompt":)";
  append_json(out, call.model->render(request.conversation).prompt);
  call.exchange->send_json(out += "}");
}

}  // namespace heddle::server
