#include "grammar/regex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/error.h"
#include "tests/grammar/random_grammar.h"

namespace heddle::grammar {
namespace {

using test::accepts;
using test::compile;

TEST(Regex, MatchesTheWholeText) {
  const auto date = compile(regex("\\d{4}-\\d{2}(?:-\\d{2})?"));
  EXPECT_TRUE(accepts(date, "2026-01"));
  EXPECT_TRUE(accepts(date, "2026-01-31"));
  EXPECT_FALSE(accepts(date, "x2026-01"));
  EXPECT_FALSE(accepts(date, "2026-01-3"));
  const auto maybe = compile(regex("(?:ab)*"));
  EXPECT_TRUE(accepts(maybe, ""));
  EXPECT_TRUE(accepts(maybe, "abab"));
  EXPECT_FALSE(accepts(maybe, "aba"));
  EXPECT_TRUE(accepts(compile(regex("")), ""));
  EXPECT_FALSE(accepts(compile(regex("")), "a"));
}

TEST(Regex, WithoutATextItIsAnError) {
  EXPECT_THROW(regex("a(?=b)c"), Error);
  EXPECT_THROW(regex("[^\\s\\S]"), Error);
  EXPECT_THROW(regex("("), Error);
}

TEST(Choices, RandomTextsAndNoOthers) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::set<std::string> texts;
    for (size_t count = 1 + random() % 12; count > 0; --count) {
      std::string text;
      for (size_t length = random() % 5; length > 0; --length) text += "ab\xff"[random() % 3];
      texts.insert(text);
    }
    std::vector<std::string> list(texts.begin(), texts.end());
    list.push_back(list[random() % list.size()]);  // one twice
    std::shuffle(list.begin(), list.end(), random);
    const auto grammar = compile(choices(list));
    for (const std::u32string& each : test::all_texts(U"abc", 4)) {
      std::string text;
      for (char32_t c : each) text += c == U'c' ? '\xff' : char(c);
      ASSERT_EQ(accepts(grammar, text), texts.contains(text)) << text;
    }
  }
}

TEST(Choices, ManyAndLongOnes) {
  std::vector<std::string> texts;
  for (int i = 0; i < 20'000; ++i) texts.push_back(fmt::format("city number {}", i));
  texts.push_back(std::string(500'000, 'x'));
  texts.push_back(std::string(100'000, 'x') + "y");
  const auto grammar = compile(choices(texts));
  EXPECT_TRUE(accepts(grammar, "city number 19999"));
  EXPECT_FALSE(accepts(grammar, "city number 20000"));
  EXPECT_FALSE(accepts(grammar, "city number"));
}

TEST(Choices, NoneOrTooLargeIsAnError) {
  EXPECT_THROW(choices({}), Error);
  EXPECT_THROW(choices(std::vector<std::string>{std::string(1'000'001, 'x')}), Error);
}

}  // namespace
}  // namespace heddle::grammar
