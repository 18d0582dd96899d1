// The program by its words: what is printed where, and the exit status.
#include "main/command_line.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/version.h"

namespace heddle {
namespace {

struct Result {
  int status;
  std::string out, err;
};
Result heddle(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const int status = run_command_line(arguments, out, err);
  return {status, out.str(), err.str()};
}

TEST(CommandLine, SaysItsVersion) {
  const Result result = heddle({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, std::string("heddle ") + version + "\n");
}

TEST(CommandLine, AloneItShowsWhatItCanDo) {
  const Result alone = heddle({}), help = heddle({"--help"});
  EXPECT_EQ(alone.status, 0);
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(alone.out, help.out);
  for (const char* part : {"--version", "ptx", "heddle ptx check", "Examples"})
    EXPECT_NE(help.out.find(part), std::string::npos) << part << "\n" << help.out;
}

TEST(CommandLine, EachCommandHasHelp) {
  EXPECT_EQ(heddle({"ptx"}).out, heddle({"ptx", "--help"}).out);
  for (const char* command : {"list", "show", "check"}) {
    const Result result = heddle({"ptx", command, "--help"});
    EXPECT_EQ(result.status, 0) << command;
    EXPECT_NE(result.out.find(std::string("Usage: heddle ptx ") + command), std::string::npos) << result.out;
  }
}

TEST(CommandLine, WhatIsNotUnderstoodIsNamed) {
  const std::vector<std::vector<std::string>> wrong{{"fly"}, {"--fly"}, {"ptx", "fly"}, {"ptx", "list", "--fly"}};
  for (const std::vector<std::string>& arguments : wrong) {
    const Result result = heddle(arguments);
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("fly"), std::string::npos) << result.err;
  }
}

TEST(CommandLine, AMissingWordIsNamed) {
  const Result show = heddle({"ptx", "show"});
  EXPECT_EQ(show.status, 2);
  EXPECT_NE(show.err.find("name"), std::string::npos) << show.err;
}

TEST(CommandLine, ARefusalHasAReasonAndNoOutput) {
  const Result result = heddle({"ptx", "show", "no_such_kernel"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err.find("heddle: no kernel is called no_such_kernel; there are "), 0u) << result.err;
}

TEST(CommandLine, AnOptionTakesOneWord) {
  // the kernel's name is not a second --set
  const Result result = heddle({"ptx", "show", "--set", "a=1", "--set", "b=2", "no_such_kernel"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("no kernel is called no_such_kernel"), std::string::npos) << result.err;
}

TEST(CommandLine, ListsTheKernels) {
  const Result result = heddle({"ptx", "list"});
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.out.find("sm_75+"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace heddle
