// Output that cannot be written is an error of every command, whatever else went well.
#include "main/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <ostream>

#include "base/error.h"
#include "tests/main/heddle_command.h"
#include "tests/support/folder.h"

namespace heddle::test {
namespace {

TEST(StandardOutput, WritesAllBytesInOrder) {
  const Folder folder;
  const std::string path = folder.file("out");
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  std::string expected;
  {
    DescriptorBuffer buffer(file);
    std::ostream out(&buffer);
    for (int i = 0; i < 20'000; ++i) {
      const std::string line = fmt::format("{}\n", i);
      out << line;
      expected += line;
    }
    const std::string large(100'000, 'x');
    out << large << std::flush;
    expected += large;
    EXPECT_TRUE(out.good());
    EXPECT_EQ(buffer.error(), 0);
  }
  ::close(file);
  EXPECT_EQ(contents(path), expected);
}

TEST(StandardOutput, RemembersTheFirstFailure) {
  const int full = ::open("/dev/full", O_WRONLY);
  if (full < 0) GTEST_SKIP() << "needs /dev/full";
  DescriptorBuffer buffer(full);
  std::ostream out(&buffer), err(nullptr);
  out << "lost" << std::flush;
  ::close(full);
  out.clear();
  out << "after it" << std::flush;
  EXPECT_EQ(buffer.error(), ENOSPC);
  EXPECT_EQ(status_after_output(0, out, err), 1);
  EXPECT_EQ(status_after_output(130, out, err), 130);
}

// Fails at the end alone, as a small output to a full disk does.
struct Failing : std::streambuf {
  int_type overflow(int_type c) override { return c; }
  int sync() override { return -1; }
};

TEST(StandardOutput, AStreamThatFailsIsAnErrorOfEveryCommand) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--version"},
                                                    {"--help"},
                                                    {"help", "run"},
                                                    {"inspect"},
                                                    {"plan"},
                                                    {"tokenize", "weft", "hi"},
                                                    {"detokenize", "weft", "5"},
                                                    {"run", "-p", "hi", "-n", "1"},
                                                    {"chat", "-n", "1"},
                                                    {"synth", "--list"},
                                                    {"ptx", "list"},
                                                    {"bench", "-p", "1", "-n", "0", "-r", "1"}}) {
    Failing buffer;
    std::ostream out(&buffer);
    std::istringstream in("hi\n");
    std::ostringstream err;
    EXPECT_EQ(run_command_line(arguments, in, out, err), 1) << arguments[0];
    EXPECT_TRUE(err.str().ends_with("heddle: standard output cannot be written\n")) << err.str();
  }
}

TEST(StandardOutput, TheReasonIsSaid) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "needs /dev/full";
  const Ran full = shell(program + " ptx list >/dev/full");
  EXPECT_EQ(full.status, 1);
  EXPECT_EQ(full.out, "heddle: standard output cannot be written: No space left on device\n");
  const Ran closed = shell(program + " --version >&-");
  EXPECT_EQ(closed.status, 1);
  EXPECT_EQ(closed.out, "heddle: standard output cannot be written: Bad file descriptor\n");
}

// The reader has gone: by the signal, or where that is ignored, by the status that the signal would give.
TEST(StandardOutput, AClosedPipeIsQuiet) {
  for (const char* handling : {"trap - PIPE", "trap '' PIPE"}) {
    const Ran ran = shell(fmt::format("{{ {}; sleep 0.2; ({} ptx list); echo $? >&2; }} | true", handling, program));
    EXPECT_EQ(ran.out, fmt::format("{}\n", 128 + SIGPIPE)) << handling;
  }
}

}  // namespace
}  // namespace heddle::test
