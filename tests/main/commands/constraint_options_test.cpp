// run and chat with what the answer must be.
#include "main/commands/constraint_options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/main/heddle_command.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

struct ConstraintOptionsTest : testing::Test {
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder.file(name)) << text;
    return folder.file(name);
  }
  static Result run(std::vector<std::string> options, const std::string& command = "run") {
    std::vector<std::string> arguments{command, "weft", "--device", "cpu", "--seed", "4", "--temp", "1"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return heddle(arguments, "Once upon a time");
  }

  Folder folder;
};

TEST_F(ConstraintOptionsTest, KeepTheAnswerInForm) {
  const std::string schema = file("s.json", R"({"type":"array","items":{"enum":["b","a"]},"minItems":2,"maxItems":2})");
  const Result json = run({"--schema", schema});
  EXPECT_EQ(json.status, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out).size(), 2u) << json.out;
  EXPECT_NE(json.err.find("(the text is complete)"), std::string::npos) << json.err;

  const Result choice = run({"--choice", "yes,no, but"});
  EXPECT_TRUE(choice.out == "yes\n" || choice.out == "no\n" || choice.out == " but\n") << choice.out;
  EXPECT_EQ(run({"--regex", "a{3}-[0-9]{0}b"}).out, "aaa-b\n");
  for (const char* name : {"g.gbnf", "g"})
    EXPECT_EQ(run({"--grammar", file(name, "root ::= \"x\" \"y\"")}).out, "xy\n");
  for (const char* name : {"g.lark", "h"}) EXPECT_EQ(run({"--grammar", file(name, "start: \"x\" \"y\"")}).out, "xy\n");
  const Result cut = run({"--regex", "a{30}", "-n", "2"});
  EXPECT_NE(cut.err.find("(as many as asked for)"), std::string::npos) << cut.err;
}

TEST_F(ConstraintOptionsTest, InAChat) {
  std::istringstream in("Hello\n/continue\n/set choice no\nHello\n/set choice\n/set regex (\n");
  std::ostringstream out, err;
  run_command_line({"chat", "weft", "--device", "cpu", "--choice", "yes"}, in, out, err);
  EXPECT_EQ(out.str(), "yes\nno\n");
  expect_says(err.str(), {"cannot be continued", "--regex: "});
}

TEST_F(ConstraintOptionsTest, RefusedWithTheirPlace) {
  const auto refused = [&](const std::vector<std::string>& options) {
    const Result result = run(options);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err.find("device:"), std::string::npos) << "the model was loaded before";
    return result.err;
  };
  const std::string bad = file("bad.json", R"({"properties":{"a":{"type":"nothing"}}})");
  expect_says(refused({"--schema", bad}), {bad + "#/properties/a/type: "});
  expect_says(refused({"--schema", file("no.json", "{")}), {"no.json#"});
  const std::string grammar = file("bad.gbnf", "root ::= x");
  expect_says(refused({"--grammar", grammar}), {grammar + ": line 1, column 10: "});
  expect_says(refused({"--grammar", folder.file("absent")}), {"absent"});
  expect_says(refused({"--regex", "("}), {"--regex: "});
  expect_says(refused({"--regex", "a{0}"}), {"--regex: ", "empty"});
  expect_says(refused({"--regex", "a", "--choice", "b"}), {"--regex: expected one constraint, found --choice as well"});
}

}  // namespace
}  // namespace heddle::test
