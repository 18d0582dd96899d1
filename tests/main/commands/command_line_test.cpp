// The program by its words: what is printed where, and the exit status.
#include "main/commands/command_line.h"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

#include "base/error.h"
#include "base/version.h"
#include "kernels/spec/catalog.h"
#include "tests/main/heddle_command.h"

namespace heddle {
namespace {

using test::heddle;
using test::Result;

TEST(CommandLine, SaysItsVersion) {
  const Result result = heddle({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, std::string("heddle ") + version + "\n");
}

// The output throws as an allocation would.
template <class Exception>
struct Throwing : std::streambuf {
  int_type overflow(int_type) override {
    if constexpr (std::is_same_v<Exception, std::bad_alloc>)
      throw std::bad_alloc();
    else
      throw Exception("vector::reserve");
  }
};
template <class Exception>
std::string error_line() {
  Throwing<Exception> buffer;
  std::ostream out(&buffer);
  out.exceptions(std::ios::badbit);
  std::istringstream in;
  std::ostringstream err;
  EXPECT_EQ(run_command_line({"ptx", "list"}, in, out, err), 1);
  return err.str();
}

TEST(CommandLine, TooLittleMemoryIsNoBug) {
  EXPECT_EQ(error_line<std::bad_alloc>(), "heddle: out of memory: the system has none left for this program\n");
  EXPECT_EQ(error_line<std::length_error>(), "heddle: out of memory: vector::reserve\n");
  EXPECT_EQ(error_line<std::logic_error>(), "heddle: this is a bug: vector::reserve\n");
}

TEST(CommandLine, HelpShowsWhatItCanDo) {
  const Result help = heddle({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* part : {"--version", "ptx", "heddle ptx list", "Examples", "heddle devices", "selftest",
                           "heddle chat", "heddle bench MODEL", "bench kernels", "The GPUs", "heddle plan", "weft"})
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

TEST(CommandLine, EachCommandForGpusHasHelpWithItsOptions) {
  const Result bench = heddle({"bench", "--help"});
  EXPECT_EQ(bench.status, 0);
  EXPECT_NE(bench.out.find("kernels"), std::string::npos) << bench.out;
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> options{
      {{"devices"}, {}},
      {{"selftest"}, {"kernels", "--device", "--sweep", "quick, normal or full", "--seed", "--threads"}},
      {{"bench", "kernels"}, {"kernels", "--device", "--shape", "--json"}}};
  for (const auto& [command, parts] : options) {
    std::vector<std::string> arguments = command;
    arguments.push_back("--help");
    const Result result = heddle(arguments);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_NE(result.out.find(fmt::format("Usage: heddle {} ", fmt::join(command, " "))), std::string::npos)
        << result.out;
    for (const std::string& part : parts) EXPECT_NE(result.out.find(part), std::string::npos) << part << result.out;
  }
}

TEST(CommandLine, WhatIsNotUnderstoodIsNamed) {
  const std::vector<std::vector<std::string>> wrong{{"fly"},
                                                    {"--fly"},
                                                    {"ptx", "fly"},
                                                    {"bench", "--fly"},
                                                    {"devices", "fly"},
                                                    {"ptx", "list", "--fly"},
                                                    {"selftest", "--fly"},
                                                    {"selftest", "--seed", "fly"},
                                                    {"bench", "kernels", "--device", "fly"}};
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
  for (const kernels::Entry& entry : kernels::catalog()) {
    const size_t at = ("\n" + result.out).find("\n" + entry.name + " ");
    ASSERT_NE(at, std::string::npos) << entry.name;
    // the line below is its own
    const size_t below = result.out.find('\n', at) + 1;
    const std::string fields = result.out.substr(below, result.out.find('\n', below) - below);
    EXPECT_EQ(fields.find("preset of " + entry.spec + ":") != std::string::npos, entry.spec != entry.name) << fields;
    EXPECT_NE(fields.find(" " + entry.fields.at(0).first + "="), std::string::npos) << fields;
  }
}

}  // namespace
}  // namespace heddle
