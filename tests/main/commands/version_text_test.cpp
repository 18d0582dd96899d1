// What the program says about itself and the machine.
#include "main/commands/version_text.h"

#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "base/version.h"
#include "tests/main/heddle_command.h"
#include "tests/support/program.h"

namespace heddle {
namespace {

using test::heddle;
using test::Result;

TEST(VersionText, VerboseHasALineForEachPart) {
  const Result result = heddle({"--version", "--verbose"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(heddle({"version", "--verbose"}).out, result.out);
  EXPECT_EQ(heddle({"--verbose", "-V"}).out, result.out);
  const std::regex lines(
      "heddle " + std::string(version) +
      "\n  commit            ([0-9a-f]{12} of [0-9]{4}-[0-9]{2}-[0-9]{2}(, with changes)?|unknown: .*)"
      "\n  compiler          (clang|g)\\+\\+ .*, (Release|Debug|RelWithDebInfo), for (x86-64|aarch64)"
      "\n  C library         glibc " +
      std::string(gnu_get_libc_version()) +
      ", built with 2\\.[0-9]+"
      "\n  instruction sets  .*plain; this machine has .*plain"
      "\n  driver            .+\n  GPUs              .+\n");
  EXPECT_TRUE(std::regex_match(result.out, lines)) << result.out;
}

// /proc/cpuinfo names features by itself.
TEST(VersionText, TheMachineHasTheInstructionSetsThatTheKernelNames) {
  std::ifstream file("/proc/cpuinfo");
  std::string line, features;
  while (std::getline(file, line))
    if (line.starts_with("Features") || line.starts_with("flags")) features = line + " ";
  if (features.empty()) GTEST_SKIP() << "/proc/cpuinfo has no features here";
  const std::string text = version_text(true);
  const std::string here = text.substr(text.find("this machine has"));
  for (const auto& [feature, isa] : {std::pair(" avx512_vnni ", "avx512-vnni"),
                                     {" avx512_bf16 ", "avx512-bf16"},
                                     {" avx_vnni ", "avx-vnni"},
                                     {" amx_int8 ", "avx512-amx"},
                                     {" asimddp ", "neon-dotprod"},
                                     {" i8mm ", "neon-i8mm"}})
    EXPECT_EQ(here.find(isa) != here.npos, features.find(feature) != features.npos) << isa << '\n' << features;
}

TEST(VersionText, NamesTheDriverOrWhyThereIsNone) {
  const std::string fake = test::program_path().substr(0, test::program_path().rfind('/')) + "/fake_driver_13000.so";
  const std::string found =
      test::shell("HEDDLE_LIBCUDA=" + test::shell_quoted(fake) + " " + test::program + " -V --verbose").out;
  EXPECT_NE(found.find("  driver            CUDA 13.0 (" + fake + ")\n  GPUs              cuda:0 "), found.npos)
      << found;
  const test::Ran missing = test::shell("HEDDLE_LIBCUDA=/no/such.so " + test::program + " -V --verbose");
  EXPECT_EQ(missing.status, 0);
  EXPECT_NE(missing.out.find("  driver            no NVIDIA driver library (tried /no/such.so"), missing.out.npos)
      << missing.out;
  EXPECT_NE(missing.out.find("\n  GPUs              none\n"), missing.out.npos) << missing.out;
}

TEST(VersionText, VerboseAloneIsRefused) {
  const Result result = heddle({"--verbose"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.err, "heddle: --verbose requires --version\nheddle --help shows what can be given\n");
  EXPECT_EQ(heddle({"version", "story"}).status, 2);
}

}  // namespace
}  // namespace heddle
