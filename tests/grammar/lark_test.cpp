#include "grammar/lark.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/grammar/random_grammar.h"
#include "tests/support/shorter.h"

namespace heddle::grammar {
namespace {

using test::accepts;
using test::compile;
using test::expect_texts;

std::string lark_error(std::string_view text) { return test::grammar_error(lark, text); }

TEST(Lark, RandomGrammarsHaveTheTextsThatTheyShould) {
  const auto found = test::compare_random_grammars(10'000, 400 / test::shorter, test::all_texts(test::alphabet, 4),
                                                   false, [](auto& random) { return lark(random.lark()); });
  EXPECT_GT(found.grammars, 200u / test::shorter);
}

TEST(Lark, IgnoredTerminalsStandAroundOthers) {
  const auto found =
      test::compare_random_grammars(20'000, 400 / test::shorter, test::all_texts(U"a ", 5), true,
                                    [](auto& random) { return lark(random.lark() + "%ignore \" \"\n"); });
  EXPECT_GT(found.grammars, 200u / test::shorter);
}

TEST(Lark, CalculatorAsPeopleWriteIt) {
  const auto sums = compile(lark(R"x(
    // a calculator
    ?start: sum
          | NAME "=" sum    -> assign_var

    ?sum: product
        | sum "+" product   -> add
        | sum "-" product   -> sub

    ?product: atom
        | product "*" atom  -> mul
        | product "/" atom  -> div

    ?atom: NUMBER           -> number
         | "-" atom         -> neg
         | NAME             -> var
         | "(" sum ")"

    %import common.CNAME -> NAME
    %import common.NUMBER
    %import common.WS_INLINE

    %ignore WS_INLINE
)x"));
  expect_texts(sums, {"1+2", " x = -(1.5 + y_1) * 2e3", "a", "--1", "x=x"}, {"", "1 2", "x y", "1+\n2", "=1", "1.5.2"});
}

TEST(Lark, JsonAsPeopleWriteIt) {
  const auto json = compile(lark(R"(
    ?start: value
    ?value: object | array
          | string
          | SIGNED_NUMBER      -> number
          | "true" | "false" | "null"
    array  : "[" [value ("," value)*] "]"
    object : "{" [pair ("," pair)*] "}"
    pair   : string ":" value
    string : ESCAPED_STRING
    %import common (ESCAPED_STRING, SIGNED_NUMBER, WS)
    %ignore WS
)"));
  expect_texts(json, {"[]", "{ }", R"({"a": [1, -2.5e3, "x\"\u00e9"], "b" : null} )", "\n\ttrue"},
               {"", "[1,]", "{\"a\"}", "tr ue", "\"a\nb\"", "[1 2]"});
}

TEST(Lark, TerminalsOfTerminals) {
  const auto grammar = compile(lark(R"(
start: (WORD | RANGE)+ "!"i~2..3
WORD.2: ("x".."z" | "\u00e9" | DIGIT)+
DIGIT: /[0-9]/
RANGE: "<" WORD [ "-" WORD ] ">"
     | "sel"i /e.T/is
)"));
  expect_texts(grammar, {"x!!", "xyz\u00e97!!!", "<x-9>!!", "<z>SELext!!", "sele\nt!!"},
               {"a!!", "x!", "x!!!!", "<x-!>", "<x - 9>!!", "selet!!"});
  EXPECT_TRUE(accepts(compile(lark("start: /(?P<name>a).[.]/")), "ab."));
  EXPECT_FALSE(accepts(compile(lark("start: /a./")), "a\n"));
  EXPECT_TRUE(accepts(compile(lark("start: /a./")), "a\r"));
}

TEST(Lark, ALazyRepetitionEndsAsSoonAsItCan) {
  const auto comment = compile(lark("start: (COMMENT | \"x\")*\nCOMMENT: \"/*\" ANY \"*/\"\nANY: /.*?/s"));
  EXPECT_TRUE(accepts(comment, "x/* a\n*/x/**/"));
  EXPECT_FALSE(accepts(comment, "/* a */ */"));
  const auto quoted = compile(lark("start: /\".*?\"/ \"a\"?"));
  EXPECT_TRUE(accepts(quoted, "\"bc\"a"));
  EXPECT_FALSE(accepts(quoted, "\"b\"c\""));
}

TEST(Lark, CommonTerminals) {
  struct Case {
    const char *name, *good, *bad;
  };
  for (const Case& c : {Case{"DIGIT", "7", "77"},
                        {"HEXDIGIT", "F", "g"},
                        {"INT", "042", "+1"},
                        {"SIGNED_INT", "-1", "1.0"},
                        {"DECIMAL", "1.", "1"},
                        {"FLOAT", "1e5", "1"},
                        {"SIGNED_FLOAT", "+.5E-3", "+5"},
                        {"NUMBER", "12.5", "-1"},
                        {"SIGNED_NUMBER", "-12", "-"},
                        {"ESCAPED_STRING", "\"a\\\\\"", "\"a\\\""},
                        {"LCASE_LETTER", "q", "Q"},
                        {"UCASE_LETTER", "Q", "q"},
                        {"LETTER", "q", "1"},
                        {"WORD", "abC", "a1"},
                        {"CNAME", "_a1", "1a"},
                        {"WS_INLINE", " \t", "\n"},
                        {"WS", " \n\f", "x"},
                        {"CR", "\r", "\n"},
                        {"LF", "\n", "\r"},
                        {"NEWLINE", "\r\n\n", "\r"},
                        {"SH_COMMENT", "# a", "# a\n"},
                        {"CPP_COMMENT", "// a", "/ a"},
                        {"C_COMMENT", "/* a ** */", "/* */ */"},
                        {"SQL_COMMENT", "-- a", "- a"}}) {
    const auto grammar = compile(lark(fmt::format("%import common.{}\nstart: {}", c.name, c.name)));
    EXPECT_TRUE(accepts(grammar, c.good)) << c.name;
    EXPECT_FALSE(accepts(grammar, c.bad)) << c.name;
  }
}

TEST(Lark, ErrorsNameLineAndColumn) {
  EXPECT_EQ(lark_error(""), "the grammar has no rule start");
  EXPECT_EQ(lark_error("start: a\n"), "line 1, column 8: \"a\" is not defined");
  EXPECT_EQ(lark_error("start: \"a\"\nstart: \"b\""), "line 2, column 1: \"start\" is defined twice");
  EXPECT_EQ(lark_error("start: A\nA: B\nB: A"), "line 1, column 8: terminal \"A\" is made of itself");
  EXPECT_EQ(lark_error("start: A\nA: start"), "line 2, column 4: a terminal cannot be made of the rule \"start\"");
  EXPECT_EQ(lark_error("start: \"a\" start"), "rule start never ends: no finite text is one");
  EXPECT_EQ(lark_error("start{x}: x"), "line 1, column 6: templates cannot be kept");
  EXPECT_EQ(lark_error("start: t{A}"), "line 1, column 9: templates cannot be kept");
  EXPECT_EQ(lark_error("%declare A\nstart: A"),
            "line 1, column 1: %declare cannot be kept; %ignore and %import common.NAME can");
  EXPECT_EQ(lark_error("%import .a.B\nstart: B"), "line 1, column 9: only common can be imported, found \".\"");
  EXPECT_EQ(lark_error("%import common.NONE\nstart: NONE"), "line 1, column 16: common has no \"NONE\"");
  EXPECT_EQ(lark_error("start: /a$/"), "line 1, column 8: anchors and lookahead cannot be kept in a terminal");
  EXPECT_EQ(lark_error("start: /(?=a)b/"), "line 1, column 8: anchors and lookahead cannot be kept in a terminal");
  EXPECT_EQ(lark_error("start: /a/x"),
            "line 1, column 11: the flag x of a regular expression cannot be kept; i, m, s and u can");
  EXPECT_EQ(lark_error("start: /a(/"), "line 1, column 8: a group without ) at byte 2 of the pattern \"a(\"");
  EXPECT_EQ(lark_error("start: \"ab\"..\"c\""), "line 1, column 8: a range is of two single characters");
  EXPECT_EQ(lark_error("start: (\"a\""), "line 1, column 12: expected ), found the end");
  EXPECT_EQ(lark_error("start: \"a\" )"), "line 1, column 12: expected the end of the line, found \")\"");
  EXPECT_EQ(lark_error("start: \"a"), "line 1, column 10: expected \" before the end of the line");
  EXPECT_EQ(lark_error("Start: \"a\""),
            "line 1, column 1: \"Start\" is neither a rule, in lower case, nor a terminal, in upper case");
  EXPECT_EQ(lark_error("start: \"a\"~3..2"), "line 1, column 11: a repetition of at least 3 and at most 2");
  EXPECT_EQ(lark_error("start: \"a\"\n%ignore \n"), "line 2, column 9: expected a terminal, found \"\\n\"");
  EXPECT_EQ(lark_error("start: <[1]>"), "line 1, column 8: tokens and grammars by name cannot be kept");
}

}  // namespace
}  // namespace heddle::grammar
