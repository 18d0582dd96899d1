#include "grammar/language.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"

namespace heddle::grammar {
namespace {

// Every text of a, b and c up to four letters.
std::vector<std::string> short_texts() {
  std::vector<std::string> all{""};
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].size() < 4)
      for (char c : {'a', 'b', 'c'}) all.push_back(all[i] + c);
  return all;
}

// A random language, and the texts of it, found without derivatives.
struct Sample {
  Language language;
  std::set<std::string> texts;
};

class Random {
 public:
  explicit Random(Languages& all) : all_(all) {}

  Sample make(std::mt19937& random, int depth) {
    switch (depth == 0 ? random() % 3 : random() % 9) {
      case 0: {
        Bytes set;
        std::set<std::string> texts;
        for (char c : {'a', 'b', 'c'})
          if (random() % 2) {
            set.set(uint8_t(c));
            texts.insert(std::string(1, c));
          }
        return {all_.bytes(set), texts};
      }
      case 1: {
        const std::string text(random() % 3, "abc"[random() % 3]);
        return {all_.text(text), {text}};
      }
      case 2:
        return random() % 2 ? Sample{Languages::empty, {""}} : Sample{Languages::nothing, {}};
      case 3:
      case 4: {
        const Sample a = make(random, depth - 1), b = make(random, depth - 1);
        return {all_.sequence(a.language, b.language), joined(a.texts, b.texts)};
      }
      case 5: {
        const Sample a = make(random, depth - 1), b = make(random, depth - 1);
        std::set<std::string> texts = a.texts;
        texts.insert(b.texts.begin(), b.texts.end());
        return {all_.any_of({a.language, b.language}), texts};
      }
      case 6: {
        const Sample a = make(random, depth - 1), b = make(random, depth - 1);
        std::set<std::string> texts;
        for (const std::string& t : a.texts)
          if (b.texts.contains(t)) texts.insert(t);
        return {all_.all_of({a.language, b.language}), texts};
      }
      case 7: {
        const Sample a = make(random, depth - 1);
        std::set<std::string> texts;
        for (const std::string& t : short_texts())
          if (!a.texts.contains(t)) texts.insert(t);
        return {all_.without(a.language), texts};
      }
      default: {
        const Sample a = make(random, depth - 1);
        const uint32_t least = random() % 3, most = random() % 3 ? least + random() % 3 : Languages::unbounded;
        std::set<std::string> texts, so_far{""};
        for (uint32_t n = 0; n <= (most == Languages::unbounded ? least + 5 : most); ++n) {
          if (n >= least) texts.insert(so_far.begin(), so_far.end());
          so_far = joined(so_far, a.texts);
        }
        return {all_.repeat(a.language, least, most), texts};
      }
    }
  }

 private:
  static std::set<std::string> joined(const std::set<std::string>& a, const std::set<std::string>& b) {
    std::set<std::string> texts;
    for (const std::string& x : a)
      for (const std::string& y : b)
        if (x.size() + y.size() <= 4) texts.insert(x + y);
    return texts;
  }
  Languages& all_;
};

TEST(Languages, RandomOnesHaveTheTextsOfTheirDefinition) {
  std::mt19937 random(7);
  const std::vector<std::string> texts = short_texts();
  for (int round = 0; round < 3000; ++round) {
    Languages all;
    const Sample sample = Random(all).make(random, 4);
    for (const std::string& text : texts)
      ASSERT_EQ(all.contains(sample.language, text), sample.texts.contains(text)) << "round " << round << " " << text;
    ASSERT_TRUE(sample.texts.empty() || !all.is_nothing(sample.language)) << round;
  }
}

TEST(Languages, EqualOnesHaveOneNumber) {
  Languages all;
  const Language a = all.text("a"), b = all.text("b"), ab = all.bytes(Bytes().set('a').set('b'));
  EXPECT_EQ(all.any_of({a, b}), ab);
  EXPECT_EQ(all.any_of({b, Languages::nothing, a, a}), ab);
  EXPECT_EQ(all.all_of({ab, a}), a);
  EXPECT_EQ(all.all_of({a, b}), Languages::nothing);
  EXPECT_EQ(all.without(all.without(a)), a);
  EXPECT_EQ(all.sequence(all.sequence(a, b), a), all.text("aba"));
  EXPECT_EQ(all.repeat(all.repeat(a, 0), 0), all.repeat(a, 0));
  EXPECT_EQ(all.any_of({Languages::empty, all.repeat(a, 0)}), all.repeat(a, 0));
}

TEST(Languages, CountedRepetitionHasAStateForEachRest) {
  Languages all;
  const Language digits = all.repeat(all.bytes(Bytes().set('0').set('1')), 2, 1000);
  EXPECT_FALSE(all.contains(digits, "0"));
  EXPECT_TRUE(all.contains(digits, std::string(1000, '1')));
  EXPECT_FALSE(all.contains(digits, std::string(1001, '1')));
  EXPECT_LT(all.size(), 3100u);
}

TEST(Languages, NothingIsFoundByLooking) {
  Languages all;
  const Language a = all.text("a"), many = all.repeat(a, 0);
  EXPECT_TRUE(all.is_nothing(all.all_of({all.sequence(many, all.text("b")), many})));
  EXPECT_TRUE(
      all.is_nothing(all.all_of({all.repeat(all.text("aa"), 1), all.sequence(all.repeat(all.text("aa"), 0), a)})));
  EXPECT_FALSE(all.is_nothing(all.all_of({all.repeat(all.text("aa"), 1), all.repeat(all.text("aaa"), 1)})));
  EXPECT_TRUE(all.is_nothing(Languages::nothing));
  const Language far = all.repeat(all.text("a"), 5000, 5000);
  EXPECT_THROW(all.is_nothing(all.all_of({far, all.repeat(all.text("b"), 0), all.without(a)}), 0), Error);
}

TEST(Languages, BytesThatLeadToTheSameAreOneKind) {
  Languages all;
  Bytes letters;
  for (char c = 'a'; c <= 'z'; ++c) letters.set(uint8_t(c));
  const Language word = all.sequence(all.repeat(all.bytes(letters), 1), all.text("!"));
  EXPECT_EQ(all.kinds(word).size(), 2u);
  EXPECT_EQ(all.kinds(all.after(word, "ab")).size(), 3u);
}

TEST(Languages, StepsAndBytesAreLimited) {
  Languages l;
  const Language letter = l.any_of({l.text("a"), l.text("b")});
  const Language all = l.sequence(std::vector{l.repeat(letter, 0), l.text("a"), l.repeat(letter, 30, 30)});
  std::string text;
  for (uint32_t i = 0; i < 1000; ++i) text += "ab"[i * i / 7 % 2];
  {
    const Languages::StepLimit limit(l, 500);
    EXPECT_THROW(l.after(all, text), Error);
    EXPECT_EQ(l.after(all, "aaa"), l.after(all, "aaa"));  // known by now
  }
  EXPECT_NE(l.after(all, text), Languages::nothing);
  l.allow_bytes(l.bytes() + 10'000);
  const size_t before = l.bytes();
  const Language more = l.repeat(all, 2, 9);
  EXPECT_THROW(l.after(more, text), Error);
  EXPECT_LE(l.bytes(), before + 10'000);
  EXPECT_NE(l.after(all, text), Languages::nothing);  // what is there stays
}

}  // namespace
}  // namespace heddle::grammar
