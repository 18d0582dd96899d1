// What the elementwise kernels refuse: sizes, strides and alignments.
#include "kernels/layer/elementwise.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(Gate, RefusesStridesAndAlignments) {
  const Gate spec{.vec = 4};
  Gate::Args a{
      .y = {16}, .gate = {16}, .up = {16}, .rows = 2, .cols = 8, .y_stride = 8, .gate_stride = 16, .up_stride = 16};
  EXPECT_EQ(refusal(spec, a), "");
  a.cols = 6;
  EXPECT_EQ(refusal(spec, a), "gate: 6 columns are not a multiple of vec = 4");
  a.cols = 8;
  a.y_stride = 4;
  EXPECT_EQ(refusal(spec, a), "gate: y has a stride of 4, but 8 columns");
  a.y_stride = 8;
  a.up = {8};
  EXPECT_NE(refusal(spec, a), "");
  EXPECT_EQ(refusal(Gate{.vec = 4, .times_up = 0}, a), "");  // up is not read
  a.up = {16};
  a.gate_stride = 18;
  EXPECT_NE(refusal(spec, a), "");
  a.gate_stride = 16;
  a.y = {};
  a.narrow = {8};  // half as wide
  EXPECT_EQ(refusal(Gate{.vec = 4, .out = Gate::out_bf16}, a), "");
  a.narrow = {4};
  EXPECT_NE(refusal(Gate{.vec = 4, .out = Gate::out_bf16}, a), "");
  a.rows = 0;
  a.gate_stride = 16;
  EXPECT_EQ(spec.grid(a).x, 1u);
}

TEST(SoftcapRows, RefusesCapsAndStrides) {
  SoftcapRows::Args a{};
  a.rows = 2;
  a.cols = 100;
  a.stride = 100;
  EXPECT_EQ(refusal(SoftcapRows{}, a), "softcap_rows: a cap of 0; it must be above 0");
  EXPECT_EQ(refusal(SoftcapRows{.cap = 0}, a), "");
  a.cap = 30;
  a.stride = 99;
  EXPECT_EQ(refusal(SoftcapRows{}, a), "softcap_rows: a stride of 99, but 100 columns");
}

}  // namespace
}  // namespace heddle::kernels
