// Byte-pair encoding with ranked merges: the neighbours whose merge has the lowest rank are joined, leftmost first,
// until none can be. SentencePiece's BPE is the same with scores for ranks.
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
  uint32_t rank = 0;  // the place in the list of merges; of the same pair twice, the lower one counts
};

struct BpeOptions {
  bool characters = false;           // begins with characters; otherwise with bytes
  bool ignore_merges = false;        // a piece that is a token is taken as it is
  bool fuse_unknown = false;         // neighbouring unknown characters become one unknown token
  std::vector<TokenId> byte_tokens;  // byte fallback: 256 tokens, for the bytes of characters that are no token
  std::optional<TokenId> unknown;    // for what has no token
  bool skip_unknown = false;         // without `unknown`: it is left out; otherwise an Error
  std::optional<size_t> tokens;      // how many of `pieces` are tokens; those after them are parts of tokens only
};

// `pieces`: by id, what each token stands for in the text that the model is given (raw bytes where it begins with
// bytes); empty for tokens that are never found there (control tokens). Where two are equal, the first counts.
// `source` names the file in errors.
std::unique_ptr<const Model> make_bpe(std::vector<std::string> pieces, const std::vector<Merge>& merges,
                                      BpeOptions options, std::string source);

}  // namespace heddle::text
