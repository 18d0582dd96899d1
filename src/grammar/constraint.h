// What a sequence may still generate: a grammar, the vocabulary of the model, and where the text stands.
#pragma once
#include "grammar/forced.h"
#include "grammar/token_masks.h"

namespace heddle::grammar {

// A value: a copy is cheap, goes its own way, and is the way back from guesses. Copies share the grammar, which is used
// by one thread at a time.
class Constraint {
 public:
  // end_tokens end a completion (end of text, end of turn): allowed where the text may end.
  Constraint(std::shared_ptr<TokenMasks> masks, std::vector<uint32_t> end_tokens);

  TokenMask mask() const;
  // False, and as it was, if the token cannot follow. An end token ends the text, then nothing can follow.
  bool take(uint32_t token);
  bool may_end() const { return ended_ || at_.may_end(); }
  bool must_end() const { return ended_ || at_.must_end(); }
  // Tokens that must follow, as the model's tokenizer would write them; `before` is the text that precedes. None where
  // the end of the text is allowed. Each can be taken in turn.
  std::vector<uint32_t> forced_tokens(const Tokenize& tokenize, std::string_view before) const;

 private:
  bool ends(uint32_t token) const;

  std::shared_ptr<TokenMasks> masks_;
  std::vector<uint32_t> end_tokens_;
  Position at_;
  bool ended_ = false;
};

}  // namespace heddle::grammar
