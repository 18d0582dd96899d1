#include "grammar/forced.h"

#include <gtest/gtest.h>

#include <random>

#include "grammar/constraint.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "tests/grammar/random_grammar.h"

namespace heddle::grammar {
namespace {

using test::compile;

TEST(Forced, AsLongAsOneByteIsPossible) {
  const auto grammar = compile(gbnf("root ::= \"abc\" [de] \"fg\" | \"abx\" \"!\"?"));
  Position at(grammar);
  EXPECT_EQ(forced(at), "ab");
  EXPECT_EQ(forced(at, 1), "a");
  EXPECT_TRUE(at.take("abc"));
  EXPECT_EQ(forced(at), "");
  EXPECT_TRUE(at.take("d"));
  EXPECT_EQ(forced(at), "fg");
  Position other(grammar);
  EXPECT_TRUE(other.take("ab"));
  EXPECT_TRUE(other.take("x"));
  EXPECT_EQ(forced(other), "");  // the text may end, although only one byte can follow
}

TEST(Forced, IsBoundedWhereATextCouldGoOn) {
  const auto grammar = compile(gbnf("root ::= \"a\"{1000}"));
  EXPECT_EQ(forced(Position(grammar)).size(), 512u);
}

// Byte pairs in the order of the vocabulary, beginning with single bytes: as byte pair encoding does.
class PairTokenizer {
 public:
  explicit PairTokenizer(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {}
  std::vector<uint32_t> operator()(std::string_view text) const {
    std::vector<std::string> parts;
    for (char c : text) parts.emplace_back(1, c);
    for (const std::string& token : tokens_)
      for (size_t i = 0; i + 1 < parts.size(); ++i)
        if (parts[i] + parts[i + 1] == token) {
          parts[i] = token;
          parts.erase(parts.begin() + long(i) + 1);
        }
    std::vector<uint32_t> ids;
    for (const std::string& part : parts) ids.push_back(uint32_t(std::ranges::find(tokens_, part) - tokens_.begin()));
    return ids;
  }

 private:
  std::vector<std::string> tokens_;
};

TEST(Forced, TokensThatCouldMergeWithWhatFollowsAreLeftOut) {
  const std::vector<std::string> tokens{"{", "\"", "n", "a", ":", "na", "{\"", "\":", "x", "\"x"};
  const auto vocabulary = std::make_shared<Vocabulary>(tokens);
  const PairTokenizer tokenize(tokens);
  const auto forced_in = [&](const char* text) {
    return forced_tokens(Position(compile(gbnf(text))), *vocabulary, tokenize, "");
  };
  // the last quotation mark could be the beginning of "x
  EXPECT_EQ(forced_in("root ::= \"{\\\"na\\\":\\\"\" [xna]"), (std::vector<uint32_t>{6, 5, 7}));
  EXPECT_EQ(forced_in("root ::= \"{\\\"na\\\":\\\"\" [na]"), (std::vector<uint32_t>{6, 5, 7, 1}));
  EXPECT_EQ(forced_in("root ::= \"{\\\"na\\\":\\\"\""), (std::vector<uint32_t>{6, 5, 7, 1}));
  EXPECT_EQ(forced_in("root ::= [na]"), (std::vector<uint32_t>{}));
}

TEST(Forced, ATokenAcrossTheBeginningGivesNone) {
  const std::vector<std::string> tokens{"a", "b", "c", "ab"};
  const Vocabulary vocabulary(tokens);
  const PairTokenizer tokenize(tokens);
  const auto grammar = compile(gbnf("root ::= \"bc\""));
  EXPECT_EQ(forced_tokens(Position(grammar), vocabulary, tokenize, "c"), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(forced_tokens(Position(grammar), vocabulary, tokenize, "a"), (std::vector<uint32_t>{}));
}

// Random vocabularies and grammars: what is forced is the beginning of what the tokenizer gives to the whole text,
// whatever the rest of the text is, but for merges that change others before them.
TEST(Forced, TokensAreThoseOfTheWholeText) {
  std::mt19937 random(3);
  size_t forced_count = 0, same = 0, all = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> tokens{"a", "b", "c"};
    while (tokens.size() < 9) {
      const std::string pair = tokens[random() % tokens.size()] + tokens[random() % tokens.size()];
      if (std::ranges::find(tokens, pair) == tokens.end()) tokens.push_back(pair);
    }
    std::string start;
    for (size_t i = 1 + random() % 8; i > 0; --i) start += "abc"[random() % 3];
    const std::string rest = random() % 2 ? "[ab]" : "[bc]";
    const auto grammar = compile(gbnf(fmt::format("root ::= \"{}\" {}{{4}}", start, rest)));
    const PairTokenizer tokenize(tokens);
    const auto vocabulary = std::make_shared<Vocabulary>(tokens);
    Constraint constraint(std::make_shared<TokenMasks>(grammar, vocabulary), {});
    const std::vector<uint32_t> given = constraint.forced_tokens(tokenize, "");
    forced_count += !given.empty();
    Constraint taken = constraint;
    for (uint32_t token : given) ASSERT_TRUE(taken.take(token));
    for (int text = 0; text < 4; ++text) {
      std::string whole = start;
      for (int i = 0; i < 4; ++i) whole += rest[1 + random() % 2];
      const std::vector<uint32_t> ids = tokenize(whole);
      ++all;
      same += ids.size() >= given.size() && std::ranges::equal(given, std::span(ids).first(given.size()));
    }
  }
  EXPECT_GT(forced_count, 30u);
  EXPECT_GT(double(same), 0.97 * double(all));
}

}  // namespace
}  // namespace heddle::grammar
