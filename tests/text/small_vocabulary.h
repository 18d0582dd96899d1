// Two small vocabularies, one of each kind, and what tests make of them.
#pragma once
#include <fmt/format.h>

#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/bpe/bpe.h"
#include "text/tokenizer.h"

namespace heddle::test {

using text::TokenId;
using text::TokenType;

inline TokenId add_token(text::Vocabulary& vocabulary, std::string_view token, TokenType type = TokenType::normal,
                         float score = 0) {
  vocabulary.tokens.emplace_back(token);
  vocabulary.types.push_back(type);
  vocabulary.scores.push_back(score);
  return TokenId(vocabulary.tokens.size() - 1);
}

// Bytes are tokens 0 to 255, so that a byte is its own id. Then 256 "he", 257 "ll", 258 "hell", 259 "hello", 260 " w",
// 261 "or", 262 " wor", 263 "ld", 264 " world", 265 "<|begin|>", 266 "<|im_end|>", 267 "<tool>" (user-defined).
inline text::Vocabulary byte_level_vocabulary() {
  text::Vocabulary out;
  out.source = "small.gguf";
  out.model = "gpt2";
  out.pre = "llama-bpe";
  for (unsigned byte = 0; byte < 256; ++byte) add_token(out, text::byte_level_spelling(std::string(1, char(byte))));
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{{"h", "e"},
                                                                                    {"l", "l"},
                                                                                    {"he", "ll"},
                                                                                    {"hell", "o"},
                                                                                    {" ", "w"},
                                                                                    {"o", "r"},
                                                                                    {" w", "or"},
                                                                                    {"l", "d"},
                                                                                    {" wor", "ld"}}) {
    out.merges.push_back(text::byte_level_spelling(left) + " " + text::byte_level_spelling(right));
    add_token(out, text::byte_level_spelling(left + right));
  }
  out.bos = add_token(out, "<|begin|>", TokenType::control);
  out.eos = add_token(out, "<|im_end|>", TokenType::control);
  add_token(out, "<tool>", TokenType::user_defined);
  return out;
}

// 0 "<unk>", 1 "<s>", 2 "</s>", bytes from 3, then 259 "_", 260 "a", 261 "b", 262 "c", 263 "ab", 264 "bc", 265 "_a",
// 266 "_ab", 267 "__", 268 "xy" (x and y are not tokens), where "_" is U+2581.
inline text::Vocabulary sentence_piece_vocabulary() {
  text::Vocabulary out;
  out.source = "small.gguf";
  out.model = "llama";
  add_token(out, "<unk>", TokenType::unknown);
  add_token(out, "<s>", TokenType::control);
  add_token(out, "</s>", TokenType::control);
  for (unsigned byte = 0; byte < 256; ++byte) add_token(out, fmt::format("<0x{:02X}>", byte), TokenType::byte);
  for (const auto& [token, score] : std::vector<std::pair<std::string_view, float>>{{"\u2581", -10.f},
                                                                                    {"a", -11.f},
                                                                                    {"b", -12.f},
                                                                                    {"c", -13.f},
                                                                                    {"ab", -3.f},
                                                                                    {"bc", -2.f},
                                                                                    {"\u2581a", -4.f},
                                                                                    {"\u2581ab", -5.f},
                                                                                    {"\u2581\u2581", -6.f},
                                                                                    {"xy", -7.f}})
    add_token(out, token, TokenType::normal, score);
  out.bos = 1;
  out.eos = 2;
  out.unknown = 0;
  return out;
}

// Letters of several scripts, digits, marks, spaces of all kinds, line ends, signs, contractions. All of it was in
// Unicode 14, so that tables of different age agree on it.
inline std::string random_text(std::mt19937& random, size_t pieces) {
  static const std::vector<std::u32string> sets{
      U"abcdefghijklmnopqrstuvwxyz",
      U"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
      U"0123456789",
      U" ",
      U" \t\n\r\v\f",
      U"\n",
      U"\r\n",
      U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
      U"'",
      U"stmdSTMD",
      U"relvRELV\u017f\u212a",
      U"\u0085\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\u180e\u200b\ufeff",
      U"\u00c4\u00e4\u00df\u0142\u0130\u0131",
      U"\u0391\u03b1\u03c9",
      U"\u0416\u0436",
      U"\u05d0\u05ea",
      U"\u0627\u064a",
      U"\u0905\u093e\u094d",
      U"\u0300\u0301\u0308\u20dd",
      U"\u01c5\u01c8",
      U"\u02b0\u02bc",
      U"\u4e2d\u6587",
      U"\u3042\u30a2",
      U"\uac00",
      U"\u00b2\u00bd\u2160\u2460\u0664\u0966",
      U"\u20ac\u2026\u201c\u2019\u3002",
      U"\U0001f600\U0001f1e9\u200d\ufe0f",
      U"\U00010400\U00010428",
      U"\u0001\u001f\u007f\u0090\ue000"};
  std::string out;
  for (size_t i = 0; i < pieces; ++i) {
    const std::u32string& set = sets[random() % sets.size()];
    for (size_t n = random() % 3 == 0 ? 1 + random() % 7 : 1; n > 0; --n) append_utf8(out, set[random() % set.size()]);
  }
  return out;
}

inline std::string random_bytes(std::mt19937& random, size_t size) {
  std::string out;
  for (size_t i = 0; i < size; ++i) out.push_back(char(random() % 3 == 0 ? random() % 256 : 0x20 + random() % 0x60));
  return out;
}

inline std::string repeated(std::string_view unit, size_t size) {
  std::string out;
  while (out.size() < size) out += unit;
  return out;
}

}  // namespace heddle::test
