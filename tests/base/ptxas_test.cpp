// The assembler's answer, read correctly: registers, spills, errors. Skipped where ptxas is not on PATH.
#include "base/ptxas.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/base/fake_ptxas.h"

namespace heddle {
namespace {

std::string kernel(const std::string& body) {
  return ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n" + body + "ret;\n}\n";
}

const std::string store_thread_id =
    ".reg .b32 %r<2>; .reg .b64 %d<2>;\n"
    "ld.param.u64 %d1, [p];\nmov.u32 %r1, %tid.x;\nst.global.u32 [%d1], %r1;\n";

#define NEEDS_PTXAS() \
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH"

TEST(Ptxas, AssemblesAndCountsRegisters) {
  NEEDS_PTXAS();
  const Assembled result = assemble(kernel(store_thread_id), "sm_75");
  EXPECT_TRUE(result.ok) << result.log;
  EXPECT_GT(result.registers, 1u);
  EXPECT_LT(result.registers, 32u);
  EXPECT_EQ(result.spill_bytes, 0u);
  EXPECT_FALSE(result.serialized);
}

TEST(Ptxas, AnErrorIsAResultWithItsLine) {
  NEEDS_PTXAS();
  const Assembled result = assemble(kernel("add.u32 %nothing, 1, 2;\n"), "sm_75");
  EXPECT_FALSE(result.ok);
  EXPECT_NE(result.log.find("ptxas kernel.ptx, line 6; error"), std::string::npos) << result.log;
}

TEST(Ptxas, ReportsSpills) {
  NEEDS_PTXAS();
  // 64 values read before any is written, under a limit of 24 registers: most of them must go to local memory
  std::string body = ".reg .b32 %r<65>; .reg .b64 %d<2>;\nld.param.u64 %d1, [p];\n";
  for (int i = 1; i <= 64; ++i)
    body += "ld.volatile.global.u32 %r" + std::to_string(i) + ", [%d1 + " + std::to_string(4 * i) + "];\n";
  for (int i = 64; i >= 1; --i)
    body += "st.volatile.global.u32 [%d1 + " + std::to_string(4 * i) + "], %r" + std::to_string(i) + ";\n";
  std::string text = kernel(body);
  text.insert(text.find("\n{"), "\n.maxnreg 24");
  const Assembled result = assemble(text, "sm_75");
  EXPECT_TRUE(result.ok) << result.log;
  EXPECT_GT(result.spill_bytes, 2u * 4u * 20u) << result.log;
}

TEST(Ptxas, ServesSeveralThreads) {
  NEEDS_PTXAS();
  std::vector<Assembled> results(4);
  std::vector<std::thread> threads;
  for (Assembled& result : results)
    threads.emplace_back([&result] { result = assemble(kernel(store_thread_id), "sm_80"); });
  for (std::thread& thread : threads) thread.join();
  for (const Assembled& result : results) EXPECT_TRUE(result.ok) << result.log;
}

TEST_F(FakePtxas, ASerialisationWarningIsSeen) {
  install("echo \"warning : Potential Performance Loss: wgmma.mma_async instructions are serialized\" >&2\n");
  EXPECT_TRUE(assemble("", "sm_90a").serialized);
}

TEST_F(FakePtxas, GetsTheTargetAndTheText) {
  install("for last; do :; done; cat \"$last\"; echo \"$@\"; exit 3\n");
  const Assembled result = assemble("the text\n", "sm_90a");
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.log, "the text\n-v --warn-on-spills -arch=sm_90a -o kernel.cubin kernel.ptx");
}

TEST_F(FakePtxas, TakesTheLargestRegisterCountAndTheSumOfSpills) {
  install(
      "echo 'ptxas info    : Used 24 registers, 392 bytes cmem[0]'\n"
      "echo '    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads'\n"
      "echo 'ptxas info    : Used 168 registers, used 1 barriers'\n"
      "echo '    0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads'\n");
  const Assembled result = assemble("", "sm_80");
  EXPECT_EQ(result.registers, 168u);
  EXPECT_EQ(result.spill_bytes, 32u);
}

TEST_F(FakePtxas, NotOnPathIsSaid) {
  hide_ptxas();
  EXPECT_FALSE(ptxas_found());
  EXPECT_THROW(assemble("", "sm_80"), Error);
}

}  // namespace
}  // namespace heddle
