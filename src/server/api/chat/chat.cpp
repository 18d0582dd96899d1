// From a conversation to its prompt, and to the grammar of its answer.
#include "server/api/chat/chat.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chat/constrain.h"
#include "chat/marks.h"
#include "server/api/json.h"
#include "server/api/tokenize.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr size_t max_tool_name = 128;

// Templates and formats of calls write names as they are.
void expect_tool_name(const std::string& name, const std::string& place) {
  const bool fits = !name.empty() && name.size() <= max_tool_name && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
  if (!fits)
    throw unexpected(place, fmt::format("1 to {} letters, digits, _, - and .", max_tool_name), name, "invalid_value");
}

}  // namespace

void ToolList::add(const std::string& name_place, Ordered tool, Place where) {
  const Ordered& function = tool["function"];
  chat::Tool read{function["name"].get<std::string>(), Ordered::object()};
  expect_tool_name(read.name, name_place);
  if (has(read.name))
    throw bad_field(name_place, "{}: expected another name, found {} a second time", name_place, read.name);
  if (const auto parameters = function.find("parameters"); parameters != function.end() && !parameters->is_null())
    read.parameters = *parameters;
  if (!read.parameters.contains("type")) read.parameters["type"] = "object";
  tools_.push_back(std::move(read));
  if (where == Place::prompt) json_.push_back(std::move(tool));
}

void ToolList::allow(const std::vector<std::string>& names) {
  std::erase_if(tools_, [&](const chat::Tool& tool) { return std::ranges::find(names, tool.name) == names.end(); });
}

ToolUse ToolList::use(ToolUse::Choice choice, bool parallel) && {
  if (empty()) return {.parallel = parallel};
  return {json_.dump(), std::make_shared<const chat::Tools>(std::move(tools_)), choice, parallel};
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

// The same for the same tools.
std::string tools_text(const std::shared_ptr<const chat::Tools>& tools) {
  std::string text;
  if (tools)
    for (const chat::Tool& tool : *tools) text += fmt::format("{} {}\n", tool.name, tool.parameters.dump());
  return text;
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
                           constraint ? constraint->source.text : "", tools_text(reply.tools));
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

Conversation conversation_of(const ChatRequest& request) {
  Conversation conversation = request.conversation;
  conversation.tools = request.tools.json;
  conversation.effort = request.thinking.effort;
  return conversation;
}

ChatPrompt render_chat(const Call& call, const ChatRequest& request, PreparationTimer* timer) {
  const RenderedChat chat = call.model->render(conversation_of(request));
  if (timer) timer->rendered();
  // the template writes BOS itself, and it alone writes control tokens: no text of a message can forge a turn
  text::EncodeOptions options{.add_special = false};
  if (!call.service.options().parse_special) options.plain = chat.given;
  ChatPrompt prompt{.tokens = encode_within(*call.model, chat.prompt, options, request.conversation.field)};
  if (timer) timer->encoded();
  prompt.reply = {chat.format, request.tools.tools, chat::opens_thought(chat.format->thought, chat.prompt)};
  return prompt;
}

void generate_chat(const Call& call, ChatRequest request, PreparationTimer& timer, const MakeChatWriter& make) {
  call.expect_model(request.model);
  timer.parsed();
  if (request.conversation.continues_last && request.generation.constraint)
    throw bad_field("continue_final_message",
                    "continue_final_message: a text that is continued cannot be constrained: {} is about a whole one",
                    request.generation.constraint->field);
  ChatPrompt prompt = render_chat(call, request, &timer);
  GenerationRequest& generation = request.generation;
  expect_fits(*call.model, request.conversation.field, prompt.tokens.size(), generation.max_tokens);
  generation.prompt_field = request.conversation.field;
  generation.continues_prompt = request.conversation.continues_last;
  generation.prompts = {std::move(prompt.tokens)};
  ChatTokens tokens = call.model->chat_tokens(*prompt.reply.format, bool(request.tools));
  generation.shown_tokens = std::move(tokens.shown);
  generation.end_tokens = std::move(tokens.ends);
  generation.answer = constrain_answer(request, prompt.reply);
  auto writer = make(generation, prompt.reply);
  generate(call, std::move(generation), std::move(writer), timer.times());
}

}  // namespace heddle::server
