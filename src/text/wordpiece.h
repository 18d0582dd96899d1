// WordPiece: a word is the longest token it begins with, then the longest token that continues it, and so on; a word
// for which that fails is unknown as a whole. And WordLevel, where every word is a token.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline.h"

namespace heddle::text {

struct WordPieceOptions {
  std::optional<TokenId> unknown;  // absent: an unknown word is an Error
  std::string begin;         // prefix of each word: U+2581 where the vocabulary marks the beginning (GGUF), or empty
  std::string continuation;  // prefix of tokens that continue a word: "##", or empty
  size_t max_characters = SIZE_MAX;  // a longer word is unknown
};

// `tokens` by id; empty ones are never found in a text.
std::unique_ptr<const Model> make_wordpiece(const std::vector<std::string>& tokens, WordPieceOptions options);

std::unique_ptr<const Model> make_word_level(const std::vector<std::string>& tokens, std::optional<TokenId> unknown);

// Decoded words have a space before each; this removes those before punctuation and English contractions: "it 's ."
// becomes "it's.". The rules are llama.cpp's.
std::string clean_up_spaces(std::string_view text);

}  // namespace heddle::text
