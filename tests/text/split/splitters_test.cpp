#include "text/split/splitters.h"

#include <gtest/gtest.h>

namespace heddle::text {
namespace {

using Texts = std::vector<std::string>;

Texts pieces_of(const Splitter& splitter, std::string_view text, bool first = true) {
  Pieces pieces;
  splitter(text, first, pieces);
  return {pieces.views().begin(), pieces.views().end()};
}

TEST(Splitters, DelimitersAsTokenizersDocumentsThem) {
  const std::string text = "the-final--countdown";
  const auto split = [&](Delimiters delimiters) { return pieces_of(split_splitter("-", delimiters, false), text); };
  EXPECT_EQ(split(Delimiters::removed), (Texts{"the", "final", "countdown"}));
  EXPECT_EQ(split(Delimiters::isolated), (Texts{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split(Delimiters::merged_with_previous), (Texts{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split(Delimiters::merged_with_next), (Texts{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split(Delimiters::contiguous), (Texts{"the", "-", "final", "--", "countdown"}));
}

TEST(Splitters, AtTheEnds) {
  for (const Delimiters delimiters : {Delimiters::removed, Delimiters::isolated, Delimiters::merged_with_previous,
                                      Delimiters::merged_with_next, Delimiters::contiguous}) {
    EXPECT_EQ(pieces_of(split_splitter("-", delimiters, false), ""), Texts{});
    EXPECT_EQ(pieces_of(split_splitter("-", delimiters, false), "a"), Texts{"a"});
    EXPECT_EQ(pieces_of(split_splitter("-", delimiters, false), "-"),
              delimiters == Delimiters::removed ? Texts{} : Texts{"-"});
  }
  EXPECT_EQ(pieces_of(split_splitter("-", Delimiters::merged_with_next, false), "-a-"), (Texts{"-a", "-"}));
  EXPECT_EQ(pieces_of(split_splitter("-", Delimiters::merged_with_previous, false), "-a-"), (Texts{"-", "a-"}));
}

TEST(Splitters, Inverted) {
  EXPECT_EQ(pieces_of(split_splitter(Regex("[a-z]+"), Delimiters::removed, true), "ab, cd!"), (Texts{"ab", "cd"}));
  EXPECT_EQ(pieces_of(split_splitter(Regex("[a-z]+"), Delimiters::merged_with_next, true), "ab, cd!"),
            (Texts{"ab", ", cd", "!"}));
}

TEST(Splitters, Metaspace) {
  const auto split = [](PrependScheme prepend, std::string_view text, bool first = true, bool cut = true) {
    return pieces_of(metaspace_splitter("_", prepend, cut), text, first);
  };
  EXPECT_EQ(split(PrependScheme::always, "a  b", false), (Texts{"_a", "_", "_b"}));
  EXPECT_EQ(split(PrependScheme::always, " a"), Texts{"_a"});
  EXPECT_EQ(split(PrependScheme::first, "a", false), Texts{"a"});
  EXPECT_EQ(split(PrependScheme::first, "a", true), Texts{"_a"});
  EXPECT_EQ(split(PrependScheme::never, "a b"), (Texts{"a", "_b"}));
  EXPECT_EQ(split(PrependScheme::always, "a b", true, false), Texts{"_a_b"});
}

TEST(Splitters, ByClass) {
  const std::string text = "Hey, you_2 \u4e00\u0301!! 12\u00bd";
  EXPECT_EQ(pieces_of(white_space_splitter(), text),
            (Texts{"Hey", ",", "you_2", "\u4e00\u0301", "!!", "12", "\u00bd"}));
  EXPECT_EQ(pieces_of(white_space_split_splitter(), text), (Texts{"Hey,", "you_2", "\u4e00\u0301!!", "12\u00bd"}));
  EXPECT_EQ(pieces_of(punctuation_splitter(Delimiters::isolated), "a,.b"), (Texts{"a", ",", ".", "b"}));
  EXPECT_EQ(pieces_of(digits_splitter(true), "a12\u00bd"), (Texts{"a", "1", "2", "\u00bd"}));
  EXPECT_EQ(pieces_of(digits_splitter(false), "a12\u00bdb"), (Texts{"a", "12\u00bd", "b"}));
  EXPECT_EQ(pieces_of(bert_splitter(), " a,b \xff! "), (Texts{"a", ",", "b", "\xff", "!"}));
  EXPECT_EQ(pieces_of(delimiter_splitter(0x4e00), "a\u4e00b"), (Texts{"a", "b"}));
  EXPECT_EQ(pieces_of(fixed_length_splitter(2), "ab\u4e00d\u00e9"), (Texts{"ab", "\u4e00d", "\u00e9"}));
}

TEST(Splitters, Bytes) {
  EXPECT_EQ(pieces_of(byte_level_splitter(), " a\xff"), Texts{"\u0120a\u00ff"});
  EXPECT_EQ(pieces_of(prefix_space_splitter(), "a"), Texts{" a"});
  EXPECT_EQ(pieces_of(prefix_space_splitter(), " a"), Texts{" a"});
}

}  // namespace
}  // namespace heddle::text
