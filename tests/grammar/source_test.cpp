#include "grammar/source.h"

#include <gtest/gtest.h>

#include "grammar/parser.h"
#include "tests/support/refused.h"

namespace heddle::grammar {
namespace {

using Kind = Source::Kind;

bool accepts(const Source& source, std::string_view text) {
  Position at(std::make_shared<CompiledGrammar>(read(source)));
  return at.take(text) && at.may_end();
}

TEST(Source, EveryKind) {
  EXPECT_TRUE(accepts({Kind::json_schema, R"({"type":"integer"})"}, "12"));
  EXPECT_FALSE(accepts({Kind::json_schema, R"({"type":"integer"})"}, "a"));
  const std::string ordered =
      R"({"properties":{"z":{"const":1},"a":{"const":2}},"required":["z","a"],"additionalProperties":false})";
  EXPECT_TRUE(accepts({Kind::json_schema, ordered}, R"({"z":1,"a":2})"));
  EXPECT_TRUE(accepts({Kind::regex, "[ab]+"}, "abba"));
  EXPECT_FALSE(accepts({Kind::regex, "[ab]+"}, "abc"));
  EXPECT_TRUE(accepts({Kind::choices, R"(["yes","no"])"}, "no"));
  EXPECT_FALSE(accepts({Kind::choices, R"(["yes","no"])"}, "nono"));
  EXPECT_TRUE(accepts({Kind::gbnf, "root ::= \"a\" root | \"b\""}, "aab"));
  EXPECT_TRUE(accepts({Kind::lark, "start: \"a\" start | \"b\""}, "aab"));
  EXPECT_TRUE(accepts({Kind::gbnf_or_lark, "root ::= \"a\""}, "a"));
  EXPECT_TRUE(accepts({Kind::gbnf_or_lark, "start: \"a\""}, "a"));
}

TEST(Source, SaysWhereItIsWrong) {
  EXPECT_REFUSED(read({Kind::json_schema, "{"}), "#");
  EXPECT_REFUSED(read({Kind::json_schema, R"({"type":"integer","type":"string"})"}), "#", "type");
  EXPECT_REFUSED(read({Kind::json_schema, R"({"items":{"type":"x"}})"}), "#/items/type: ");
  EXPECT_REFUSED(read({Kind::regex, "(a"}), "(");
  EXPECT_REFUSED(read({Kind::choices, "[]"}), "");
  EXPECT_REFUSED(read({Kind::gbnf, "root ::= x"}), "line 1, column 10");
  EXPECT_REFUSED(read({Kind::lark, "start: x"}), "line 1");
  EXPECT_REFUSED(read({Kind::structural_tag, "{}"}), "#");
}

}  // namespace
}  // namespace heddle::grammar
