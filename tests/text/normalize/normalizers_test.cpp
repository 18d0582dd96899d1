// Normalizers by value, and the charsmap of SentencePiece, which is not trusted.
#include "text/normalize/normalizers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <map>

#include "base/error.h"

namespace heddle::text {
namespace {

std::string normalize(const Normalizer& normalizer, std::string_view text) {
  Segment segment{std::string(text), true};
  normalizer(segment);
  return segment.text;
}

TEST(NormalForm, KnownTexts) {
  const std::string text = "\u00c5\ufb01e\u0301\uac01\u1e9b\u0323";
  EXPECT_EQ(normal_form(text, Form::nfc), "\u00c5\ufb01\u00e9\uac01\u1e9b\u0323");
  EXPECT_EQ(normal_form(text, Form::nfd), "A\u030a\ufb01e\u0301\u1100\u1161\u11a8\u017f\u0323\u0307");
  EXPECT_EQ(normal_form(text, Form::nfkc), "\u00c5fi\u00e9\uac01\u1e69");
  EXPECT_EQ(normal_form(text, Form::nfkd), "A\u030afie\u0301\u1100\u1161\u11a8s\u0323\u0307");
  EXPECT_EQ(normal_form("", Form::nfc), "");
  EXPECT_EQ(normal_form("plain", Form::nfkd), "plain");
}

TEST(NormalForm, OrdersMarksAndComposesAcrossThem) {
  EXPECT_EQ(normal_form("a\u0315\u0300\u05ae\u0062", Form::nfd), "a\u05ae\u0300\u0315b");
  EXPECT_EQ(normal_form("e\u0327\u0301", Form::nfc), "\u0229\u0301");
  EXPECT_EQ(normal_form("e\u0301\u0327", Form::nfc), "\u0229\u0301");
  EXPECT_EQ(normal_form("abe\u0301", Form::nfc), "ab\u00e9");  // the last ASCII character takes segment
}

TEST(NormalForm, KeepsBrokenBytes) {
  EXPECT_EQ(normal_form("\xff"
                        "e\u0301\xc3",
                        Form::nfc),
            "\xff\u00e9\xc3");
  EXPECT_EQ(normal_form("e\x80\u0301", Form::nfc), "e\x80\u0301");
}

TEST(NormalForm, IsLinearInMarks) {
  std::string marks;
  while (marks.size() < (1u << 20)) marks += "\u0315\u0300\u0327";
  for (const Form form : {Form::nfc, Form::nfd, Form::nfkc, Form::nfkd}) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(normal_form("a" + marks, form).size(),
              form == Form::nfd || form == Form::nfkd ? marks.size() + 1 : marks.size());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 5);
  }
}

TEST(Normalizers, SmallOnes) {
  EXPECT_EQ(normalize(lower_case_normalizer(), "A\u0130\u03a3\u1e9e\xff"), "ai\u0307\u03c3\u00df\xff");
  EXPECT_EQ(normalize(strip_normalizer(true, true), " \u3000 a b\t\n"), "a b");
  EXPECT_EQ(normalize(strip_normalizer(true, false), "  a "), "a ");
  EXPECT_EQ(normalize(strip_normalizer(false, true), "  a "), "  a");
  EXPECT_EQ(normalize(strip_normalizer(true, true), "   "), "");
  EXPECT_EQ(normalize(strip_accents_normalizer(), "e\u0301\u00e9\u0903"), "e\u00e9");
  EXPECT_EQ(normalize(prepend_normalizer("_"), "a"), "_a");
  EXPECT_EQ(normalize(prepend_normalizer("_"), ""), "");
  EXPECT_EQ(normalize(replace_normalizer("aa", "b"), "aaaxaa"), "baxb");
  EXPECT_EQ(normalize(replace_normalizer(Regex("a+"), "<>"), "caab a"), "c<>b <>");
  EXPECT_EQ(normalize(nmt_normalizer(), "a\x01\tb\u200bc\ufffd"), "a b c ");
  EXPECT_EQ(normalize(byte_level_normalizer(), " a\n"), "\u0120a\u010a");
}

TEST(Normalizers, WhatLosesItsBeginningIsNotFirst) {
  for (const auto& [normalizer, text, first] : {std::tuple{strip_normalizer(true, false), " a", false},
                                                {strip_normalizer(true, false), "a ", true},
                                                {nmt_normalizer(), "\x01z", false},
                                                {strip_accents_normalizer(), "a\u0301", true}}) {
    Segment segment{text, true};
    normalizer(segment);
    EXPECT_EQ(segment.first, first) << text;
  }
}

TEST(Normalizers, Bert) {
  const std::string text = "H\u00e9\u0301llo\u4e00\tW\x01\u00a0\u0903!\u0085";
  EXPECT_EQ(normalize(bert_normalizer({}), text), "hello \u4e00  w \u0903!");
  EXPECT_EQ(normalize(bert_normalizer({.gguf = true}), text), "hello \u4e00  w ! ");
  EXPECT_EQ(
      normalize(bert_normalizer({.clean_text = false, .strip_accents = false, .lower_case = false}), "\u00c9\u4e00\t"),
      "\u00c9 \u4e00 \t");
  EXPECT_EQ(normalize(bert_normalizer({.handle_chinese_chars = false, .strip_accents = false}), "\u00c9\u4e00"),
            "\u00e9\u4e00");
}

TEST(Normalizers, SentencePieceSpaces) {
  EXPECT_EQ(normalize(sentence_piece_normalizer({}), " a  b "), "\u2581a\u2581\u2581b\u2581");
  EXPECT_EQ(normalize(sentence_piece_normalizer({.add_space_prefix = true}), "a  b"), "\u2581a\u2581\u2581b");
  EXPECT_EQ(
      normalize(sentence_piece_normalizer({.add_space_prefix = true, .remove_extra_whitespaces = true}), "  a  b "),
      "\u2581a\u2581b");
  EXPECT_EQ(normalize(sentence_piece_normalizer({.remove_extra_whitespaces = true}), "a"), "\u2581a");
  EXPECT_EQ(normalize(sentence_piece_normalizer({}), "\xff"), "\ufffd");
  EXPECT_EQ(normalize(sentence_piece_normalizer({.add_space_prefix = true}), ""), "");
}

TEST(Classes, OddOnes) {
  EXPECT_TRUE(is_punctuation('$') && is_punctuation('~') && is_punctuation(0x3001));
  EXPECT_FALSE(is_punctuation('a') || is_punctuation(0x20ac));
  EXPECT_TRUE(is_word_character('_') && is_word_character(0x301) && is_word_character(0x24b6) &&
              is_word_character(0x200d));
  EXPECT_FALSE(is_word_character('-') || is_word_character(0xb2));
  EXPECT_TRUE(is_number(0xb2) && is_number(0x2160) && is_number('7'));
  EXPECT_TRUE(is_white_space(0x85) && is_white_space(0x3000) && !is_white_space(0x200b));
  EXPECT_TRUE(is_control_or_format(0xad) && is_control_or_format(0xe000) && !is_control_or_format(0x378));
}

// A double-array trie, its nodes 256 units apart: no search for room, so easy to get right.
std::string charsmap(const std::map<std::string, std::string>& entries) {
  std::map<std::string, uint32_t> nodes{{"", 0}};  // prefix -> where its children begin: (number + 1) * 256
  for (const auto& [from, to] : entries)
    for (size_t size = 1; size <= from.size(); ++size)
      nodes.emplace(from.substr(0, size), static_cast<uint32_t>(nodes.size()));
  std::vector<uint32_t> units((nodes.size() + 1) * 256);
  std::string replacements;
  const auto base = [&](const std::string& prefix) { return (nodes.at(prefix) + 1) * 256; };
  units[0] = base("") << 10;
  for (const auto& [prefix, number] : nodes) {
    if (prefix.empty()) continue;
    const auto label = static_cast<uint8_t>(prefix.back());
    const uint32_t place = base(prefix.substr(0, prefix.size() - 1)) ^ label;
    units[place] |= label | (place ^ base(prefix)) << 10;
    const auto entry = entries.find(prefix);
    if (entry == entries.end()) continue;
    units[place] |= 1 << 8;
    units[base(prefix)] = 1u << 31 | static_cast<uint32_t>(replacements.size());
    replacements += entry->second + '\0';
  }
  const uint32_t size = static_cast<uint32_t>(units.size() * 4);
  std::string out(4 + size, '\0');
  std::memcpy(out.data(), &size, 4);
  std::memcpy(out.data() + 4, units.data(), size);
  return out + replacements;
}

TEST(Charsmap, FindsTheShortestAndTheLongest) {
  const Charsmap map(charsmap({{"a", "1"}, {"abc", "3"}, {"\u00e9", ""}}), "x");
  EXPECT_EQ(map.shortest("abcd")->replacement, "1");
  EXPECT_EQ(map.shortest("abcd")->length, 1u);
  EXPECT_EQ(map.longest("abcd")->replacement, "3");
  EXPECT_EQ(map.longest("abcd")->length, 3u);
  EXPECT_EQ(map.longest("abd")->length, 1u);
  EXPECT_EQ(map.longest("\u00e9")->replacement, "");
  EXPECT_FALSE(map.longest("b"));
  EXPECT_FALSE(map.longest(""));
  EXPECT_FALSE(map.shortest("\u00e8"));
}

TEST(Charsmap, Normalizes) {
  const auto map = std::make_shared<const Charsmap>(
      charsmap({{"\ufb01", "fi"}, {"e\u0301", "\u00e9"}, {"\x01", ""}, {"\t", " "}, {"q", "k"}}), "x");
  Segment segment{"\ufb01e\u0301\x01\tq\u0301\u0302 \xff", true};
  charsmap_normalizer(map)(segment);
  EXPECT_EQ(segment.text, "fi\u00e9 k \xff");  // "q" with its marks is 5 bytes: all become what "q" becomes
  segment.text = "\ufb01e\u0301\x01\tq";
  sentence_piece_normalizer({.map = map})(segment);
  EXPECT_EQ(segment.text, "fi\u00e9\u2581k");
}

TEST(Charsmap, RefusesWhatIsNone) {
  const std::string good = charsmap({{"a", "b"}});
  EXPECT_THROW(Charsmap("", "x"), Error);
  EXPECT_THROW(Charsmap("abc", "x"), Error);
  EXPECT_THROW(Charsmap(good.substr(0, 100), "x"), Error);
  EXPECT_THROW(Charsmap(good.substr(0, good.size() - 1), "x"), Error);
  std::string odd = good;
  odd[0] = 3;
  EXPECT_THROW(Charsmap(odd, "x"), Error);
}

// Any units: a walk stays inside, and ends.
TEST(Charsmap, SurvivesAnyTrie) {
  std::string bytes = charsmap({{"a", "b"}});
  uint64_t state = 1;
  for (int round = 0; round < 200; ++round) {
    for (size_t i = 4; i + 2 < bytes.size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bytes[i] = static_cast<char>(state >> 56);
    }
    const Charsmap map(bytes, "x");
    for (int first = 1; first < 256; ++first) {
      const std::string text(1000, static_cast<char>(first));
      map.longest(text);
      map.shortest(text);
    }
  }
}

}  // namespace
}  // namespace heddle::text
