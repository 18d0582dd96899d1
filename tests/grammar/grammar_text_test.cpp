#include "grammar/grammar_text.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/grammar/random_grammar.h"

namespace heddle::grammar {
namespace {

TEST(GrammarText, IsGbnfIfItDefinesRulesSo) {
  EXPECT_TRUE(test::accepts(test::compile(grammar_text("root ::= \"a\"")), "a"));
  EXPECT_TRUE(test::accepts(test::compile(grammar_text("start: \"a\"")), "a"));
  EXPECT_THROW(grammar_text(""), Error);
}

}  // namespace
}  // namespace heddle::grammar
