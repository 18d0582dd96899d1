// UTF-8 against a plain decoder that follows the definition: encode every code point, and see which bytes give it back.
#include "base/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace heddle {
namespace {

bool is_surrogate(char32_t c) { return c >= 0xd800 && c <= 0xdfff; }
std::string encoded(char32_t c) {
  std::string out;
  append_utf8(out, c);
  return out;
}

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (is_surrogate(c)) continue;
    const std::string text = encoded(c);
    ASSERT_EQ(text.size(), c < 0x80 ? 1u : c < 0x800 ? 2u : c < 0x10000 ? 3u : 4u);
    const CodePoint point = code_point_at(text, 0);
    ASSERT_TRUE(point.valid && point.value == c && point.bytes == text.size()) << std::hex << uint32_t(c);
    ASSERT_TRUE(is_utf8(text));
  }
  EXPECT_EQ(encoded(0x20ac), "\xe2\x82\xac");
  EXPECT_EQ(encoded(0x1f600), "\xf0\x9f\x98\x80");
  for (const char32_t c : {char32_t{0xd800}, char32_t{0xdfff}, char32_t{0x110000}, char32_t{0xffffffff}})
    EXPECT_THROW(encoded(c), std::logic_error);
}

// All sequences of up to three bytes, and those of four that begin with a lead byte of four: valid exactly if they are
// the encoding of what they decode to.
TEST(Utf8, NothingElseIsValid) {
  const auto check_text = [](const std::string& text) {
    const CodePoint point = code_point_at(text, 0);
    if (point.valid) {
      ASSERT_EQ(encoded(point.value), text.substr(0, point.bytes));
    } else {
      ASSERT_EQ(point.value, char32_t{0xfffd});
      ASSERT_GE(point.bytes, 1);
      ASSERT_LE(point.bytes, std::min<size_t>(3, text.size()));
    }
    ASSERT_EQ(find_invalid_utf8(text) == 0, !point.valid && !text.empty());
  };
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      check_text({char(a), char(b)});
      if (a < 0xe0) continue;
      for (int c = 0x70; c < 256; c += 5) {
        check_text({char(a), char(b), char(c)});
        if (a < 0xf0) continue;
        for (const int d : {0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff}) check_text({char(a), char(b), char(c), char(d)});
      }
    }
}

// As Unicode's example of the practice (chapter 3, "U+FFFD substitution of maximal subparts") has it.
TEST(Utf8, ReplacesMaximalSubparts) {
  EXPECT_EQ(replace_invalid_utf8(""), "");
  EXPECT_EQ(replace_invalid_utf8("sch\xc3\xb6n"), "sch\xc3\xb6n");
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(replace_invalid_utf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(replace_invalid_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), r + r + r + r + "A");
}

TEST(Utf8, FindsTheFirstInvalidByteAnywhere) {
  EXPECT_EQ(find_invalid_utf8(""), std::string_view::npos);
  for (size_t before = 0; before < 40; ++before)
    for (size_t after = 0; after < 20; ++after) {
      const std::string text = std::string(before, 'a') + "\xff" + std::string(after, 'b') + "\xfe";
      ASSERT_EQ(find_invalid_utf8(text), before);
      ASSERT_EQ(find_invalid_utf8(std::string(before, 'a') + "\xe2\x82\xac" + std::string(after, 'b')),
                std::string_view::npos);
      ASSERT_EQ(find_invalid_utf8(std::string(before, 'a') + "\xe2\x82"), before);
    }
}

// A tail is incomplete exactly if some character completes it.
TEST(Utf8, KnowsWhatMayStillBecomeACharacter) {
  EXPECT_EQ(incomplete_utf8_tail(""), 0u);
  EXPECT_EQ(incomplete_utf8_tail("abc"), 0u);
  for (const char32_t c : {U'\u00e9', U'\u20ac', U'\ud7ff', U'\ufffd', char32_t{0x10000}, char32_t{0x10ffff}}) {
    const std::string whole = encoded(c);
    EXPECT_EQ(incomplete_utf8_tail("x" + whole), 0u);
    for (size_t bytes = 1; bytes < whole.size(); ++bytes) {
      EXPECT_EQ(incomplete_utf8_tail("x" + whole.substr(0, bytes)), bytes);
      EXPECT_EQ(incomplete_utf8_tail(whole.substr(0, bytes)), bytes);
    }
  }
  for (const char* text : {"\x80", "\xff", "\xc0", "\xc1", "\xf5", "\xe0\x80", "\xed\xa0", "\xf4\x90", "\xf0\x8f",
                           "\x80\x80\x80\x80", "\xc3\xa9\x80", "\xe2\x82\xac\x80"})
    EXPECT_EQ(incomplete_utf8_tail(text), 0u) << replace_invalid_utf8(text);
}

TEST(Utf8, QuotesForMessages) {
  EXPECT_EQ(in_quotes(""), "\"\"");
  EXPECT_EQ(in_quotes("a b"), "\"a b\"");
  EXPECT_EQ(in_quotes("a\"\\\n\t"), R"("a\"\\\n\x09")");
  EXPECT_EQ(in_quotes(std::string_view("\0\x7f\xff", 3)), R"("\x00\x7f\xff")");
  EXPECT_EQ(in_quotes("sch\xc3\xb6n \xc2\x85\xe2\x80\xa8"), "\"sch\xc3\xb6n \\xc2\\x85\\xe2\\x80\\xa8\"");
  EXPECT_EQ(in_quotes("\xe2\x82"), R"("\xe2\x82")");
  EXPECT_EQ(in_quotes("abcdef", 3), "\"abc\"...");
  EXPECT_EQ(in_quotes("abc", 3), "\"abc\"");
  EXPECT_EQ(in_quotes("ab\xe2\x82\xac"
                      "d",
                      3),
            "\"ab\xe2\x82\xac\"...");  // a character is not cut
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 30, ' ');
    for (char& c : text) c = char(random());
    const std::string shown = in_quotes(text, random() % 40);
    EXPECT_TRUE(is_utf8(shown));
    EXPECT_EQ(shown.find_first_of("\n\r"), std::string::npos);
  }
}

}  // namespace
}  // namespace heddle
