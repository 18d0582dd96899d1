#include "text/split/regex.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/support/refused.h"
#include "tests/text/small_vocabulary.h"

namespace heddle::text {
namespace {

using Strings = std::vector<std::string>;

Strings matches(const Regex& regex, std::string_view text) {
  Strings out;
  regex.for_each_match(text, [&](size_t begin, size_t end) { out.emplace_back(text.substr(begin, end - begin)); });
  return out;
}
Strings matches(std::string_view pattern, std::string_view text) { return matches(Regex(pattern), text); }
Strings pieces(const Regex& regex, std::string_view text) {
  Strings out;
  regex.for_each_piece(text, [&](std::string_view piece) { out.emplace_back(piece); });
  return out;
}

TEST(Regex, MatchesAndWhatIsBetween) {
  EXPECT_EQ(matches("[0-9]+", "a12b3"), (Strings{"12", "3"}));
  EXPECT_EQ(pieces(Regex("[0-9]+"), "a12b3"), (Strings{"a", "12", "b", "3"}));
  EXPECT_EQ(pieces(Regex("[0-9]+"), "abc"), (Strings{"abc"}));
  EXPECT_EQ(pieces(Regex("[0-9]+"), ""), Strings{});
}

TEST(Regex, EmptyMatchesMoveOnByACharacter) {
  EXPECT_EQ(matches("b*", "abb\u00e4"), (Strings{"", "bb", ""}));
  EXPECT_EQ(pieces(Regex("(?=(\\d{3})+(?!\\d))"), "1234567"), (Strings{"1", "234", "567"}));
}

TEST(Regex, BytesThatAreNoUtf8AreNeverMatched) {
  EXPECT_EQ(pieces(Regex("[^a]+"), "ab\xff\xffz\xc3"), (Strings{"a", "b", "\xff\xff", "z", "\xc3"}));
  EXPECT_EQ(pieces(Regex(patterns::llama3), "one\xfe two \xe2\x82"), (Strings{"one", "\xfe", " two", " ", "\xe2\x82"}));
  EXPECT_EQ(matches(".", "\xff"), Strings{});
}

TEST(Regex, SpacesAndWordsAreThoseOfUnicode) {
  EXPECT_EQ(matches("\\s+", "a\u0085\u3000b\u180e\u200bc\v"), (Strings{"\u0085\u3000", "\v"}));
  EXPECT_EQ(matches("[^\\s]+", " a\u180e \u2028b"), (Strings{"a\u180e", "b"}));
  EXPECT_EQ(matches("[\\S]+", " a\u180e\u2028b"), (Strings{"a\u180e", "b"}));
  EXPECT_EQ(matches("[\\s\\S]+", "a b"), (Strings{"a b"}));
  EXPECT_EQ(matches("\\w+", "a\u0301_9 \u24b6-\u2074"), (Strings{"a\u0301_9", "\u24b6"}));
  EXPECT_EQ(matches("\\w+", "\u00b2\u00b9\u00bd \u2460"), (Strings{"\u00b2\u00b9\u00bd"})) << "Oniguruma's exception";
  EXPECT_EQ(matches("\\W+", "a\u0301_9 \u2074b"), (Strings{" \u2074"}));
  EXPECT_EQ(matches("\\b\\w", "e\u0301a b"), (Strings{"e", "b"}));
  EXPECT_EQ(matches("\\B\\w", "abc"), (Strings{"b", "c"}));
  EXPECT_EQ(matches("\\d+|\\D", "\u0664\u00b2"), (Strings{"\u0664", "\u00b2"}));
}

TEST(Regex, LettersThatMeanSomethingElseInPcre2) {
  EXPECT_EQ(matches("\\h+", "xfF0 g"), (Strings{"fF0"}));
  EXPECT_EQ(matches("[\\h]+|\\H+", "xy1"), (Strings{"xy", "1"}));
  EXPECT_EQ(matches("\\v", "\n\v"), (Strings{"\v"}));
  EXPECT_EQ(matches("\\u00e4", "a\u00e4"), (Strings{"\u00e4"}));
  EXPECT_EQ(matches("a$", "a\nba"), (Strings{"a", "a"})) << "the end of any line";
  EXPECT_EQ(matches("^.", "ab\ncd"), (Strings{"a", "c"}));
  EXPECT_EQ(matches("(?m:a.)", "a\n"), (Strings{"a\n"})) << "m: the dot matches line ends";
}

TEST(Regex, Repeats) {
  EXPECT_EQ(matches("\\p{N}{1,3}+", "12345"), (Strings{"12345"})) << "no possessive repeat, but one of repeats";
  EXPECT_EQ(matches("(?:ab){2}+", "abababab"), (Strings{"abababab"}));
  EXPECT_EQ(matches("a{2}?", "aaa"), (Strings{"aa", ""})) << "optional";
  EXPECT_EQ(matches("a{,2}b", "aaab"), (Strings{"aab"}));
  EXPECT_EQ(matches("a{1,3}?", "aa"), (Strings{"a", "a"}));
  EXPECT_EQ(matches("a{x}", "a{x}"), (Strings{"a{x}"}));
  EXPECT_EQ(matches("a?+a", "aa a"), (Strings{"aa"}));
}

TEST(Regex, ClassesInClasses) {
  EXPECT_EQ(matches("[a[bc]]+", "abcd"), (Strings{"abc"}));
  EXPECT_EQ(matches("[\\p{L}&&[^\\p{Han}]]+", "ab\u4e2dc"), (Strings{"ab", "c"}));
  EXPECT_EQ(matches("[^\\p{L}&&[a-c]]+", "abxyz1"), (Strings{"xyz1"}));
  EXPECT_EQ(matches("[]a]+", "]ab"), (Strings{"]a"}));
  EXPECT_EQ(matches("[[:digit:]x]+", "1x2y"), (Strings{"1x2"}));
  EXPECT_EQ(matches("[\\s-x]+", "- xw"), (Strings{"- x"})) << "no range begins with a set";
}

TEST(Regex, Properties) {
  EXPECT_EQ(matches("\\p{Han}+", "\u4e2d\u3001\u6587"), (Strings{"\u4e2d", "\u6587"})) << "not what scripts share";
  EXPECT_EQ(matches("\\p{Letter}+|\\P{L}", "a1"), (Strings{"a", "1"}));
  EXPECT_EQ(matches("\\p{^L}+", "a12b"), (Strings{"12"}));
  EXPECT_EQ(matches("\\p{Lu}\\p{Ll}+", "aBcd"), (Strings{"Bcd"}));
}

TEST(Regex, WhatIsNoPatternIsRefused) {
  EXPECT_REFUSED(Regex("a(b"), "pattern \"a(b\"", "missing closing parenthesis", "at 3");
  EXPECT_REFUSED(Regex("[a"), "pattern \"[a\", at 2", "closing bracket");
  EXPECT_REFUSED(Regex("\\p{Nonsense}"), "pattern \"\\\\p{Nonsense}\"", "unknown property");
  EXPECT_REFUSED(Regex("\\p{L"), "at 2", "closing brace");
  EXPECT_REFUSED(Regex("a\\"), "ends after a backslash");
  EXPECT_REFUSED(Regex("[\\W]"), "\\W in a class");
  EXPECT_REFUSED(Regex("\xff"), "at 0: not UTF-8");
  EXPECT_REFUSED(Regex(test::repeated("[", 30) + "a" + test::repeated("]", 30)), "nested too deep");
}

TEST(Regex, TooManyStepsAreAnError) {
  const Regex regex("(?:a|aa)+[bc]");
  EXPECT_REFUSED(matches(regex, test::repeated("a", 4000)), "pattern", "on a text of 4000 bytes", "limit");
}

TEST(Regex, ScannersMatchWhatTheirPatternsDo) {
  std::mt19937 random(1);
  for (const std::string_view pattern :
       {patterns::gpt2, patterns::llama3, patterns::qwen2, patterns::qwen35, patterns::gpt4o, patterns::tekken}) {
    ASSERT_NE(find_scanner(pattern), nullptr);
    const Regex scanner(pattern), plain(pattern, Regex::Engine::pcre2);
    for (int i = 0; i < 3000; ++i) {
      const std::string text = test::random_text(random, 1 + random() % 40);
      ASSERT_EQ(pieces(scanner, text), pieces(plain, text)) << pattern << " on " << in_quotes(text, 1000);
    }
  }
}

TEST(Regex, TheLinearFormOfSpacesAtALineEndMatchesTheSame) {
  const Regex linear("\\s+$"), plain("(?:\\s+$)");
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += "  \n\ra\t"[random() % 6];
    ASSERT_EQ(pieces(linear, text), pieces(plain, text)) << in_quotes(text);
  }
}

}  // namespace
}  // namespace heddle::text
