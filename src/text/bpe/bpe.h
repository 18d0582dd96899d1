// Byte-pair encoding with ranked merges: the neighbours whose merge has the lowest rank are joined, leftmost first,
// until no more can be. SentencePiece's BPE is the same with scores in place of ranks.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline.h"

namespace heddle::text {

struct Merge {
  TokenId left = 0, right = 0;
  TokenId joined = 0;
  uint32_t rank = 0;  // the position in the list of merges; of equal pairs the lower one counts
};

struct BpeOptions {
  bool characters = false;           // begin with characters instead of bytes
  bool ignore_merges = false;        // a piece that is a token is taken as it is
  bool fuse_unknown = false;         // neighbouring unknown characters become one unknown token
  std::vector<TokenId> byte_tokens;  // byte fallback: 256 tokens for the bytes of characters without a token
  std::optional<TokenId> unknown;    // for characters without a token
  bool skip_unknown = false;         // without `unknown`: skip such characters instead of throwing an Error
  std::optional<size_t> tokens;      // the number of `pieces` that are tokens; the rest are only parts of tokens
};

// `pieces`: by id, the text of each token in the model's input (raw bytes where it begins with bytes); empty for tokens
// that are never found there (control tokens). Of equal ones the first counts.
// `source` names the file in errors.
std::unique_ptr<const Model> make_bpe(std::vector<std::string> pieces, const std::vector<Merge>& merges,
                                      BpeOptions options, std::string source);

}  // namespace heddle::text
