// rope, kv_scatter and causal_softmax: what they refuse.
#include "kernels/attention/attention_steps.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {

// What RoPE refuses, and its grid.

namespace {

Rope::Args good() {
  return {.q_out = {},
          .q = {},
          .k_out = {},
          .k = {},
          .positions = {},
          .turns = {},
          .tokens = 3,
          .q_heads = 4,
          .k_heads = 2,
          .head_dim = 128,
          .rotary_dim = 64,
          .q_out_stride = 512,
          .q_stride = 512,
          .k_out_stride = 256,
          .k_stride = 256};
}
Rope::Args with(auto&& change) {
  Rope::Args a = good();
  change(a);
  return a;
}

TEST(Rope, HasABlockPerTokenAndItsPairs) {
  const ptx::Grid grid = Rope{.threads = 128}.grid(good());
  EXPECT_EQ(grid.x, 3u);
  EXPECT_EQ(grid.y, 3u);
  EXPECT_EQ(Rope{}.grid(with([](auto& a) { a.tokens = 0; })).x, 1u);
}

TEST(Rope, RefusesWhatItCannotDo) {
  const Rope spec;
  EXPECT_THROW(spec.grid(with([](auto& a) { a.head_dim = 127; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.head_dim = 0; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.rotary_dim = 63; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.rotary_dim = 130; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.q_stride = 511; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.k_out_stride = 255; })), Error);
  EXPECT_NO_THROW(spec.grid(with([](auto& a) {
    a.tokens = 1;
    a.q_stride = 0;
  })));
  EXPECT_THROW((Rope{.pairs = 2}.build()), Error);
}

}  // namespace

// What kv_scatter refuses: pages, strides and alignments.

namespace {

TEST(KvScatter, RefusesPagesStridesAndAlignments) {
  const KvScatter paged{.head_dim = 64, .layout = kv_paged};
  KvScatter::Args a{};
  a.rows = 2;
  a.kv_heads = 2;
  a.k_stride = a.v_stride = 128;
  a.page_size = 16;
  a.table_stride = 4;
  EXPECT_EQ(refusal(paged, a), "");
  a.page_size = 24;
  EXPECT_EQ(refusal(paged, a), "kv_scatter: pages of 24 positions, but they must be a positive multiple of 16");
  a.page_size = 16;
  a.k_stride = 124;
  EXPECT_NE(refusal(paged, a), "");
  a.k_stride = 128;
  a.v_new = {8};
  EXPECT_NE(refusal(paged, a), "");
  a.v_new = {};
  a.k = {8};
  EXPECT_NE(refusal(paged, a), "");
  EXPECT_EQ(refusal(KvScatter{.head_dim = 64, .layout = kv_batched}, a), "");  // k is not used
  EXPECT_THROW((KvScatter{.head_dim = 12}.build()), Error);
}

}  // namespace

// What causal_softmax refuses, and its grid.

namespace {

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

}  // namespace

}  // namespace heddle::kernels
