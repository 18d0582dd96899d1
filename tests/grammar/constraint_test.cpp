#include "grammar/constraint.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace heddle::grammar
