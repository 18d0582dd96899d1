// A chat: its body, and the prompt that the template writes.
#include "server/api/chat/chat.h"

#include <nlohmann/json.hpp>

#include "chat/constrain.h"
#include "chat/marks.h"
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

namespace {

// The budget of a thought. Where an effort of "none" has no switch in the template, it is a budget of nothing.
std::shared_ptr<const grammar::ThoughtBudget> thought_budget(const Thinking& thinking, const chat::ChatFormat& format,
                                                             bool in_thought) {
  std::optional<uint32_t> tokens = thinking.max_tokens;
  if (!tokens && thinking.effort == "none" && format.thought_switch.empty()) tokens = 0;
  const chat::ThoughtFormat thought = chat::thought_marks(format);
  if (!tokens || thought.end.empty()) return nullptr;
  return std::make_shared<const grammar::ThoughtBudget>(
      grammar::ThoughtBudget{.tokens = *tokens,
                             .begin = in_thought ? std::string() : std::string(chat::trimmed(thought.begin)),
                             .end = std::string(chat::trimmed(thought.end)),
                             .forced = thought.end});
}

// Tools, and a constraint behind a thought, are a grammar of the whole answer.
std::optional<AnswerConstraint> constrain_answer(const ChatRequest& request, const ChatReply& reply) {
  const std::shared_ptr<const chat::ChatFormat>& format = reply.format;
  auto budget = thought_budget(request.thinking, *format, reply.in_thought);
  const auto& constraint = request.generation.constraint;
  const bool thinks = !chat::thought_marks(*format).end.empty();
  if (!request.tools && !budget && !(constraint && thinks)) return std::nullopt;
  AnswerConstraint answer{.field = request.tools ? "tools" : "messages", .budget = std::move(budget)};
  const bool must_call = request.tools && request.tools.choice == ToolUse::Choice::required;
  const bool parallel = request.tools.parallel;
  answer.key = fmt::format("answer {} {} {} {} {} {}\n{}\n{}", fmt::join(format->marks(), " "), int(format->calls.kind),
                           reply.in_thought, must_call, parallel, constraint ? int(constraint->source.kind) : -1,
                           constraint ? constraint->source.text : "", request.tools.json);
  answer.make = [format, tools = reply.tools, in_thought = reply.in_thought, must_call, parallel, constraint] {
    chat::AnswerRules rules{.in_thought = in_thought, .must_call = must_call, .parallel = parallel};
    if (constraint)
      rules.content = [&constraint](grammar::Grammar& grammar) {
        try {
          return grammar::add_source(grammar, constraint->source);
        } catch (const Error& error) {
          throw constraint_refused(*constraint, error);
        }
      };
    return chat::answer_grammar(*format, tools ? *tools : chat::Tools(), rules);
  };
  return answer;
}

}  // namespace

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
  generation.answer = constrain_answer(request, reply);
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
