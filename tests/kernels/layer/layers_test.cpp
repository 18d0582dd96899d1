// What the small layer kernels refuse: sizes, strides and alignments that do not suit, with a reason.
#include <gtest/gtest.h>

#include "kernels/attention/kv_scatter.h"
#include "kernels/attention/softmax.h"
#include "kernels/layer/gate.h"
#include "kernels/layer/residual.h"
#include "kernels/product/q8_1.h"
#include "kernels/sample/argmax.h"
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
  a.cols = 8, a.y_stride = 4;
  EXPECT_EQ(refusal(spec, a), "gate: y has a stride of 4, but 8 columns");
  a.y_stride = 8, a.up = {8};
  EXPECT_NE(refusal(spec, a), "");
  EXPECT_EQ(refusal(Gate{.vec = 4, .times_up = 0}, a), "");  // up is not read
  a.up = {16}, a.gate_stride = 18;
  EXPECT_NE(refusal(spec, a), "");
  a.gate_stride = 16, a.y = {}, a.narrow = {8};  // half as wide
  EXPECT_EQ(refusal(Gate{.vec = 4, .out = Gate::out_bf16}, a), "");
  a.narrow = {4};
  EXPECT_NE(refusal(Gate{.vec = 4, .out = Gate::out_bf16}, a), "");
  a.rows = 0, a.gate_stride = 16;
  EXPECT_EQ(spec.grid(a).x, 1u);
}

TEST(CausalSoftmax, RefusesRowsThatAreNoWholeQueries) {
  CausalSoftmax::Args a{
      .y = {}, .x = {}, .rows = 6, .queries = 3, .keys = 5, .offset = 0, .window = 0, .scale = 1, .cap = 0};
  EXPECT_EQ(refusal(CausalSoftmax{}, a), "");
  EXPECT_EQ((CausalSoftmax{.warps = 4, .row_per = CausalSoftmax::warp}.grid(a).x), 2u);
  EXPECT_EQ(refusal(CausalSoftmax{.capped = 1}, a), "causal_softmax: a cap of 0; it must be above 0");
  a.queries = 4;
  EXPECT_EQ(refusal(CausalSoftmax{}, a), "causal_softmax: 6 rows are not a multiple of 4 queries");
  a.queries = 0;
  EXPECT_NE(refusal(CausalSoftmax{}, a), "");
  a.rows = 0;
  EXPECT_EQ(CausalSoftmax{}.grid(a).x, 1u);
}

TEST(KvScatter, RefusesPagesStridesAndAlignments) {
  const KvScatter paged{.head_dim = 64, .layout = kv_paged};
  KvScatter::Args a{};
  a.rows = 2, a.kv_heads = 2, a.k_stride = a.v_stride = 128, a.page_size = 16, a.table_stride = 4;
  EXPECT_EQ(refusal(paged, a), "");
  a.page_size = 24;
  EXPECT_EQ(refusal(paged, a), "kv_scatter: pages of 24 positions, but they must be a positive multiple of 16");
  a.page_size = 16, a.k_stride = 124;
  EXPECT_NE(refusal(paged, a), "");
  a.k_stride = 128, a.v_new = {8};
  EXPECT_NE(refusal(paged, a), "");
  a.v_new = {}, a.k = {8};
  EXPECT_NE(refusal(paged, a), "");
  EXPECT_EQ(refusal(KvScatter{.head_dim = 64, .layout = kv_batched}, a), "");  // k is not used
  EXPECT_THROW((KvScatter{.head_dim = 12}.build()), Error);
}

TEST(Quantize, RefusesPartsOfBlocks) {
  EXPECT_EQ(refusal(QuantizeQ8_1{}, {.y = {16}, .x = {16}, .rows = 1, .cols = 96}), "");
  EXPECT_EQ(refusal(QuantizeQ8_1{}, {.y = {16}, .x = {16}, .rows = 1, .cols = 48}),
            "quantize_q8_1: 48 columns are not a multiple of its block of 32");
  EXPECT_NE(refusal(QuantizeQ8_1{}, {.y = {16}, .x = {8}, .rows = 1, .cols = 96}), "");
  EXPECT_NE(refusal(QuantizeQ8_1{}, {.y = {4}, .x = {16}, .rows = 1, .cols = 96}), "");
  EXPECT_EQ(refusal(QuantizeQ8_1{.layout = QuantizeQ8_1::blocks}, {.y = {4}, .x = {16}, .rows = 1, .cols = 96}), "");
}

TEST(ResidualAdd, RefusesWhatDoesNotFitItsCounters) {
  EXPECT_EQ(ResidualAdd{}.grid({.y = {}, .a = {}, .b = {}, .n = 0, .scale = 1}).x, 1u);
  EXPECT_EQ(ResidualAdd{}.grid({.y = {}, .a = {}, .b = {}, .n = 1025, .scale = 1}).x, 2u);
  EXPECT_NE(refusal(ResidualAdd{}, {.y = {}, .a = {}, .b = {}, .n = 0xffffffff, .scale = 1}), "");
}

TEST(Argmax, RefusesColumnsAndRows) {
  const Argmax spec{.vec = 4};
  EXPECT_EQ(refusal(spec, {.ids = {}, .x = {16}, .best = {}, .arrived = {}, .rows = 2, .cols = 8}), "");
  EXPECT_EQ(refusal(spec, {.ids = {}, .x = {16}, .best = {}, .arrived = {}, .rows = 2, .cols = 0}),
            "argmax: 0 columns, but with vec = 4 they must be a positive multiple of 4");
  EXPECT_NE(refusal(spec, {.ids = {}, .x = {8}, .best = {}, .arrived = {}, .rows = 2, .cols = 8}), "");
  EXPECT_EQ(refusal(spec, {.ids = {}, .x = {16}, .best = {}, .arrived = {}, .rows = 70000, .cols = 8}),
            "argmax: 70000 rows, 65535 at most");
}

}  // namespace
}  // namespace heddle::kernels
