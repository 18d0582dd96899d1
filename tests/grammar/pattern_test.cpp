#include "grammar/pattern.h"

#include <gtest/gtest.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <random>

#include "base/error.h"

namespace heddle::grammar {
namespace {

bool found_by_pcre(const std::string& pattern, const std::string& text) {
  int error = 0;
  size_t at = 0;
  const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX, &error, &at, nullptr),
      pcre2_code_free);
  if (!code) throw Error("pcre2: error {} at {} of {}", error, at, pattern);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(code.get(), nullptr), pcre2_match_data_free);
  return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, match.get(), nullptr) >=
         0;
}

std::string random_pattern(std::mt19937& random, int depth) {
  auto inner = [&] { return random_pattern(random, depth - 1); };
  switch (depth == 0 ? random() % 5 : random() % 14) {
    case 0:
      return "a";
    case 1:
      return random() % 2 ? "b" : "\xc3\xa4";
    case 2:
      return random() % 2 ? "[ab]" : "[^a]";
    case 3:
      return ".";
    case 4:
      return random() % 2 ? "\\d" : "[b-d\\d]";
    case 5:
    case 6:
      return inner() + inner();
    case 7:
      return "(?:" + inner() + "|" + inner() + ")";
    case 8:
      return "(" + inner() + ")*";
    case 9:
      return "(?:" + inner() + "){1,2}";
    case 10:
      return "(?:" + inner() + ")?";
    case 11:
      return "(?:" + inner() + ")+?";
    case 12:
      return random() % 2 ? "(?=" + inner() + ")" + inner() : "(?!" + inner() + ")" + inner();
    default:
      return random() % 2 ? "^" + inner() : inner() + "$";
  }
}

TEST(Pattern, FindsWhatPcreFinds) {
  std::mt19937 random(11);
  int compared = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::string pattern = random_pattern(random, 3);
    Languages all;
    Language language;
    try {
      language = search_pattern(all, pattern, Writing::utf8);
    } catch (const Error&) {
      continue;  // what cannot be kept
    }
    ++compared;
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (uint32_t n = random() % 5; n > 0; --n)
        text += std::array<const char*, 6>{"a", "b", "c", "1", "\xc3\xa4", "\n"}[random() % 6];
      // PCRE's dot takes all but \n
      ASSERT_EQ(all.contains(language, text), found_by_pcre(pattern, text)) << pattern << " in " << text;
    }
  }
  EXPECT_GT(compared, 3000);
}

bool finds(std::string_view pattern, std::string_view text) {
  Languages all;
  return all.contains(search_pattern(all, pattern, Writing::utf8), text);
}

TEST(Pattern, OfSchemasInTheWorld) {
  EXPECT_TRUE(finds("^[a-z][a-z0-9-]*$", "a-1"));
  EXPECT_FALSE(finds("^[a-z][a-z0-9-]*$", "1a"));
  EXPECT_TRUE(finds("^\\d{4}-\\d{2}-\\d{2}$", "2026-11-16"));
  EXPECT_FALSE(finds("^\\d{4}-\\d{2}-\\d{2}$", "2026-11-167"));
  EXPECT_TRUE(finds("^(?!con$)[a-z]+$", "cons") && !finds("^(?!con$)[a-z]+$", "con"));
  EXPECT_TRUE(finds("^\\p{Lu}", "\xc3\x84x") && !finds("^\\p{Lu}", "x"));
  EXPECT_TRUE(finds("\\u00e4|\\u{1F600}", "\xf0\x9f\x98\x80") && finds("^\\uD83D\\uDE00$", "\xf0\x9f\x98\x80"));
  EXPECT_TRUE(finds("a{,2}", "a{,2}") && finds("x{", "x{") && finds("[\\w-]+@", "a-b@"));
  EXPECT_TRUE(finds("", "") && finds("", "anything"));
}

TEST(Pattern, InAJsonStringIsFoundInEveryForm) {
  Languages all;
  const Language language = search_pattern(all, "^a\\n\"$", Writing::json_string);
  EXPECT_TRUE(all.contains(language, "a\\n\\\""));
  EXPECT_TRUE(all.contains(language, "\\u0061\\u000A\\u0022"));
  EXPECT_FALSE(all.contains(language, "a\n\""));
  EXPECT_FALSE(all.contains(language, "a\\n"));
}

TEST(Pattern, OfTheWholeText) {
  Languages all;
  const Language language = whole_pattern(all, "a|bc", Writing::utf8);
  EXPECT_TRUE(all.contains(language, "a") && all.contains(language, "bc"));
  EXPECT_FALSE(all.contains(language, "xa") || all.contains(language, "bcx"));
}

TEST(Pattern, RefusesWithThePlaceAndTheReason) {
  Languages all;
  auto refused = [&](std::string_view pattern) -> std::string {
    try {
      search_pattern(all, pattern, Writing::utf8);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_EQ(refused("a(b"), "a group without ) at byte 3 of the pattern \"a(b\"");
  EXPECT_EQ(refused("a)"), "an unexpected ) at byte 1 of the pattern \"a)\"");
  EXPECT_EQ(refused("(a)\\1"), "a backreference, which cannot be kept, at byte 5 of the pattern \"(a)\\\\1\"");
  EXPECT_EQ(refused("\\bx"), "a word boundary, which cannot be kept, at byte 2 of the pattern \"\\\\bx\"");
  EXPECT_EQ(refused("*"), "nothing to repeat at byte 0 of the pattern \"*\"");
  EXPECT_EQ(refused("[z-a]"), "a range that ends before it begins at byte 4 of the pattern \"[z-a]\"");
  EXPECT_NE(refused("(?<=a)b").find("lookbehind"), std::string::npos);
  EXPECT_NE(refused("(^a)*").find("says where it is"), std::string::npos);
  EXPECT_NE(refused("\\p{Script=Greek}").find("no general category"), std::string::npos);
  EXPECT_NE(refused("a{3,2}").find("at least 3"), std::string::npos);
  EXPECT_NE(refused(std::string(1000, '(')).find("200 deep"), std::string::npos);
}

TEST(Pattern, NestedRepetitionsAreBounded) {
  Languages all;
  EXPECT_NO_THROW(whole_pattern(all, "(?:[a-z]{1,63}\\.){1,127}[a-z]{2,63}", Writing::utf8));
  EXPECT_NO_THROW(whole_pattern(all, "a{1000000}b*", Writing::utf8));
  for (const char* pattern : {"((a{1000}){1000}){1000}", "(([ab]{1,100}){1,100}){1,100}", "((a?b{0,200})*c?){0,200}"})
    EXPECT_THROW(whole_pattern(all, pattern, Writing::utf8), Error) << pattern;
}

// Where a pattern may be found anywhere, what its ends repeat need not be counted beyond the least.
TEST(Pattern, RepetitionsAtTheEndsOfASearch) {
  Languages all;
  const Language found = search_pattern(all, "[a-c.]{2,255}", Writing::utf8);
  EXPECT_EQ(found, search_pattern(all, "[a-c.]{2}", Writing::utf8));
  EXPECT_EQ(search_pattern(all, "(?:a+b*|c{3,9}d)", Writing::utf8), search_pattern(all, "a|c{3}d", Writing::utf8));
  EXPECT_TRUE(all.contains(found, "xabx") && !all.contains(found, "xaxb"));
}

TEST(Pattern, LookaheadsAreBounded) {
  Languages all;
  std::string pattern = ".*";
  for (int i = 0; i < 16; ++i) pattern = "(?=.*a)" + pattern;
  EXPECT_NO_THROW(whole_pattern(all, pattern, Writing::utf8));
  EXPECT_THROW(whole_pattern(all, "(?!b)" + pattern, Writing::utf8), Error);
}

TEST(Pattern, FlagsAndTraits) {
  Languages all;
  const Language cased = whole_pattern(all, "a[^b]\\x63", Writing::utf8, {.ignore_case = true});
  EXPECT_TRUE(all.contains(cased, "AxC"));
  EXPECT_FALSE(all.contains(cased, "ABc"));
  EXPECT_TRUE(
      all.contains(whole_pattern(all, "k", Writing::utf8, {.ignore_case = true}), "\u212a"));  // the Kelvin sign
  EXPECT_FALSE(all.contains(whole_pattern(all, ".", Writing::utf8), "\n"));
  EXPECT_TRUE(all.contains(whole_pattern(all, ".", Writing::utf8, {.dot_all = true}), "\n"));
  EXPECT_TRUE(pattern_traits("a$").asserts);
  EXPECT_TRUE(pattern_traits("(a*?)").lazy);
  EXPECT_TRUE(pattern_traits("\"[^\"]*\"").wide_loop);
  const PatternTraits plain = pattern_traits("[a-z]+.{3}");
  EXPECT_FALSE(plain.asserts || plain.lazy || plain.wide_loop);
  EXPECT_EQ(plain.counts, 3u);
}

}  // namespace
}  // namespace heddle::grammar
