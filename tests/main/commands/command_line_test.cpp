// The command line: what is printed where, and the exit status.
#include "main/commands/command_line.h"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

#include "base/error.h"
#include "base/version.h"
#include "kernels/spec/catalog.h"
#include "tests/main/heddle_command.h"
#include "tests/support/folder.h"

namespace heddle {
namespace {

using test::heddle;
using test::Result;

TEST(CommandLine, SaysItsVersion) {
  for (const char* asked : {"--version", "-V", "version"}) {
    const Result result = heddle({asked});
    EXPECT_EQ(result.status, 0) << asked;
    EXPECT_EQ(result.out, std::string("heddle ") + version + "\n") << asked;
  }
}

TEST(CommandLine, HelpIsACommandToo) {
  EXPECT_EQ(heddle({"help"}).out, heddle({"--help"}).out);
  EXPECT_EQ(heddle({"help", "run"}).out, heddle({"run", "--help"}).out);
  EXPECT_EQ(heddle({"help", "ptx", "show"}).out, heddle({"ptx", "show", "-h"}).out);
}

TEST(CommandLine, HelpShowsDefaultsAndUnits) {
  const std::string help = heddle({"serve", "--help"}).out;
  for (const char* part :
       {"--port N                    Port to listen on; 0: any free one [8080]\n", "[127.0.0.1]\n",
        "Usage: heddle serve [OPTIONS] [MODEL...]\n", "when requests need them [weft]\n", "--drain-seconds S "})
    EXPECT_NE(help.find(part), std::string::npos) << part << help;
  EXPECT_EQ(help.find("[]"), std::string::npos) << help;  // no default is no default
}

TEST(CommandLine, WeftIsAModelOfEveryCommand) {
  const test::Folder folder;
  const std::string text = folder.write("t.txt", "Once upon a time there was a boat."),
                    messages = folder.write("m", "[]");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", "weft", "-p", "hi", "-n", "1"},
        {"chat", "weft"},
        {"inspect", "weft"},
        {"plan", "weft"},
        {"tokenize", "weft", "hi"},
        {"detokenize", "weft", "5"},
        {"template", "weft", "--messages", messages},
        {"logits", "weft", "--ids", "1", "--out", folder.file("l.safetensors")},
        {"perplexity", "weft", text, "--window", "4"},
        {"quantize", "weft", folder.file("q.gguf"), "--type", "Q4_0", "--allow-requantize"},
        {"bench", "weft", "-p", "1", "-n", "0", "-r", "1"}})
    EXPECT_EQ(heddle(arguments).status, 0) << arguments[0] << heddle(arguments).err;
}

TEST(CommandLine, AnEmptyNameIsNoModel) {
  for (const char* command : {"run", "chat", "inspect", "plan", "tokenize", "bench", "serve"}) {
    const Result result = heddle({command, ""}, "hi");
    EXPECT_EQ(result.status, 1) << command;
    EXPECT_NE(result.err.find("heddle: MODEL: expected a GGUF file, a folder of safetensors, the name of a model or "
                              "weft, found an empty name"),
              std::string::npos)
        << result.err;
  }
}

// Reading the input throws as an allocation would.
template <class Exception>
struct Throwing : std::streambuf {
  int_type underflow() override {
    if constexpr (std::is_same_v<Exception, std::bad_alloc>)
      throw std::bad_alloc();
    else
      throw Exception("vector::reserve");
  }
};
template <class Exception>
std::string error_line() {
  Throwing<Exception> buffer;
  std::istream in(&buffer);
  std::ostringstream out, err;
  EXPECT_EQ(run_command_line({"tokenize", "weft"}, in, out, err), 1);
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
  for (const char* part :
       {"--version", "ptx", "heddle ptx list", "Examples", "heddle devices", "selftest", "heddle chat",
        "heddle bench MODEL", "bench kernels", "List the GPUs", "heddle plan", "weft"})
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
  EXPECT_NE(show.err.find("NAME"), std::string::npos) << show.err;
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
