#include "grammar/constraint.h"

#include <gtest/gtest.h>

#include <optional>

#include "grammar/pattern.h"

namespace heddle::grammar {
namespace {

TEST(Constraint, EndsWhereTheTextMayEnd) {
  Grammar g;
  const Symbol start = g.rule();
  g.add_choice(start, {g.terminal(whole_pattern(g.languages, "ab?", Writing::utf8))});
  g.set_start(start);
  const auto vocabulary = std::make_shared<Vocabulary>(std::vector<std::string>{"a", "b", "ab", "", "c"});
  const auto masks = std::make_shared<TokenMasks>(std::make_shared<CompiledGrammar>(std::move(g)), vocabulary);
  const uint32_t end = 3;

  Constraint at(masks, {end});
  auto allowed = [](const Constraint& c) { return c.mask().bits()[0]; };
  EXPECT_EQ(allowed(at), 0b00101u);
  EXPECT_FALSE(at.take(end));
  EXPECT_FALSE(at.take(4));
  EXPECT_FALSE(at.take(5));
  EXPECT_TRUE(at.take(0));
  EXPECT_EQ(allowed(at), 0b01010u);
  const Constraint back = at;
  EXPECT_TRUE(at.take(1));
  EXPECT_TRUE(at.must_end());
  EXPECT_EQ(allowed(at), 0b01000u);
  EXPECT_TRUE(at.take(end));
  EXPECT_EQ(allowed(at), 0u);
  EXPECT_FALSE(at.take(end));
  EXPECT_EQ(allowed(back), 0b01010u);
}

// Which single token is forced, or none.
std::optional<uint32_t> only(const Constraint& at) {
  const TokenMask mask = at.mask();
  if (mask.count() != 1) return std::nullopt;
  for (uint32_t token = 0;; ++token)
    if (mask[token]) return token;
}

TEST(Constraint, ABudgetForcesTheEndOfAThought) {
  Grammar g;
  const Symbol start = g.rule();
  g.add_choice(start, {g.terminal(whole_pattern(g.languages, "[ab<>/\\n]+", Writing::utf8))});
  g.set_start(start);
  // the mark is "</>", written by two tokens; "<a>" begins a thought
  const auto vocabulary =
      std::make_shared<Vocabulary>(std::vector<std::string>{"a", "b", "<", "/>", ">", "<a", "\n", ""});
  const auto masks = std::make_shared<TokenMasks>(std::make_shared<CompiledGrammar>(std::move(g)), vocabulary);
  const uint32_t end = 7;
  const auto with = [&](uint32_t tokens, std::string begin) {
    return Constraint(masks, {end},
                      std::make_shared<ThoughtBudget>(ThoughtBudget{tokens, std::move(begin), "</>", "\n</>\n"}));
  };
  const auto take_all = [](Constraint& at, std::initializer_list<uint32_t> tokens) {
    for (const uint32_t token : tokens)
      if (!at.take(token)) return false;
    return true;
  };

  Constraint inside = with(2, "");
  ASSERT_TRUE(take_all(inside, {0, 0}));
  EXPECT_EQ(only(inside), 6u);
  EXPECT_FALSE(inside.take(0));
  EXPECT_FALSE(inside.take(end));
  const Constraint back = inside;
  ASSERT_TRUE(take_all(inside, {6, 2, 3}));
  EXPECT_EQ(only(inside), 6u);
  ASSERT_TRUE(take_all(inside, {6, 0, 0, 0}));
  EXPECT_EQ(only(inside), std::nullopt);
  EXPECT_EQ(only(back), 6u);

  Constraint begun = with(2, "");  // the mark has begun when the budget is used up: its rest follows
  ASSERT_TRUE(take_all(begun, {0, 2}));
  EXPECT_EQ(only(begun), 3u);
  ASSERT_TRUE(take_all(begun, {3, 0, 0}));

  Constraint ends = with(3, "");  // a thought that ends by itself is followed by anything
  EXPECT_TRUE(take_all(ends, {2, 3, 0, 0, 0, 0}));
  EXPECT_EQ(only(with(0, "")), 6u);

  Constraint opens = with(1, "<a>");
  ASSERT_TRUE(take_all(opens, {5, 4}));
  EXPECT_EQ(only(opens), 6u);
  Constraint answers = with(1, "<a>");
  EXPECT_TRUE(take_all(answers, {0, 5, 4, 0, 0}));
}

}  // namespace
}  // namespace heddle::grammar
