// Finds added tokens ("<|im_start|>") in a text: from left to right, the longest at each position.
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "text/pipeline.h"
#include "text/ranges.h"
#include "text/token_trie.h"

namespace heddle::text {

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  // Calls segment(text) for what lies between added tokens (never empty) and token(id) for each of them, in order.
  // Special tokens count only if `special`, and where they do not reach into one of the `plain` ranges. Linear in the
  // text, times the length of the longest token.
  void split(std::string_view text, bool special, std::span<const TextRange> plain,
             const std::function<void(std::string_view)>& segment, const std::function<void(TokenId)>& token) const;
  bool has_special() const;

 private:
  std::vector<AddedToken> tokens_;
  TokenTrie trie_;      // values are positions in tokens_
  bool begins_[256]{};  // by byte: whether a token begins with it
};

}  // namespace heddle::text
