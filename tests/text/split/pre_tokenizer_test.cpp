#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/refused.h"
#include "tests/text/json/json_fixture.h"
#include "tests/text/small_vocabulary.h"
#include "text/json/tokenizer_json.h"
#include "text/split/splitters.h"

namespace heddle::text {
namespace {

using Strings = std::vector<std::string>;

struct Split {
  Pieces pieces, other;  // texts that splitters have changed may be kept in either

  Split(const std::vector<Splitter>& splitters, std::string_view text) {
    pieces.add(text);
    for (const Splitter& splitter : splitters) {
      other.clear_views();
      for (const std::string_view piece : pieces.views()) splitter(piece, false, other);
      std::swap(pieces, other);
    }
  }
};

Strings split(std::string_view name, std::string_view text) {
  const Split split(splitters(find_pre_tokenizer(name, "m.gguf")), text);
  return {split.pieces.views().begin(), split.pieces.views().end()};
}

constexpr std::string_view sample = "I'M 12345  OK!\n\n  caf\u00e9's x";

TEST(PreTokenizer, Gpt2) {
  EXPECT_EQ(split("gpt-2", sample),
            (Strings{"I", "'", "M", " 12345", " ", " OK", "!", "\n\n ", " caf\u00e9", "'s", " x"}));
}
TEST(PreTokenizer, LlamaBpe) {
  EXPECT_EQ(split("llama-bpe", sample),
            (Strings{"I", "'M", " ", "123", "45", " ", " OK", "!\n\n", " ", " caf\u00e9", "'s", " x"}));
}
TEST(PreTokenizer, Qwen2) {
  EXPECT_EQ(split("qwen2", "a1234 b"), (Strings{"a", "1", "2", "3", "4", " b"}));
  EXPECT_EQ(split("qwen2", "\u0915\u093e"), (Strings{"\u0915", "\u093e"}));
  EXPECT_EQ(split("qwen35", "\u0915\u093e"), (Strings{"\u0915\u093e"})) << "marks belong to words";
}
TEST(PreTokenizer, Gpt4o) {
  EXPECT_EQ(split("gpt-4o", "helloWorld it's HTMLParser //\n\nx"),
            (Strings{"hello", "World", " it's", " HTMLParser", " //\n\n", "x"}));
  EXPECT_EQ(split("tekken", "it's 12"), (Strings{"it", "'s", " ", "1", "2"}));
}
TEST(PreTokenizer, StarCoderSplitsDigitsFirst) {
  EXPECT_EQ(split("starcoder", "ab 12"), (Strings{"ab", " ", "1", "2"}));
}
TEST(PreTokenizer, Falcon) { EXPECT_EQ(split("falcon", "a=12345"), (Strings{"a", "=", "123", "45"})); }
TEST(PreTokenizer, Default) {
  EXPECT_EQ(split("", "ab 12345!"), (Strings{"ab", " ", "123", "45", "!"}));
  EXPECT_EQ(split("default", "ab 12345!"), split("", "ab 12345!"));
}
TEST(PreTokenizer, DeepSeek) {
  EXPECT_EQ(split("deepseek-llm", "ab, 12\n\u4e2d\u6587  "),
            (Strings{"ab", ",", " ", "12", "\n", "\u4e2d\u6587", "  "}));
  EXPECT_EQ(split("deepseek-coder", "ab, 12"), (Strings{"ab", ",", " ", "1", "2"}));
  EXPECT_EQ(split("deepseek-v3", "ab 1234\u4e2d\u6587x!y"),
            (Strings{"ab", " ", "123", "4", "\u4e2d\u6587", "x", "!y"}));
}
TEST(PreTokenizer, Bloom) { EXPECT_EQ(split("bloom", "a b, c"), (Strings{"a", " b", ",", " c"})); }

// Where the pieces end, in characters of the text. `spelled`: the splitters spell bytes as characters.
std::vector<size_t> piece_ends(const std::vector<Splitter>& splitters, std::string_view text, bool spelled = false) {
  const Split split(splitters, text);
  std::vector<size_t> ends;
  size_t characters = 0;
  for (const std::string_view spelling : split.pieces.views()) {
    const std::string piece = spelled ? byte_level_bytes(spelling).value() : std::string(spelling);
    for (size_t at = 0; at < piece.size(); ++characters) at += code_point_at(piece, at).bytes;
    ends.push_back(characters);
  }
  return ends;
}

// By the name that GGUF has for it, and from the steps of tokenizer.json.
TEST(PreTokenizer, SplitsAsTokenizersDoes) {
  const auto json = nlohmann::json::parse(test::fixture_text("splits.json"));
  const auto texts = json["texts"].get<std::vector<std::string>>();
  EXPECT_GE(json["pre_tokenizers"].size(), 22u);
  for (const auto& [name, expected] : json["pre_tokenizers"].items()) {
    SCOPED_TRACE(name);
    const std::vector<Splitter> named = splitters(find_pre_tokenizer(name, "m.gguf"));
    const Json steps = {{"type", "Sequence"}, {"pretokenizers", Json::parse(expected["pre_tokenizer"].dump())}};
    const std::vector<Splitter> read = read_splitters(&steps, "pre_tokenizer").splitters;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto ends = expected["ends"][i].get<std::vector<size_t>>();
      EXPECT_EQ(piece_ends(named, texts[i]), ends) << in_quotes(texts[i], 200);
      EXPECT_EQ(piece_ends(read, texts[i], name == "falcon"), ends)
          << "from tokenizer.json: " << in_quotes(texts[i], 200);
    }
  }
}

TEST(PreTokenizer, EveryPatternCompilesAndKeepsTheText) {
  std::mt19937 random(3);
  std::set<std::string_view> names;
  for (const PreTokenizer& one : pre_tokenizers()) {
    for (const std::string_view name : one.names) EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    const std::vector<Splitter> its = splitters(one);
    for (int i = 0; i < 50; ++i) {
      const std::string text = i % 2 ? test::random_text(random, 60) : test::random_bytes(random, 200);
      const Split split(its, text);
      std::string joined;
      for (const std::string_view piece : split.pieces.views()) joined += piece;
      ASSERT_EQ(joined, text) << one.names[0];
    }
  }
}

TEST(PreTokenizer, AnUnknownNameIsRefusedWithTheKnownOnes) {
  EXPECT_REFUSED(find_pre_tokenizer("llama-9", "m.gguf"), "m.gguf", "\"llama-9\"", "tokenizer.ggml.pre", "default",
                 "llama-bpe", "qwen2");
}

double seconds_to_split(const std::vector<Splitter>& splitters, const std::string& text) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
  };
  const double begin = now();
  const Split split(splitters, text);
  return now() - begin;
}

// How many times as long the larger text takes; the least of three tries. 0 where that is too short to tell.
double growth(const std::vector<Splitter>& splitters, const std::string& small, const std::string& large) {
  double least = std::numeric_limits<double>::infinity();
  for (int tries = 0; tries < 3 && least >= 10; ++tries) {
    const double seconds = seconds_to_split(splitters, large);
    if (seconds < 0.02) return 0;
    least = std::min(least, seconds / seconds_to_split(splitters, small));
  }
  return least;
}

// What makes a backtracking matcher look at the same characters again and again. Four times the text may take ten times
// as long (caches, noise), but not sixteen. Once it may, where a match needs more stack than compiled patterns have and
// PCRE2's interpreter does the rest, which is slower: then four times more may not.
TEST(PreTokenizer, HostileTextTakesLinearTimeSlow) {
  const auto hostile = [](size_t size) {
    std::vector<std::string> out;
    for (const std::string_view unit : {"a", "A", " ", "\n", "\u0301", "7", "'", " \n", "aA", "A\u4e2d", "\u4e2d", "'s",
                                        "!'", "\x01", "a\xff", "\u0001a", "1a", "\r\n", "/"})
      out.push_back(test::repeated(unit, size));
    out.push_back(test::repeated(" ", size) + "a");
    out.push_back("\n" + test::repeated("\t", size) + "a");
    out.push_back(test::repeated("\u00a0", size) + "a");
    out.push_back(test::repeated(test::repeated(" ", 1000) + "a", size));
    return out;
  };
  const std::vector<std::string> small = hostile(64 << 10), large = hostile(256 << 10), largest = hostile(1 << 20);
  for (const PreTokenizer& one : pre_tokenizers()) {
    const std::vector<Splitter> its = splitters(one);
    for (size_t i = 0; i < small.size(); ++i) {
      if (growth(its, small[i], large[i]) < 10) continue;
      EXPECT_LT(growth(its, large[i], largest[i]), 10) << one.names[0] << " on " << in_quotes(small[i], 10);
    }
  }
}

}  // namespace
}  // namespace heddle::text
