// What a sequence may still generate: a grammar, the vocabulary of the model, and where the text stands.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grammar/forced.h"
#include "grammar/token_masks.h"

namespace heddle::grammar {

// How long a text may think before its answer: after `tokens` tokens without the mark that ends a thought, that mark
// must follow.
struct ThoughtBudget {
  uint32_t tokens = 0;
  std::string begin;   // the mark that begins a thought; empty: the text begins inside of one
  std::string end;     // the mark that ends it
  std::string forced;  // what must follow after the tokens, with the mark in it
};

// A value: a copy is cheap, goes its own way, and is the way back from guesses. Copies share the grammar, which is used
// by one thread at a time.
class Constraint {
 public:
  // end_tokens end a completion (end of text, end of turn): allowed where the text may end.
  Constraint(std::shared_ptr<TokenMasks> masks, std::vector<uint32_t> end_tokens,
             std::shared_ptr<const ThoughtBudget> budget = nullptr);

  TokenMask mask() const;
  // False, and as it was, if the token cannot follow. An end token ends the text, then nothing can follow.
  bool take(uint32_t token);
  bool may_end() const { return ended_ || at_.may_end(); }
  bool must_end() const { return ended_ || at_.must_end(); }
  // Tokens that must follow, as the model's tokenizer would write them; `before` is the text that precedes. None where
  // the end of the text is allowed. Each can be taken in turn.
  std::vector<uint32_t> forced_tokens(const Tokenize& tokenize, std::string_view before) const;

 private:
  enum class Thought : uint8_t { undecided, inside, over };

  bool ends(uint32_t token) const;
  void think(std::string_view text);
  std::optional<uint32_t> forced_token() const;

  std::shared_ptr<TokenMasks> masks_;
  std::vector<uint32_t> end_tokens_;
  Position at_;
  bool ended_ = false;
  std::shared_ptr<const ThoughtBudget> budget_;
  Thought thought_ = Thought::over;
  uint32_t thinking_ = 0;  // tokens of the thought so far
  std::string seen_;       // the end of the text: its whole beginning while it is undecided whether it thinks
  std::string forced_;     // what must follow because the budget is used up
};

}  // namespace heddle::grammar
