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
  std::optional<TokenId> unknown;  // without it, an unknown word is an Error
  std::string begin;         // put before each word: U+2581 where vocabularies mark the beginning (GGUF), or empty
  std::string continuation;  // what tokens that continue a word begin with: "##", or empty
  size_t most_characters = SIZE_MAX;  // a longer word is unknown
};

// `tokens` by id; empty ones are never found in a text.
std::unique_ptr<const Model> make_wordpiece(const std::vector<std::string>& tokens, WordPieceOptions options);

std::unique_ptr<const Model> make_word_level(const std::vector<std::string>& tokens, std::optional<TokenId> unknown);

// Decoded words have a space before each; the one before punctuation and English contractions goes: "it 's ." becomes
// "it's.". llama.cpp's rules.
std::string clean_up_spaces(std::string_view text);

}  // namespace heddle::text
