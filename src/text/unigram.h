// The unigram model: of all tokenizations of a piece, the one with the largest sum of scores (Viterbi). Linear in the
// length of the piece.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/pipeline.h"

namespace heddle::text {

struct UnigramToken {
  std::string text;  // empty: never found in a text
  double score = 0;
};

struct UnigramOptions {
  std::optional<TokenId> unknown;      // absent: a character without a token is an Error
  double lowest_score = 0;             // of all tokens; an unknown character has 10 less
  std::vector<TokenId> byte_tokens{};  // empty, or 256 with holes: unknown characters become <0x00> to <0xFF>
  bool fuse_unknown = false;           // a run of unknown characters may be one token (Hugging Face's tokenizers)
};

// `tokens` by id; of two with the same text the later one counts.
std::unique_ptr<const Model> make_unigram(const std::vector<UnigramToken>& tokens, UnigramOptions options);

}  // namespace heddle::text
