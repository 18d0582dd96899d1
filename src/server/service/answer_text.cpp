#include "server/service/answer_text.h"

#include <algorithm>

namespace heddle::server {
namespace {

TokenChance chance_of(const text::Tokenizer& tokenizer, uint32_t id, float log_probability) {
  // a model may have logits for more than its vocabulary
  return {id < tokenizer.size() ? std::string(tokenizer.bytes(id)) : std::string(), log_probability};
}

}  // namespace

TokenReport report_of(const text::Tokenizer& tokenizer, const engine::Pick& pick) {
  TokenReport report{.token = chance_of(tokenizer, pick.id, pick.log_probability)};
  report.in_text = pick.id < tokenizer.size() && !tokenizer.is_special(pick.id);
  report.top.reserve(pick.top.size());
  for (const engine::TokenLogprob& top : pick.top)
    report.top.push_back(chance_of(tokenizer, top.id, top.log_probability));
  return report;
}

AnswerText::AnswerText(const AnswerRules& rules) : rules_(rules), decoder_(rules.tokenizer), stops_(rules.stops) {}

std::string AnswerText::follow(std::span<const text::TokenId> tokens) {
  std::string text;
  for (const text::TokenId id : tokens)
    if (id < rules_.tokenizer.size()) text += decoder_.push(id);
  return text;
}

Piece AnswerText::push(const engine::Pick& pick) {
  if (over_) return {};
  ++made_;
  sum_ += pick.log_probability;
  if (std::find(rules_.ends.begin(), rules_.ends.end(), pick.id) != rules_.ends.end()) {
    over_ = true;
    return flush();
  }
  if (rules_.reports) waiting_.push_back({decoded_, report_of(rules_.tokenizer, pick)});
  if (pick.id >= rules_.tokenizer.size()) return {};
  const std::string text = decoder_.push(pick.id);
  decoded_ += text.size();
  return show(stops_.push(text));
}

Piece AnswerText::finish() { return over_ ? Piece{} : flush(); }

Piece AnswerText::flush() {
  const std::string rest = decoder_.finish();
  decoded_ += rest.size();
  std::string text = stops_.push(rest);
  if (!stops_.found()) text += stops_.finish();
  Piece piece = show(std::move(text));
  for (Waiting& waiting : waiting_) piece.reports.push_back(std::move(waiting.report));
  waiting_.clear();
  return piece;
}

Piece AnswerText::show(std::string text) {
  shown_ += text.size();
  Piece piece{.text = std::move(text)};
  auto next = waiting_.begin();
  for (; next != waiting_.end() && next->begin < shown_; ++next) piece.reports.push_back(std::move(next->report));
  waiting_.erase(waiting_.begin(), next);
  if (stops_.found()) {
    over_ = true;
    waiting_.clear();
  }
  return piece;
}

}  // namespace heddle::server
