#include "main/chat/dim_thoughts.h"

#include <gtest/gtest.h>

#include "main/chat/word_wrap.h"

namespace heddle {
namespace {

const chat::ThoughtFormat marks{"<think>\n", "\n</think>\n\n"};

// In two pieces, cut everywhere: the same each time.
std::string styled(const std::string& text, bool inside = false, const std::string& shown_before = "") {
  std::string all;
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    DimThoughts thoughts(marks, inside);
    if (!shown_before.empty()) thoughts.skip(shown_before);
    std::string out = thoughts.push(text.substr(0, cut));
    out += thoughts.push(text.substr(cut));
    out = DimThoughts::with_styles(out + thoughts.finish());
    if (cut > 0) {
      EXPECT_EQ(out, all) << "cut at " << cut;
    }
    all = out;
  }
  return all;
}

TEST(DimThoughts, FromMarkToMark) {
  EXPECT_EQ(styled("<think>\na < b\n</think>\n\nYes."), "\x1b[2m<think>\na < b\n</think>\x1b[22m\n\nYes.");
  EXPECT_EQ(styled("\n<think></think>"), "\x1b[2m\n<think></think>\x1b[22m");
}

TEST(DimThoughts, OnlyAtTheBeginning) {
  EXPECT_EQ(styled("Yes. <think> is a mark, </think> another."), "Yes. <think> is a mark, </think> another.");
  EXPECT_EQ(styled("<thing>"), "<thing>");
  EXPECT_EQ(styled("<thi"), "<thi");
  EXPECT_EQ(styled(" "), " ");
  EXPECT_EQ(styled("<think>a</think><think>b</think>"), "\x1b[2m<think>a</think>\x1b[22m<think>b</think>");
}

TEST(DimThoughts, BegunByThePromptOrByWhatWasShownBefore) {
  EXPECT_EQ(styled("a</think>b", true), "\x1b[2ma</think>\x1b[22mb");
  EXPECT_EQ(styled("b</think>c", false, "<think>a"), "\x1b[2mb</think>\x1b[22mc");
  EXPECT_EQ(styled("c", true, "a</think>b"), "c");
}

TEST(DimThoughts, OneThatDoesNotEndLeavesTheTerminalAsItWas) {
  EXPECT_EQ(styled("<think>a</thi"), "\x1b[2m<think>a</thi\x1b[22m");
}

TEST(DimThoughts, NoneWithoutMarks) {
  DimThoughts thoughts;
  EXPECT_EQ(thoughts.push("<think>a</think>"), "<think>a</think>");
  EXPECT_EQ(thoughts.finish(), "");
  DimThoughts without_end({"<think>", ""}, true);
  EXPECT_EQ(without_end.push("<think>a"), "<think>a");
  EXPECT_EQ(without_end.finish(), "");
}

TEST(DimThoughts, MarksTakeNoWidth) {
  EXPECT_EQ(cells_of(DimThoughts::dim) + cells_of(DimThoughts::plain), 0u);
  DimThoughts thoughts(marks, true);
  const std::string text = thoughts.push("aaa bbb</think> ccc");
  EXPECT_EQ(DimThoughts::with_styles(wrapped(text, 15)), "\x1b[2maaa bbb</think>\x1b[22m\nccc");
}

}  // namespace
}  // namespace heddle
