// One answer in the making: from tokens to text that may be shown, and what is to be said of its tokens.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/api/replies.h"
#include "text/completion_text.h"

namespace heddle::server {

// What answers to one request have in common.
struct AnswerRules {
  const text::Tokenizer& tokenizer;
  std::vector<std::string> stops;         // texts that end it and are not shown
  std::vector<text::TokenId> end_tokens;  // end it and are no text
  bool reports = false;                   // log-probabilities are wanted
};

struct Piece {
  std::string text;
  std::vector<TokenReport> reports;
  bool empty() const { return text.empty() && reports.empty(); }
};

// A token is reported once, in order, with the first of its text that is shown; one that belongs to a stop text, or
// that ends the answer, is not.
class AnswerText {
 public:
  explicit AnswerText(const AnswerRules& rules)  // which must outlive it
      : rules_(rules), text_(rules.tokenizer, rules.end_tokens, rules.stops) {}

  // The answer goes on from these tokens: returns their text. Stop texts are not looked for in it.
  std::string follow(std::span<const text::TokenId> tokens) { return text_.follow(tokens); }
  Piece push(const engine::Pick& pick);  // nothing any more once over()
  Piece finish() { return with_reports(text_.finish()); }

  bool over() const { return text_.end() != text::CompletionText::End::none; }
  bool met_stop_text() const { return text_.end() == text::CompletionText::End::stop_string; }
  uint32_t made() const { return text_.tokens(); }
  double mean_log_probability() const { return made() ? sum_ / made() : 0; }

 private:
  Piece with_reports(std::string text);

  const AnswerRules& rules_;
  text::CompletionText text_;
  std::vector<TokenReport> waiting_;  // of tokens that are not shown yet
  uint32_t reported_ = 0;
  double sum_ = 0;
};

TokenReport report_of(const text::Tokenizer& tokenizer, const engine::Pick& pick);

}  // namespace heddle::server
