// What step_advance refuses.
#include "kernels/sample/step_advance.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(StepAdvance, RefusesHistoriesAndAlignments) {
  StepAdvance::Args a{};
  a.rows = 3;
  a.ring = 2;
  EXPECT_EQ(refusal(StepAdvance{}, a), "");
  EXPECT_EQ(StepAdvance{}.grid(a).x, 1u);
  a.history = {4};
  EXPECT_EQ(refusal(StepAdvance{}, a), "step_advance: picked, history, params and step must be 8-byte aligned");
  a.history = {};
  a.ring = 0;
  EXPECT_EQ(refusal(StepAdvance{}, a), "step_advance: a history of 0 steps");
}

}  // namespace
}  // namespace heddle::kernels
