// One answer in the making: from tokens to text that may be shown, and what is to be said of its tokens.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/api/replies.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace heddle::server {

// What answers to one request have in common.
struct AnswerRules {
  const text::Tokenizer& tokenizer;
  std::vector<std::string> stops;   // texts that end it and are not shown
  std::vector<text::TokenId> ends;  // tokens that end it and are no text
  bool reports = false;             // log-probabilities are wanted
};

struct Piece {
  std::string text;
  std::vector<TokenReport> reports;
  bool empty() const { return text.empty() && reports.empty(); }
};

// No piece has half a character. A token is reported once, in order, with the first of its text that is shown; one
// that belongs to a stop text, or that ends the answer, is not.
class AnswerText {
 public:
  explicit AnswerText(const AnswerRules& rules);  // which must outlive it

  // The answer goes on from these tokens: returns their text. Stop texts are not looked for in it.
  std::string follow(std::span<const text::TokenId> tokens);
  Piece push(const engine::Pick& pick);  // nothing any more once over()
  Piece finish();                        // no more tokens come

  bool over() const { return over_; }  // a token that ends it, or a stop text came
  bool met_stop_text() const { return stops_.found(); }
  uint32_t made() const { return made_; }  // tokens, with the one that ended it
  double mean_log_probability() const { return made_ ? sum_ / made_ : 0; }

 private:
  struct Waiting {
    size_t begin;  // of its text, in all that was decoded
    TokenReport report;
  };
  Piece flush();
  Piece show(std::string text);

  const AnswerRules& rules_;
  text::StreamDecoder decoder_;
  text::StopStrings stops_;
  std::vector<Waiting> waiting_;    // few: those of a stop text or of a character
  size_t decoded_ = 0, shown_ = 0;  // bytes
  bool over_ = false;
  uint32_t made_ = 0;
  double sum_ = 0;
};

TokenReport report_of(const text::Tokenizer& tokenizer, const engine::Pick& pick);

}  // namespace heddle::server
