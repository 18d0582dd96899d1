// Where a text names added tokens ("<|im_start|>"): from left to right, the longest that begins at a place.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "text/pipeline.h"
#include "text/token_trie.h"

namespace heddle::text {

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  // Calls part(text) for what lies between added tokens (never empty) and token(id) for each of them, in order. Tokens
  // marked special count only when `special`. One pass: linear in the text, times the length of the longest token.
  void split(std::string_view text, bool special, const std::function<void(std::string_view)>& part,
             const std::function<void(TokenId)>& token) const;

 private:
  std::vector<AddedToken> tokens_;
  TokenTrie trie_;      // of places in tokens_
  bool begins_[256]{};  // a token begins with this byte
};

}  // namespace heddle::text
