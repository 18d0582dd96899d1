#include "grammar/gbnf.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/grammar/random_grammar.h"
#include "tests/support/shorter.h"

namespace heddle::grammar {
namespace {

using test::accepts;
using test::compile;
using test::expect_texts;

std::string gbnf_error(std::string_view text) { return test::grammar_error(gbnf, text); }

TEST(Gbnf, RandomGrammarsHaveTheTextsThatTheyShould) {
  const auto found = test::compare_random_grammars(0, 700 / test::shorter, test::all_texts(test::alphabet, 4), false,
                                                   [](auto& random) { return gbnf(random.gbnf()); });
  EXPECT_GT(found.grammars, 450u / test::shorter);
  EXPECT_GT(found.accepted, 2'500u / test::shorter);
}

TEST(Gbnf, ARuleThatNeverEndsIsAnError) {
  EXPECT_EQ(gbnf_error("root ::= \"a\" root"), "rule root never ends: no finite text is one");
  EXPECT_EQ(gbnf_error("root ::= \"a\" | x\nx ::= y\ny ::= x \"b\""), "rule x never ends: no finite text is one");
  EXPECT_EQ(gbnf_error("root ::= \"a\"\nunused ::= unused"), "none");
}

TEST(Gbnf, JsonAsPeopleWriteIt) {
  const auto json = compile(gbnf(R"(# values
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)"));
  expect_texts(json, {R"({})", R"({"a": 1})", R"({"a": [1, -2.5e3, "x\u00e9\n", {"b": null}]})", "{\n  \"a\":true}"},
               {R"([])", R"({"a": 1)", R"({"a" 1})", R"({"a": 01})", "{\"a\": \"\n\"}", R"({"a": 1,})", ""});
}

TEST(Gbnf, ArithmeticWithRecursionToTheLeft) {
  const auto sums =
      compile(gbnf("root ::= sum\n"
                   "sum ::= product | sum [-+] product\n"
                   "product ::= term | product [*/] term\n"
                   "term ::= [0-9]+ | \"(\" sum \")\"\n"));
  expect_texts(sums, {"1", "1+2*3", "(1+2)*(3-4)/5", "((((7))))"}, {"", "+1", "1+", "(1", "1)", "1 + 2"});
}

TEST(Gbnf, ListsAndChess) {
  const auto items = compile(gbnf("root ::= (\"- \" item)+\nitem ::= [^\\n]+ \"\\n\""));
  EXPECT_TRUE(accepts(items, "- one\n- two \u00e9\n"));
  EXPECT_FALSE(accepts(items, "- one\n- \n"));

  const auto chess = compile(gbnf(R"(root ::= (
    # the first
    "1. " move " " move "\n"
    ([1-9] [0-9]? ". " move " " move "\n")+
)
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
)"));
  EXPECT_TRUE(accepts(chess, "1. e4 e5\n2. Nf3 Nc6\n3. O-O dxe8=Q+\n"));
  EXPECT_FALSE(accepts(chess, "1. e4 e5\n"));
  EXPECT_FALSE(accepts(chess, "1. e4 e9\n2. Nf3 Nc6\n"));
}

TEST(Gbnf, EscapesAreCodePoints) {
  const auto escaped = compile(gbnf(R"(root ::= "\x41\u00e9\U0001F600\t\"\\" [\]\[\-^] [^\x00-\x7f] .)"));
  EXPECT_TRUE(accepts(escaped, "A\u00e9\U0001F600\t\"\\]\u00e9x"));
  EXPECT_TRUE(accepts(escaped, "A\u00e9\U0001F600\t\"\\^\u4e2d\n"));
  EXPECT_FALSE(accepts(escaped, "A\u00e9\U0001F600\t\"\\]ax"));
  EXPECT_FALSE(accepts(escaped, "A\u00e9\U0001F600\t\"\\]\xff"));
  EXPECT_TRUE(accepts(compile(gbnf("root ::= [a-]")), "-"));  // a hyphen at the end
}

TEST(Gbnf, NewlinesInsideOfGroupsAndBehindBars) {
  const auto grammar =
      compile(gbnf("root ::= # what follows\n  (\"a\"\n \"b\" # more\n)* |\n  \"c\"\r\n\n\nx-1_Y ::= \"d\"\n"));
  EXPECT_TRUE(accepts(grammar, ""));
  EXPECT_TRUE(accepts(grammar, "abab"));
  EXPECT_TRUE(accepts(grammar, "c"));
  EXPECT_FALSE(accepts(grammar, "d"));
}

TEST(Gbnf, ErrorsNameLineAndColumn) {
  EXPECT_EQ(gbnf_error(""), "the grammar has no rule root");
  EXPECT_EQ(gbnf_error("a ::= \"x\""), "the grammar has no rule root");
  EXPECT_EQ(gbnf_error("root ::= \"\u00e9\" b\n"), "line 1, column 14: rule \"b\" is not defined");
  EXPECT_EQ(gbnf_error("root ::= \"a\"\nroot ::= \"b\""), "line 2, column 1: rule \"root\" is defined twice");
  EXPECT_EQ(gbnf_error("root ::= \"a\"\n  | \"b\""), "line 2, column 3: expected the name of a rule, found \"|\"");
  EXPECT_EQ(gbnf_error("root = \"a\""), "line 1, column 6: expected ::=, found \"=\"");
  EXPECT_EQ(gbnf_error("root ::= (\"a\""), "line 1, column 14: expected ), found the end");
  EXPECT_EQ(gbnf_error("root ::= \"a"), "line 1, column 12: expected \", found the end");
  EXPECT_EQ(gbnf_error("root ::= [a"), "line 1, column 12: expected ], found the end");
  EXPECT_EQ(gbnf_error("root ::= []"), "line 1, column 10: a class without characters");
  EXPECT_EQ(gbnf_error("root ::= [z-a]"), "line 1, column 11: a range that ends before it begins");
  EXPECT_EQ(gbnf_error("root ::= *"), "line 1, column 10: nothing to repeat before \"*\"");
  EXPECT_EQ(gbnf_error("root ::= \"a\"{3,2}"), "line 1, column 13: a repetition of at least 3 and at most 2");
  EXPECT_EQ(gbnf_error("root ::= \"a\"{x}"), "line 1, column 14: expected a number");
  EXPECT_EQ(gbnf_error("root ::= \"\\q\""), "line 1, column 11: an unknown escape");
  EXPECT_EQ(gbnf_error("root ::= \"\\ud800\""), "line 1, column 11: D800 is no code point that UTF-8 can write");
  EXPECT_EQ(gbnf_error("root ::= \"a\" ) "),
            "line 1, column 14: expected a part of a rule or the end of the line, found \")\"");
  for (const char* token : {"<think>", "<[1000]>", "!<[1000]>"})
    EXPECT_EQ(gbnf_error(fmt::format("root ::= {}", token)),
              "line 1, column 10: tokens such as <think> or <[1000]> cannot be kept: write the text of the token in "
              "quotation marks");
  EXPECT_EQ(gbnf_error("root ::= \"\xff\""), "line 1, column 11: no valid UTF-8");
}

TEST(Gbnf, WhatIsHostileIsRefusedOrCheap) {
  const std::string deep(300, '(');
  EXPECT_EQ(gbnf_error("root ::= " + deep), "line 1, column 210: groups more than 200 deep");
  EXPECT_EQ(gbnf_error("root ::= \"a\"{1000001}"), "line 1, column 14: more than a million repetitions");
  EXPECT_EQ(gbnf_error("root ::= \"a\"*****"), "line 1, column 17: more than 4 repetitions of repetitions");
  EXPECT_EQ(gbnf_error("root ::= (\"a\" root?){6000}"),
            "rule root repeats what is not regular 6000 times; at most 5000 can be counted");
  EXPECT_EQ(gbnf_error("root ::= (((\"a\" root?){4000} \"b\"){4000} \"c\"){4000}"), "none");
  EXPECT_EQ(gbnf_error("root ::= a\na ::= ((\"a\"{1000}){1000}){1000}"),
            "rule a has repetitions of repetitions that count to more than 20000");
  // each rule is two of the next
  std::string doubled;
  for (int i = 0; i < 60; ++i)
    doubled += fmt::format("{} ::= r{} r{}\n", i ? fmt::format("r{}", i) : "root", i + 1, i + 1);
  const auto large = compile(gbnf(doubled + "r60 ::= \"a\""));
  Position at(large);
  EXPECT_TRUE(at.take(std::string(300, 'a')));
  EXPECT_FALSE(at.may_end());
  EXPECT_EQ(gbnf_error(std::string(2 << 20, ' ')), "the grammar has 2097152 bytes; at most 1048576 are read");
}

}  // namespace
}  // namespace heddle::grammar
