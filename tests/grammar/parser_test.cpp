#include "grammar/parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"
#include "tests/support/sanitized.h"

namespace heddle::grammar {
namespace {

bool parses(const std::shared_ptr<CompiledGrammar>& grammar, std::string_view text) {
  Position at(grammar);
  return at.take(text) && at.may_end();
}

// Choices of each rule as texts of a, b and of rules as capital letters.
using Rules = std::vector<std::vector<std::string>>;

std::shared_ptr<CompiledGrammar> compiled(const Rules& rules, const ParseLimits& limits = {}) {
  Grammar g;
  std::vector<Symbol> symbols;
  for (size_t i = 0; i < rules.size(); ++i) symbols.push_back(g.rule());
  for (size_t i = 0; i < rules.size(); ++i)
    for (const std::string& choice : rules[i]) {
      std::vector<Symbol> all;
      for (char c : choice)
        all.push_back(c >= 'A' && c <= 'Z' ? symbols[size_t(c - 'A')]
                                           : g.terminal(g.languages.text(std::string(1, c))));
      g.add_choice(symbols[i], all);
    }
  g.set_start(symbols[0]);
  return std::make_shared<CompiledGrammar>(std::move(g), limits);
}

constexpr size_t longest = 4;

// The texts of each rule up to that length, by adding until nothing is new.
std::set<std::string> texts_of(const Rules& rules) {
  std::vector<std::set<std::string>> texts(rules.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t r = 0; r < rules.size(); ++r)
      for (const std::string& choice : rules[r]) {
        std::set<std::string> all{""};
        for (char c : choice) {
          const std::set<std::string> next =
              c >= 'A' && c <= 'Z' ? texts[size_t(c - 'A')] : std::set{std::string(1, c)};
          std::set<std::string> longer;
          for (const std::string& x : all)
            for (const std::string& y : next)
              if (x.size() + y.size() <= longest) longer.insert(x + y);
          all = std::move(longer);
        }
        for (const std::string& text : all) changed = texts[r].insert(text).second || changed;
      }
  }
  return texts[0];
}

// Ambiguous ones, left and right recursion, cycles and rules that are empty among them.
TEST(Parser, TakesTheTextsOfRandomGrammars) {
  std::mt19937 random(5);
  std::vector<std::string> all{""};
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].size() < longest)
      for (char c : {'a', 'b'}) all.push_back(all[i] + c);
  for (int round = 0; round < 3000; ++round) {
    Rules rules(1 + random() % 3);
    std::string text;
    for (auto& rule : rules) {
      for (uint32_t n = 1 + random() % 3; n > 0; --n) {
        std::string choice;
        for (uint32_t k = random() % 4; k > 0; --k)
          choice += random() % 2 ? "ab"[random() % 2] : char('A' + random() % rules.size());
        rule.push_back(choice);
        text += choice + "|";
      }
      text += ";";
    }
    const std::set<std::string> wanted = texts_of(rules);
    const auto grammar = compiled(rules);
    for (const std::string& t : all) ASSERT_EQ(parses(grammar, t), wanted.contains(t)) << text << " " << t;
  }
}

TEST(Parser, TerminalsMayEndOrGoOn) {
  Grammar g;
  Languages& l = g.languages;
  Bytes digits;
  for (char c = '0'; c <= '9'; ++c) digits.set(uint8_t(c));
  const Symbol number = g.terminal(l.repeat(l.bytes(digits), 1)), comma = g.terminal(l.text(",")), list = g.rule();
  g.add_choice(list, {number});
  g.add_choice(list, {list, comma, number});
  g.set_start(list);
  const auto grammar = std::make_shared<CompiledGrammar>(std::move(g));
  EXPECT_TRUE(parses(grammar, "12,3,456"));
  EXPECT_FALSE(parses(grammar, "12,,3") || parses(grammar, "1,") || parses(grammar, ""));
  Position at(grammar);
  EXPECT_EQ(at.next_bytes(), digits);
  EXPECT_TRUE(at.take("12"));
  EXPECT_EQ(at.next_bytes(), Bytes(digits).set(','));
  Position other = at;
  EXPECT_FALSE(at.take(",,"));
  EXPECT_TRUE(at.take(",1") && other.take("3"));
}

TEST(Parser, MemoryOfALongListIsBounded) {
  Grammar g;
  Languages& l = g.languages;
  const Symbol item = g.terminal(l.text("x")), list = g.rule();
  g.add_choice(list, {item});
  g.add_choice(list, {list, item});
  g.set_start(list);
  Position at(std::make_shared<CompiledGrammar>(std::move(g)));
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(at.take('x'));
  EXPECT_TRUE(at.may_end());
}

TEST(Parser, RefusesGrammarsThatAreNone) {
  EXPECT_THROW(CompiledGrammar{Grammar()}, Error);
  Grammar g;
  g.set_start(g.rule());
  EXPECT_THROW(CompiledGrammar{std::move(g)}, Error);
}

// Sets refer to those before them: neither depth nor length may end in recursion, and a list with a largest length
// costs the same at its end as at its beginning.
TEST(Parser, DeepAndLongTexts) {
  Grammar g;
  const Symbol open = g.terminal(g.languages.text("[")), close = g.terminal(g.languages.text("]")), list = g.rule();
  g.add_choice(list, {open, close});
  g.add_choice(list, {open, list, close});
  g.set_start(list);
  const auto nested = std::make_shared<CompiledGrammar>(std::move(g));
  {
    Position at(nested);
    for (int i = 0; i < 200'000; ++i) ASSERT_TRUE(at.take('['));
    Position copy = at;
    for (int i = 0; i < 200'000; ++i) ASSERT_TRUE(copy.take(']'));
    EXPECT_TRUE(copy.may_end() && !at.may_end());
  }
  Grammar counted;
  const Symbol item = counted.terminal(counted.languages.text("a,"));
  Symbol rest = counted.rule();
  counted.add_choice(rest, {});
  for (int i = 0; i < 5000; ++i) {
    const Symbol before = counted.rule();
    counted.add_choice(before, {});
    counted.add_choice(before, {item, rest});
    rest = before;
  }
  const Symbol start = counted.rule();
  counted.add_choice(start, {rest, counted.terminal(counted.languages.text("."))});
  counted.set_start(start);
  Position at(std::make_shared<CompiledGrammar>(std::move(counted)));
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(at.take("a,"));
  EXPECT_FALSE(at.take('a'));
  EXPECT_TRUE(at.take('.') && at.may_end());
}

// The Error when the byte is taken again and again, up to that number of times.
std::string error_of(Position& at, char byte, int times) {
  try {
    for (int i = 0; i < times; ++i) EXPECT_TRUE(at.take(uint8_t(byte))) << i;
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Parser, AmbiguousTextsEndInAnError) {
  const std::pair<Rules, int> all[] = {
      {{{"AA", "a"}}, 300},
      {{{"AA", "AAA", "a", ""}}, 150},
      {{{"AaA", "a"}}, 300},
      {{{"BBBBBBb"}, {"CCCCCC"}, {"DDDDDD", ""}, {"EEEEE", ""}, {"aE", "aB", ""}}, 60},
  };
  // the work grows at least with the square of the length
  const ParseLimits limits{.items = ParseLimits().items / (test::sanitized ? 16 : 1)};
  const int shorter = test::sanitized ? 4 : 1;
  for (const auto& [rules, short_enough] : all) {
    Position at(compiled(rules, limits));
    EXPECT_EQ(error_of(at, 'a', short_enough / shorter), "") << rules[0][0];
    const std::string error = error_of(at, 'a', 2000);
    EXPECT_TRUE(error.starts_with("the grammar is too ambiguous after ")) << rules[0][0] << ": " << error;
    EXPECT_TRUE(error.ends_with(fmt::format(" bytes: more than {} ways to go on", limits.items))) << error;
    EXPECT_EQ(error_of(at, 'a', 1), error);  // as it was
    EXPECT_TRUE(at.can_take('a'));
  }
}

// Each byte has few ways to go on, but all that came before may still be needed.
TEST(Parser, AmbiguousTextsKeepBoundedMemory) {
  Rules rules{{"a"}};
  for (char c = 'a'; c <= 'z'; ++c) rules[0].push_back(std::string("aA") + c);
  const auto grammar = compiled(rules, {.set_bytes = 8u << 20});
  for (int round = 0; round < 2; ++round) {
    Position at(grammar);
    const std::string error = error_of(at, 'a', 3000);
    EXPECT_TRUE(error.ends_with(" bytes: the ways to go on need more than 8 MiB")) << error;
  }
}

// Sets that are not needed any more count no longer: without that, these would be 20 MB.
TEST(Parser, MemoryOfEndedRulesIsFree) {
  Position at(compiled({{"", "AB"}, std::vector<std::string>(400, "ab")}, {.set_bytes = 12u << 20}));
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(at.take("ab"));
  EXPECT_TRUE(at.may_end());
}

TEST(Parser, RepetitionsThatMayEndAnywhereStayBounded) {
  Grammar g;
  const Symbol start = g.rule(), word = g.terminal(g.languages.repeat(g.languages.bytes(Bytes().set('a').set('b')), 1));
  g.add_choice(start, {word});
  g.add_choice(start, {start, word});
  g.set_start(start);
  Position at(std::make_shared<CompiledGrammar>(std::move(g)));
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(at.take("ab"));
  EXPECT_TRUE(at.may_end());
  EXPECT_LE(at.live(), 4u);
}

TEST(Parser, LeavesOutWhatHasNoText) {
  Grammar g;
  const Symbol start = g.rule(), dead = g.rule();
  g.add_choice(dead, {g.terminal(g.languages.text("x")), dead});
  g.add_choice(start, {g.terminal(g.languages.text("a")), dead});
  g.add_choice(start, {g.terminal(g.languages.text("b"))});
  g.set_start(start);
  EXPECT_TRUE(g.has_text(start) && !g.has_text(dead));
  const Position at(std::make_shared<CompiledGrammar>(std::move(g)));
  EXPECT_EQ(at.next_bytes(), Bytes().set('b'));
}

}  // namespace
}  // namespace heddle::grammar
