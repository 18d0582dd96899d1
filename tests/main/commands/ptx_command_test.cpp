// `heddle ptx` over small catalogs of the test's own, with an assembler of its own: what is printed, and what fails.
#include "main/commands/ptx_command.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "base/ptxas.h"
#include "tests/base/fake_ptxas.h"

namespace heddle {
namespace {

using kernels::Entry;
using Settings = std::map<std::string, std::string>;

Entry empty_kernel(const std::string& name, const std::string& lowest_target) {
  return {name,
          "does nothing",
          name,
          {{"warps", "4"}},
          [name](const Settings& settings) {
            for (const auto& [field, value] : settings)
              if (field != "warps") throw Error("{} has no field {}; it has warps", name, field);
            ptx::Kernel kernel;
            kernel.name = name;
            kernel.threads_x = settings.contains("warps") ? 32 * std::stoi(settings.at("warps")) : 128;
            return kernel;
          },
          lowest_target};
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no Error)";
}

TEST(PtxList, ShowsTargetSummaryAndFields) {
  std::ostringstream out;
  list_kernels({empty_kernel("idle", "sm_75"), empty_kernel("resting", "sm_90a")}, out);
  EXPECT_EQ(out.str(),
            "idle     sm_75+   does nothing\n"
            "                  warps=4\n"
            "resting  sm_90a   does nothing\n"
            "                  warps=4\n");
}

TEST(PtxList, SaysWhatAPresetIsAPresetOf) {
  Entry preset = empty_kernel("idle", "sm_75");
  preset.spec = "rest";
  std::ostringstream out;
  list_kernels({preset}, out);
  EXPECT_EQ(out.str(),
            "idle  sm_75+   does nothing\n"
            "               preset of rest: warps=4\n");
}

TEST(PtxSettings, AreFieldAndValue) {
  EXPECT_EQ(parse_settings({"columns=4096", "format=", "a=b=c"}),
            (Settings{{"columns", "4096"}, {"format", ""}, {"a", "b=c"}}));
  EXPECT_EQ(message_of([] { parse_settings({"columns"}); }), "--set columns: expected FIELD=VALUE");
  EXPECT_EQ(message_of([] { parse_settings({"=4"}); }), "--set =4: expected FIELD=VALUE");
  EXPECT_EQ(message_of([] { parse_settings({"a=1", "a=2"}); }), "--set a=2: a is set twice");
}

TEST(PtxShow, PrintsTheTextForTheTarget) {
  const std::vector<Entry> catalog{empty_kernel("idle", "sm_75")};
  std::ostringstream lowest, chosen;
  show_kernel(catalog, "idle", "", {}, lowest);
  show_kernel(catalog, "idle", "sm_90a", {}, chosen);
  EXPECT_NE(lowest.str().find(".target sm_75\n"), std::string::npos) << lowest.str();
  EXPECT_NE(chosen.str().find(".target sm_90a\n"), std::string::npos) << chosen.str();
  EXPECT_NE(lowest.str().find(".entry idle("), std::string::npos) << lowest.str();
}

TEST(PtxShow, NamesWhatIsNotKnown) {
  const std::vector<Entry> catalog{empty_kernel("idle", "sm_75"), empty_kernel("resting", "sm_75")};
  std::ostringstream out;
  EXPECT_EQ(message_of([&] { show_kernel(catalog, "busy", "", {}, out); }),
            "no kernel is called busy; there are idle, resting");
  EXPECT_EQ(message_of([&] {
              show_kernel(catalog, "idle", "", {{"wraps", "4"}}, out);
            }),
            "idle has no field wraps; it has warps");
  EXPECT_NE(message_of([&] { show_kernel(catalog, "idle", "sm_1", {}, out); }).find("sm_1"), std::string::npos);
  EXPECT_EQ(out.str(), "");
}

// What check_kernels prints for two kernels, one of them for sm_90a only, and whether it is content.
struct Checked {
  bool passed;
  std::string printed;
};
Checked check_two(const std::vector<std::string>& names = {},
                  const std::vector<std::string>& targets = {"sm_80", "sm_90", "sm_90a"}) {
  std::ostringstream out;
  const bool passed =
      check_kernels({empty_kernel("idle", "sm_75"), empty_kernel("resting", "sm_90a")}, names, targets, out, out);
  return {passed, out.str()};
}

using PtxCheck = FakePtxas;

TEST_F(PtxCheck, CountsRegistersInATable) {
  install("echo 'ptxas info    : Used 24 registers'\n");
  const Checked checked = check_two();
  EXPECT_TRUE(checked.passed);
  EXPECT_EQ(checked.printed,
            "kernel    sm_80   sm_90  sm_90a\n"
            "idle         24      24      24\n"
            "resting       -       -      24\n"
            "Numbers are registers per thread; - is a target the kernel is not for.\n"
            "\n"
            "2 kernels x 3 targets: 4 passed, 0 failed\n");
}

TEST_F(PtxCheck, FailsOnAnAssemblerErrorAndShowsIt) {
  install("case \"$*\" in *sm_90a*) echo 'line 7; error : no such thing'; exit 255;; esac\n");
  const Checked checked = check_two({"idle"});
  EXPECT_FALSE(checked.passed);
  EXPECT_NE(checked.printed.find("idle for sm_90a: does not assemble:\nline 7; error : no such thing\n"),
            std::string::npos);
  EXPECT_NE(checked.printed.find("1 kernels x 3 targets: 2 passed, 1 failed\n"), std::string::npos) << checked.printed;
}

TEST_F(PtxCheck, FailsOnASpill) {
  install("echo '    8 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads'\n");
  const Checked checked = check_two({"idle"}, {"sm_80"});
  EXPECT_FALSE(checked.passed);
  EXPECT_NE(checked.printed.find("idle for sm_80: spills 12 bytes:"), std::string::npos) << checked.printed;
}

TEST_F(PtxCheck, FailsOnSerialisedMatrixInstructions) {
  install("echo 'Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...'\n");
  const Checked checked = check_two({"resting"}, {"sm_90a"});
  EXPECT_FALSE(checked.passed);
  EXPECT_NE(checked.printed.find("resting for sm_90a: matrix instructions are serialised:"), std::string::npos)
      << checked.printed;
}

TEST_F(PtxCheck, FailsOnAKernelThatCannotBeBuilt) {
  install("");
  Entry broken = empty_kernel("broken", "sm_75");
  broken.build = [](const Settings&) -> ptx::Kernel { throw std::logic_error("two and two are five"); };
  std::ostringstream out;
  EXPECT_FALSE(check_kernels({broken}, {}, {"sm_75"}, out, out));
  EXPECT_NE(out.str().find("broken for sm_75: two and two are five"), std::string::npos) << out.str();
}

TEST_F(PtxCheck, SaysWhenNothingCouldBeAssembled) {
  hide_ptxas();
  const Checked checked = check_two();
  EXPECT_TRUE(checked.passed);
  EXPECT_NE(checked.printed.find("ptxas is not on PATH: kernels were verified, NOT assembled.\n"), std::string::npos);
  EXPECT_NE(checked.printed.find("2 kernels x 3 targets: 4 passed, 0 failed\n"), std::string::npos) << checked.printed;
}

TEST_F(PtxCheck, CheckingNothingIsAFailure) {
  install("");
  const Checked checked = check_two({"resting"}, {"sm_80"});
  EXPECT_FALSE(checked.passed);
  EXPECT_NE(checked.printed.find("Nothing was checked"), std::string::npos) << checked.printed;
}

TEST_F(PtxCheck, NamesWhatIsNotKnown) {
  EXPECT_EQ(message_of([] { check_two({"busy"}); }), "no kernel is called busy; there are idle, resting");
  EXPECT_THROW(check_two({}, {"sm_1"}), Error);
}

TEST(EveryKernel, AssemblesForEveryTargetWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::ostringstream out;
  EXPECT_TRUE(check_kernels(kernels::catalog(), {}, {}, out, out)) << out.str();
}

}  // namespace
}  // namespace heddle
