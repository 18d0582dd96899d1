#include "server/api/chat/answers.h"

#include <iterator>
#include <random>

#include "server/service/exchange.h"

namespace heddle::server {
namespace {

using chat::ChatEvent;

// Nine letters and digits, as templates of Mistral want them.
std::string nine_letters() {
  static constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::random_device random;
  std::string id;
  while (id.size() < 9) id += letters[std::uniform_int_distribution<size_t>(0, letters.size() - 1)(random)];
  return id;
}

}  // namespace

Answers::Answers(const GenerationRequest& request, ChatReply reply)
    : reply_(std::move(reply)), answers_(request.prompts.size() * request.n) {
  if (!reply_.format) return;
  const chat::ParserOptions how{.in_thought = reply_.in_thought, .calls = reply_.tools != nullptr};
  for (Answer& answer : answers_) answer.parser.emplace(reply_.format, reply_.tools, how);
}

std::vector<AnswerEvent> Answers::push(uint32_t index, TextDelta delta) {
  Answer& answer = answers_[index];
  std::move(delta.logprobs.begin(), delta.logprobs.end(), std::back_inserter(answer.logprobs));
  if (answer.parser) return with_ids(answer, answer.parser->push(delta.text));
  return with_ids(answer, {{.kind = ChatEvent::Kind::content, .text = std::move(delta.text)}});
}

std::vector<AnswerEvent> Answers::finish(uint32_t index) {
  Answer& answer = answers_[index];
  if (!answer.parser) return {};
  return with_ids(answer, answer.parser->finish());
}

std::vector<TokenLogprobs> Answers::rest(uint32_t index) { return std::exchange(answers_[index].logprobs, {}); }

uint32_t Answers::calls(uint32_t index) const {
  const Answer& answer = answers_[index];
  return answer.parser ? answer.parser->calls() : 0;
}

std::vector<AnswerEvent> Answers::with_ids(Answer& answer, std::vector<ChatEvent> events) const {
  std::vector<AnswerEvent> out;
  for (ChatEvent& event : events) {
    AnswerEvent& added = out.emplace_back(AnswerEvent{.kind = event.kind, .call = event.call});
    if (event.kind == ChatEvent::Kind::call_begin) added.id = call_id(event);
    added.text = std::move(event.text);
    if (event.kind != ChatEvent::Kind::call_end) added.logprobs = std::exchange(answer.logprobs, {});
  }
  return out;
}

std::string Answers::call_id(const ChatEvent& begin) const {
  switch (reply_.format->calls.ids) {
    case chat::CallFormat::Ids::nine:
      return nine_letters();
    case chat::CallFormat::Ids::functions:
      return fmt::format("functions.{}:{}", begin.text, begin.call);
    default:
      return random_id("call_");
  }
}

void AnswerWriter::on_text(uint32_t index, TextDelta delta) { give(answers_.push(index, std::move(delta))); }

void AnswerWriter::on_finish(uint32_t index, const Finish& finish) {
  give(answers_.finish(index));
  if (auto rest = answers_.rest(index); !rest.empty()) on_logprobs(std::move(rest));
  using Reason = AnswerEnd::Reason;
  switch (finish.reason) {
    case Finish::Reason::end_token:
      return on_answer_end({answers_.calls(index) > 0 ? Reason::calls : Reason::end_token});
    case Finish::Reason::stop_string:
      return on_answer_end({Reason::stop_string, finish.stop_string});
    case Finish::Reason::max_tokens:
      return on_answer_end({Reason::max_tokens});
    case Finish::Reason::context:
      return on_answer_end({Reason::context});
  }
}

void AnswerWriter::give(std::vector<AnswerEvent> events) {
  for (AnswerEvent& event : events) {
    if (!event.logprobs.empty()) on_logprobs(std::move(event.logprobs));
    switch (event.kind) {
      case AnswerEvent::Kind::content:
        on_content(event.text);
        break;
      case AnswerEvent::Kind::reasoning:
        on_reasoning(event.text);
        break;
      case AnswerEvent::Kind::call_begin:
        on_call(event.id, event.text);
        break;
      case AnswerEvent::Kind::arguments:
        on_arguments(event.text);
        break;
      case AnswerEvent::Kind::call_end:
        on_call_end();
        break;
    }
  }
}

}  // namespace heddle::server
