// heddle grammar check.
#include <gtest/gtest.h>

#include "tests/main/heddle_command.h"
#include "tests/support/folder.h"

namespace heddle::test {
namespace {

struct GrammarCommand : testing::Test {
  Folder folder;
  std::string file(std::string_view name, std::string_view text) const { return folder.write(name, text); }
  static std::string error(const Result& result) {
    EXPECT_EQ(result.status, 1) << result.out;
    return result.err;
  }
};

TEST_F(GrammarCommand, SaysThatAGrammarCanBeKept) {
  const std::string schema = file("a.json", R"({"type": "object", "properties": {"a": {"type": "integer"}}})");
  const Result result = heddle({"grammar", "check", schema});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with(schema + ": JSON Schema, can be kept (")) << result.out;
  const auto name_of = [&](const std::string& path, const std::string& option = "") {
    std::vector<std::string> words{"grammar", "check", path};
    if (!option.empty()) words.push_back(option);
    const Result found = heddle(words);
    EXPECT_EQ(found.status, 0) << found.err;
    return found.out.substr(0, found.out.find(", can")).substr(path.size() + 2);
  };
  EXPECT_EQ(name_of(file("a.gbnf", "root ::= \"a\"\n")), "GBNF");
  EXPECT_EQ(name_of(file("a.lark", "start: \"a\"\n")), "Lark");
  EXPECT_EQ(name_of(file("a.regex", "a+\n")), "regular expression");
  EXPECT_EQ(name_of(file("a.choices", "yes\r\nno\n")), "choices");
  EXPECT_EQ(name_of(file("b.json", R"({"type": "structural_tag", "format": {"type": "any_text"}})")),
            "structural tags");
  EXPECT_EQ(name_of(file("a.txt", "root ::= \"a\"\n"), "--gbnf"), "GBNF");
  EXPECT_EQ(name_of(file("c.json", "a+"), "--regex"), "regular expression");
}

TEST_F(GrammarCommand, SaysWhyNot) {
  const std::string schema = file("a.json", R"({"properties": {"a": {"type": 5}}})");
  EXPECT_NE(error(heddle({"grammar", "check", schema})).find(schema + ": #/properties/a/type: "), std::string::npos);
  const std::string gbnf = file("a.gbnf", "root ::= x\n");
  EXPECT_EQ(error(heddle({"grammar", "check", gbnf})),
            "heddle: " + gbnf + ": line 1, column 10: rule \"x\" is not defined\n");
  EXPECT_NE(error(heddle({"grammar", "check", file("b.json", "{")})).find("b.json: "), std::string::npos);
  const std::string other = file("a.txt", "a");
  EXPECT_EQ(
      error(heddle({"grammar", "check", other})),
      "heddle: " + other +
          ": expected .json, .tags, .gbnf, .lark, .regex or .choices at the end of the name, or an option such as "
          "--gbnf\n");
  EXPECT_EQ(error(heddle({"grammar", "check", file("c.json", "false")})).find("the text"), std::string::npos);
  EXPECT_EQ(heddle({"grammar", "check", other, "--gbnf", "--lark"}).status, 2);
  EXPECT_EQ(heddle({"grammar", "check"}).status, 2);
}

TEST_F(GrammarCommand, SaysWhetherATextIsAccepted) {
  const std::string path = file("a.gbnf", "root ::= \"a\\n\" [bc] \"d\"?");
  EXPECT_EQ(heddle({"grammar", "check", path, "--text", "a\nb"}).out, "the text is accepted\n");
  EXPECT_EQ(heddle({"grammar", "check", path, "--text-file", "-"}, "a\ncd").out, "the text is accepted\n");
  EXPECT_EQ(heddle({"grammar", "check", path, "--text-file", file("text", "a\nb")}).out, "the text is accepted\n");
  EXPECT_EQ(error(heddle({"grammar", "check", path, "--text", "a\nx"})),
            "heddle: the text is not accepted at byte 2 (line 2, column 1): found \"x\", expected \"b\", \"c\"\n");
  EXPECT_EQ(error(heddle({"grammar", "check", path, "--text", "a\nbe"})),
            "heddle: the text is not accepted at byte 3 (line 2, column 2): found \"e\", expected \"d\", the end\n");
  EXPECT_EQ(error(heddle({"grammar", "check", path, "--text", ""})),
            "heddle: the text is not complete: expected \"a\" at its end\n");
  EXPECT_EQ(heddle({"grammar", "check", "-", "--regex", "--text", "aa"}, "a+\n").out, "the text is accepted\n");
}

}  // namespace
}  // namespace heddle::test
