#include "kernels/state/convolution.h"

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(StateConvolution, RefusesWhatDoesNotFit) {
  const StateConvolution spec{.width = 4};
  const StateConvolution::Args good{
      .slot_stride = 300, .run_count = 2, .channels = 100, .x_stride = 100, .y_stride = 100, .parts = 1};
  EXPECT_EQ(refusal(spec, good), "");
  EXPECT_EQ(spec.grid(good).x, 1u);
  EXPECT_EQ(spec.grid(good).y, 2u);
  StateConvolution::Args bad = good;
  bad.channels = 0;
  EXPECT_EQ(refusal(spec, bad), "state_convolution: 0 channels");
  bad = good;
  bad.slot_stride = 299;
  EXPECT_EQ(refusal(spec, bad), "state_convolution: slots of 299 values, but 100 channels with 3 inputs");
  const StateConvolution gates{.gates = 1};
  EXPECT_EQ(refusal(gates, good), "state_convolution: strides of 100 and 100, but 300 inputs and 100 channels");
  bad = good;
  bad.runs = {8};
  EXPECT_EQ(refusal(spec, bad), "state_convolution: runs must be 16-byte aligned");
  bad = good;
  bad.parts = 0;
  EXPECT_EQ(refusal(spec, bad), "state_convolution: 0 parts, expected 1 to 65535");
  EXPECT_NE(refused([] { StateConvolution{.width = 9}.build(); }), "");
}

TEST(StateConvolution, AssemblesWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  const std::vector<StateConvolution> specs{{.width = 2}, {.width = 8, .bias = 1}, {.gates = 1, .ahead = 16}};
  for (const char* target : {"sm_75", "sm_90a"}) expect_no_spills(specs, target);
}

}  // namespace
}  // namespace heddle::kernels
