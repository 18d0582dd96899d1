// Lines broken at words, however the text is split into chunks.
#include "main/chat/word_wrap.h"

#include <gtest/gtest.h>

namespace heddle::test {
namespace {

// The same for all ways to cut the text in two, and byte by byte where it is ASCII.
std::string wrapped(const std::string& text, size_t width) {
  const auto in_chunks = [&](size_t first, size_t size) {
    WordWrap wrap([width] { return width; });
    std::string out = wrap.push(text.substr(0, first));
    for (size_t at = first; at < text.size(); at += size) out += wrap.push(text.substr(at, size));
    return out + wrap.finish();
  };
  const std::string whole = in_chunks(text.size(), 1);
  bool ascii = true;
  for (size_t cut = 0; cut < text.size(); ++cut) {
    ascii &= !(text[cut] & 0x80);
    if ((text[cut] & 0xc0) == 0x80) continue;  // inside a character
    EXPECT_EQ(in_chunks(cut, text.size()), whole) << cut;
  }
  if (ascii) {
    EXPECT_EQ(in_chunks(0, 1), whole);
  }
  return whole;
}

TEST(WordWrap, BreaksAtBlanks) {
  EXPECT_EQ(wrapped("one two three four", 9), "one two\nthree\nfour");
  EXPECT_EQ(wrapped("one two three four", 10), "one two\nthree four");
  EXPECT_EQ(wrapped("one two", 7), "one two");
  EXPECT_EQ(wrapped("one  two", 7), "one\ntwo");  // blanks at the break go
  EXPECT_EQ(wrapped("one  two", 80), "one  two");
  EXPECT_EQ(wrapped("one two three", 0), "one two three");  // no width, no wrap
}

TEST(WordWrap, KeepsTheTextsOwnLines) {
  EXPECT_EQ(wrapped("a b\nc d e f\n\ng", 5), "a b\nc d e\nf\n\ng");
  EXPECT_EQ(wrapped("  - one two", 8), "  - one\ntwo");
  EXPECT_EQ(wrapped("end \nnext", 80), "end\nnext");
}

TEST(WordWrap, AWordLongerThanALineIsLeftToTheTerminal) {
  EXPECT_EQ(wrapped("see http://a.example/long/path now", 10), "see\nhttp://a.example/long/path now");
  EXPECT_EQ(wrapped("0123456789012345 abc", 10), "0123456789012345 abc");  // 6 cells of the second line, a blank, 3
  EXPECT_EQ(wrapped("0123456789012345 abcd", 10), "0123456789012345\nabcd");
}

TEST(WordWrap, CountsCellsAndNotBytes) {
  EXPECT_EQ(cells_of('a'), 1u);
  EXPECT_EQ(cells_of(U'\u00fc'), 1u);
  EXPECT_EQ(cells_of(U'\u65e5'), 2u);
  EXPECT_EQ(cells_of(U'\u0301'), 0u);  // an accent on the letter before
  EXPECT_EQ(cells_of(U'\U0001f600'), 2u);
  EXPECT_EQ(wrapped("gr\u00fcn gr\u00fcn", 9), "gr\u00fcn gr\u00fcn");
  EXPECT_EQ(wrapped("gr\u00fcn gr\u00fcn", 8), "gr\u00fcn\ngr\u00fcn");
  EXPECT_EQ(wrapped("e\u0301e\u0301 e\u0301e\u0301", 5), "e\u0301e\u0301 e\u0301e\u0301");
  // ideographs have no blanks between them: a line is broken anywhere
  EXPECT_EQ(wrapped("\u65e5\u672c\u8a9e\u65e5\u672c", 6), "\u65e5\u672c\u8a9e\n\u65e5\u672c");
  EXPECT_EQ(wrapped("ab\u65e5\u672c", 5), "ab\u65e5\n\u672c");
}

TEST(WordWrap, CodeIsLeftAlone) {
  EXPECT_EQ(wrapped("a b c\n```cpp\nint main() { return 0; }\n  x y z w\n```\nd e f g\n", 5),
            "a b c\n```cpp\nint main() { return 0; }\n  x y z w\n```\nd e f\ng\n");
  EXPECT_EQ(wrapped("    int  i = 1;\nx y z w", 5), "    int  i = 1;\nx y z\nw");
  EXPECT_EQ(wrapped("\tint  i = 1;\nx", 5), "\tint  i = 1;\nx");
}

TEST(WordWrap, FollowsTheWidthAsItChanges) {
  size_t width = 20;
  WordWrap wrap([&width] { return width; });
  std::string out = wrap.push("one two three four ");
  width = 9;
  out += wrap.push("five six seven");
  out += wrap.finish();
  EXPECT_EQ(out, "one two three four\nfive six\nseven");
}

TEST(WordWrap, AWordIsShownWhenItIsComplete) {
  WordWrap wrap([] { return size_t(80); });
  EXPECT_EQ(wrap.push("Hel"), "");
  EXPECT_EQ(wrap.push("lo"), "");
  EXPECT_EQ(wrap.push(" wor"), "Hello");
  EXPECT_EQ(wrap.push("ld.\n"), " world.\n");
  EXPECT_EQ(wrap.push("x"), "");
  EXPECT_EQ(wrap.finish(), "x");
}

}  // namespace
}  // namespace heddle::test
