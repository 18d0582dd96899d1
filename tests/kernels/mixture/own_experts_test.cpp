// What own_experts refuses. Its results are cases of the proof.
#include "kernels/mixture/own_experts.h"

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(OwnExpertsKernel, RefusesWhatItCannotDo) {
  EXPECT_EQ(refusal(OwnExperts{}, {.rows = 1, .used = 33, .first = 0, .count = 4}),
            "own_experts: 33 experts of each row, 1 to 32 expected");
  EXPECT_EQ(refusal(OwnExperts{}, {.rows = 1, .used = 0, .first = 0, .count = 4}),
            "own_experts: 0 experts of each row, 1 to 32 expected");
  EXPECT_EQ(refusal(OwnExperts{}, {.rows = 1, .used = 2, .first = 0, .count = 0}),
            "own_experts: a rank without experts");
  EXPECT_EQ(OwnExperts{}.grid({.rows = 0, .used = 2, .first = 0, .count = 1}).x, 1u);
  EXPECT_EQ(OwnExperts{}.grid({.rows = 9, .used = 2, .first = 0, .count = 1}).x, 3u);
}

TEST(OwnExpertsKernel, AssemblesWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  expect_no_spills(std::vector<OwnExperts>{{}}, "sm_75");
}

}  // namespace
}  // namespace heddle::kernels
