// The unigram model: of all ways to write a piece as tokens, the one with the largest sum of scores (Viterbi). Linear
// in the piece.
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
  std::optional<TokenId> unknown;      // without it, a character that is no token is an Error
  double lowest_score = 0;             // of the tokens; an unknown character costs 10 more
  std::vector<TokenId> byte_tokens{};  // empty, or 256: unknown characters become the tokens <0x00> to <0xFF>
  bool spelt = false;  // what was unknown in one run may be a token as a whole (Hugging Face's tokenizers)
};

// `tokens` by id; of two with the same text the later counts.
std::unique_ptr<const Model> make_unigram(const std::vector<UnigramToken>& tokens, UnigramOptions options);

}  // namespace heddle::text
