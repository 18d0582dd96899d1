// The manual pages, read by the programs that show them.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "tests/main/heddle_command.h"
#include "tests/support/folder.h"

namespace heddle {
namespace {

using test::heddle;
using test::Ran;
using test::Result;
using test::shell;
using test::shell_quoted;

std::string page(const test::Folder& folder, const char* name) { return test::contents(folder.file(name)); }

TEST(Manual, HasAPageForEveryCommand) {
  const test::Folder folder;
  const Result result = heddle({"manual", folder.file("man").string()});
  EXPECT_EQ(result.status, 0) << result.err;
  std::set<std::string> pages;
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("man")))
    pages.insert(entry.path().filename().string());
  std::istringstream help(heddle({"help"}).out);
  bool commands = false;
  size_t found = 0;
  for (std::string line; std::getline(help, line);) {
    if (line.empty()) commands = false;
    if (line == "Subcommands:") commands = true;
    if (!commands || line.size() < 3 || line[2] == ' ' || line[0] != ' ') continue;
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    EXPECT_TRUE(pages.count("heddle-" + name + ".1")) << name;
    ++found;
  }
  EXPECT_GT(found, 20u);
  EXPECT_TRUE(pages.count("heddle.1") && pages.count("heddle-bench-serve-sim.1") && pages.count("heddle-ptx-show.1"));
}

TEST(Manual, SaysWhatTheHelpSays) {
  const test::Folder folder;
  ASSERT_EQ(heddle({"manual", folder.path().string()}).status, 0);
  const std::string serve = page(folder, "heddle-serve.1");
  for (const char* part : {".SH NAME\nheddle\\-serve \\- Serve models through an OpenAI\\-compatible API\n",
                           ".SH SYNOPSIS\n.B heddle serve\n[OPTIONS] [MODEL...]\n",
                           ".TP\n\\fB\\-\\-port\\fR \\fIN\\fR\nPort to listen on; 0: any free one [8080]\n",
                           ".SH NOTES\nSIGTERM or SIGINT stops the server", ".SH \"SEE ALSO\"\n.BR heddle (1)\n"})
    EXPECT_NE(serve.find(part), serve.npos) << part << serve;
  const std::string whole = page(folder, "heddle.1");
  for (const char* part :
       {".SH NAME\nheddle \\- LLM inference and serving that writes its own GPU code\n", ".SH EXAMPLES\n.nf\n",
        ".SH \"EXIT STATUS\"\n0 success, 1 an error", ".TP\n.BR heddle\\-serve (1)\nServe models"})
    EXPECT_NE(whole.find(part), whole.npos) << part << whole;
  EXPECT_NE(page(folder, "heddle-run.1").find(".SH \"SAMPLING (DOCS/SAMPLING.MD)\"\n"), std::string::npos);
  EXPECT_NE(page(folder, "heddle-quantize.1").find("\\fB\\-\\-type\\fR \\fITYPE\\fR (required)\n"), std::string::npos);
}

TEST(Manual, IsReadWithoutAWarning) {
  const test::Folder folder;
  ASSERT_EQ(heddle({"manual", folder.path().string()}).status, 0);
  const std::string pages = shell_quoted(folder.path().string()) + "/*.1";
  const bool mandoc = shell("command -v mandoc").status == 0, man = shell("command -v man").status == 0;
  if (!mandoc && !man) GTEST_SKIP() << "there is neither mandoc nor man";
  if (mandoc) {
    EXPECT_EQ(shell("mandoc -T lint -W warning " + pages).out, "");
  }
  if (man) {
    const Ran shown = shell("MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -l " +
                            shell_quoted(folder.file("heddle-quantize.1").string()));
    EXPECT_NE(shown.out.find("       --allow-requantize\n              Also from weights"), std::string::npos)
        << shown.out;
  }
}

TEST(Manual, RefusesWhatIsNoFolder) {
  const test::Folder folder;
  const std::string file = folder.write("file", "");
  const Result result = heddle({"manual", file});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find(file), std::string::npos) << result.err;
  EXPECT_EQ(heddle({"manual"}).status, 2);
}

}  // namespace
}  // namespace heddle
