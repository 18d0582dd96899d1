#include "server/service/answer_text.h"

#include <iterator>

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

Piece AnswerText::push(const engine::Pick& pick) {
  if (over()) return {};
  sum_ += pick.log_probability;
  if (rules_.reports) waiting_.push_back(report_of(rules_.tokenizer, pick));
  return with_reports(text_.push(pick.id));
}

Piece AnswerText::with_reports(std::string text) {
  Piece piece{.text = std::move(text)};
  if (!rules_.reports) return piece;
  const auto next = waiting_.begin() + (text_.shown_tokens() - reported_);
  piece.reports.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(next));
  waiting_.erase(waiting_.begin(), next);
  reported_ = text_.shown_tokens();
  return piece;
}

}  // namespace heddle::server
