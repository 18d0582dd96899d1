#include "text/unigram.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "text/tokenizer.h"

namespace heddle::text {
namespace {

using Ids = std::vector<TokenId>;

Ids unigram_ids(const Model& model, std::string_view text) {
  Ids ids;
  model.encode(text, ids);
  return ids;
}

const std::vector<UnigramToken> letters{{"<unk>", 0}, {"a", 0},  {"b", 0},   {"c", 0},    {"d", 0},
                                        {"cd", 1},    {"ab", 2}, {"abc", 5}, {"abcd", 10}};

TEST(Unigram, TakesTheBestSum) {
  const auto model = make_unigram(letters, {.unknown = TokenId(0)});
  EXPECT_EQ(unigram_ids(*model, "abcdacdxx"), (Ids{8, 1, 5, 0}));
  EXPECT_EQ(unigram_ids(*model, "abc"), Ids{7});
  EXPECT_EQ(unigram_ids(*model, "aab"), (Ids{1, 6}));
  EXPECT_EQ(unigram_ids(*model, ""), Ids{});
  EXPECT_EQ(unigram_ids(*model, "\u4e00\xff"), Ids{0});  // one unknown token for the run
  EXPECT_EQ(unigram_ids(*model, "x<unk>y"), Ids{0});
}

// Of equal sums the way found first stays; every cut of a short text is tried against it.
TEST(Unigram, AgreesWithTryingEverything) {
  const auto model = make_unigram(
      {{"<unk>", 0}, {"a", -1}, {"b", -1.5}, {"aa", -1.75}, {"ab", -2.25}, {"ba", -2.5}, {"aba", -3.125}, {"bb", -4}},
      {.unknown = TokenId(0), .lowest_score = -4});
  const std::vector<std::pair<std::string, double>> tokens{{"a", -1},    {"b", -1.5},     {"aa", -1.75}, {"ab", -2.25},
                                                           {"ba", -2.5}, {"aba", -3.125}, {"bb", -4}};
  const double scores[] = {0, -1, -1.5, -1.75, -2.25, -2.5, -3.125, -4};
  const std::function<double(std::string_view)> best = [&](std::string_view text) -> double {
    if (text.empty()) return 0;
    double result = -std::numeric_limits<double>::infinity();
    for (const auto& [token, score] : tokens)
      if (text.starts_with(token)) result = std::max(result, score + best(text.substr(token.size())));
    return result;
  };
  for (unsigned bits = 0; bits < 1u << 10; ++bits) {
    std::string text;
    for (int i = 0; i < 10; ++i) text.push_back(bits >> i & 1 ? 'a' : 'b');
    double sum = 0;
    for (const TokenId id : unigram_ids(*model, text)) sum += scores[id];
    EXPECT_EQ(sum, best(text)) << text;
  }
}

TEST(Unigram, Bytes) {
  std::vector<UnigramToken> tokens = letters;
  std::vector<TokenId> bytes;
  for (unsigned byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<TokenId>(tokens.size() + byte));
  const auto model = make_unigram(tokens, {.unknown = TokenId(0), .byte_tokens = bytes, .fuse_unknown = true});
  EXPECT_EQ(unigram_ids(*model, "a\u00e9"), (Ids{1, bytes[0xc3], bytes[0xa9]}));
  EXPECT_EQ(unigram_ids(*model, "\xff"), Ids{bytes[0xff]});
}

// Hugging Face's tokenizers looks up a run of unknown characters as a whole.
TEST(Unigram, AnUnknownRunMayBeAToken) {
  const std::vector<UnigramToken> tokens{{"<unk>", 0}, {"xy", -100}};
  EXPECT_EQ(unigram_ids(*make_unigram(tokens, {.unknown = TokenId(0), .fuse_unknown = true}), "xy"), Ids{1});
  EXPECT_EQ(unigram_ids(*make_unigram(tokens, {.unknown = TokenId(0)}), "xy"), Ids{0});
}

TEST(Unigram, NeedsAnUnknownToken) {
  EXPECT_THROW(unigram_ids(*make_unigram({{"a", 0}}, {}), "ab"), Error);
  EXPECT_EQ(unigram_ids(*make_unigram({{"a", 0}}, {}), "aa"), (Ids{0, 0}));
}

Vocabulary t5() {
  Vocabulary vocabulary;
  vocabulary.source = "x.gguf";
  vocabulary.model = "t5";
  vocabulary.tokens = {"<pad>", "</s>", "<unk>", "\u2581", "a", "\u2581a", "b"};
  vocabulary.scores = {0, 0, 0, -2, -3, -2.5, -3};
  using enum TokenType;
  vocabulary.types = {control, control, unknown, normal, normal, normal, normal};
  vocabulary.eos = TokenId(1);
  vocabulary.unknown = TokenId(2);
  vocabulary.add_space_prefix = true;
  vocabulary.remove_extra_whitespaces = true;
  return vocabulary;
}

TEST(Unigram, FromGguf) {
  const Tokenizer tokenizer = Tokenizer::from_vocabulary(t5());
  EXPECT_EQ(tokenizer.encode("a  ab"), (Ids{5, 5, 6, 1}));
  EXPECT_EQ(tokenizer.encode("b\u4e00"), (Ids{3, 6, 2, 1}));
  EXPECT_EQ(tokenizer.encode(""), Ids{1});
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a ab")), "a ab");
}

TEST(Unigram, GgufNeedsScores) {
  Vocabulary vocabulary = t5();
  vocabulary.scores.clear();
  EXPECT_THROW(Tokenizer::from_vocabulary(vocabulary), Error);
  vocabulary = t5();
  vocabulary.scores[4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(Tokenizer::from_vocabulary(vocabulary), Error);
  vocabulary = t5();
  vocabulary.unknown = TokenId(99);
  EXPECT_THROW(Tokenizer::from_vocabulary(vocabulary), Error);
}

}  // namespace
}  // namespace heddle::text
