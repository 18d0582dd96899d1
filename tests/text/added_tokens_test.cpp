#include "text/added_tokens.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/text/small_vocabulary.h"

namespace heddle::text {
namespace {

// "part" for text, "#7" for a token.
std::vector<std::string> split_added(const AddedTokens& added, std::string_view text, bool special = true,
                                     const TextRanges& plain = {}) {
  std::vector<std::string> out;
  added.split(
      text, special, plain, [&](std::string_view part) { out.emplace_back(part); },
      [&](TokenId id) { out.push_back(fmt::format("#{}", id)); });
  return out;
}
using Strings = std::vector<std::string>;

TEST(AddedTokens, TheLeftmostAndTheLongest) {
  const AddedTokens added({{.text = "<a>", .id = 1}, {.text = "<a><b>", .id = 2}, {.text = "b>c", .id = 3}});
  EXPECT_EQ(split_added(added, "x<a><b>c<a>y"), (Strings{"x", "#2", "c", "#1", "y"}));
  EXPECT_EQ(split_added(added, "<a><c>b>c"), (Strings{"#1", "<c>", "#3"}));
  EXPECT_EQ(split_added(added, "<a><"), (Strings{"#1", "<"}));
  EXPECT_EQ(split_added(added, ""), Strings{});
  EXPECT_EQ(split_added(AddedTokens({}), "<a>"), (Strings{"<a>"}));
}

TEST(AddedTokens, SpecialOnesOnlyWhereTheyMayBeNamed) {
  const AddedTokens added({{.text = "<a>", .id = 1}, {.text = "<a>!", .id = 2, .special = true}});
  EXPECT_EQ(split_added(added, "<a>!", true), (Strings{"#2"}));
  EXPECT_EQ(split_added(added, "<a>!", false), (Strings{"#1", "!"})) << "the shorter one is not special";
}

TEST(AddedTokens, SpecialOnesDoNotReachIntoPlainRanges) {
  const AddedTokens added({{.text = "<a>", .id = 1, .special = true},
                           {.text = "<a><b>", .id = 2, .special = true},
                           {.text = "<c>", .id = 3}});
  EXPECT_EQ(split_added(added, "<a><a><a>", true, {{3, 6}}), (Strings{"#1", "<a>", "#1"}));
  EXPECT_EQ(split_added(added, "<a><a><a>", true, {{5, 7}}), (Strings{"#1", "<a><a>"})) << "a byte is enough";
  EXPECT_EQ(split_added(added, "<a><b>", true, {{5, 6}}), (Strings{"#1", "<b>"})) << "a shorter one lies before it";
  EXPECT_EQ(split_added(added, "<c><a>", true, {{0, 6}}), (Strings{"#3", "<a>"})) << "only special ones";
  EXPECT_EQ(split_added(added, "x<a>y", true, {{0, 1}, {4, 5}}), (Strings{"x", "#1", "y"})) << "beside it is not in it";
}

TEST(AddedTokens, WhiteSpaceBesideThem) {
  const AddedTokens added({{.text = "<l>", .id = 1, .lstrip = true}, {.text = "<r>", .id = 2, .rstrip = true}});
  EXPECT_EQ(split_added(added, "a \u00a0\n<l> b"), (Strings{"a", "#1", " b"}));
  EXPECT_EQ(split_added(added, "a <r> \u3000\tb"), (Strings{"a ", "#2", "b"}));
  EXPECT_EQ(split_added(added, "<r>  <l>"), (Strings{"#2", "#1"}));
  EXPECT_EQ(split_added(added, "  <l>"), (Strings{"#1"}));
  EXPECT_EQ(split_added(added, "\x80 \x80\x80\x80\x80<l>"), (Strings{"\x80 \x80\x80\x80\x80", "#1"}));
}

TEST(AddedTokens, NotInsideAWord) {
  const AddedTokens added({{.text = "is", .id = 1, .single_word = true}});
  EXPECT_EQ(split_added(added, "is this is.is_ \u00e4is"), (Strings{"#1", " this ", "#1", ".is_ \u00e4is"}));
}

TEST(AddedTokens, HostileTextSlow) {
  std::vector<AddedToken> tokens{{.text = test::repeated("<", 60), .id = 1}};
  for (TokenId id = 2; id < 3000; ++id) tokens.push_back({.text = fmt::format("<unused{}>", id), .id = id});
  const AddedTokens added(std::move(tokens));
  EXPECT_EQ(split_added(added, test::repeated("<", (1 << 20) - 1) + "x").size(), (1u << 20) / 60 + 1);
  EXPECT_EQ(split_added(added, test::repeated("<unused", 1 << 20)).size(), 1u);
}

}  // namespace
}  // namespace heddle::text
