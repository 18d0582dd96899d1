// What the kernels between the products of a decoder refuse: sizes, strides and alignments, with a reason.
#include <gtest/gtest.h>

#include "kernels/attention/any_attention.h"
#include "kernels/attention/heads.h"
#include "kernels/layer/norm_add.h"
#include "kernels/layer/softcap_rows.h"
#include "kernels/mixture/mix.h"
#include "kernels/mixture/route.h"
#include "kernels/sample/step_advance.h"
#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

Heads::Args some_heads() {
  Heads::Args a{};
  a.rows = 2, a.heads = 6, a.kv_heads = 2, a.head = 64, a.value_head = 32, a.dimensions = 64;
  a.q_stride = 384, a.k_stride = 128, a.v_stride = 64, a.page_size = 16, a.table_stride = 4;
  return a;
}

TEST(Heads, RefusesShapesAndStrides) {
  auto said = [](auto&& change, const Heads& spec = {}) {
    Heads::Args a = some_heads();
    change(a);
    return refusal(spec, a);
  };
  EXPECT_EQ(said([](auto&) {}), "");
  EXPECT_EQ(said([](auto& a) { a.heads = 5; }), "heads: 5 heads are not a positive multiple of 2 kv heads");
  EXPECT_NE(said([](auto& a) { a.kv_heads = 0; }), "");
  EXPECT_EQ(said([](auto& a) { a.head = 513; }), "heads: heads of 513 values, 1 to 512 expected");
  EXPECT_EQ(said([](auto& a) { a.value_head = 0; }), "heads: heads of 0 values, 1 to 512 expected");
  EXPECT_EQ(said([](auto& a) { a.dimensions = 63; }),
            "heads: 63 dimensions of heads of 64 values are rotated; an even number, not above that, expected");
  EXPECT_NE(said([](auto& a) { a.dimensions = 66; }), "");
  EXPECT_EQ(said([](auto& a) { a.dimensions = 66; }, {.rotation = Heads::none}), "");  // not read
  EXPECT_EQ(said([](auto& a) { a.page_size = 0; }), "heads: pages of 0 positions");
  EXPECT_EQ(said([](auto& a) { a.q_stride = 383; }), "heads: q has a stride of 383, but rows of 384 values");
  EXPECT_EQ(said([](auto& a) { a.k_stride = 127; }), "heads: k has a stride of 127, but rows of 128 values");
  EXPECT_EQ(said([](auto& a) { a.v_stride = 63; }), "heads: v has a stride of 63, but rows of 64 values");
  EXPECT_EQ(said([](auto& a) { a.rows = 1, a.q_stride = 0; }), "");
  EXPECT_NE(said([](auto& a) { a.heads = 65535 * 4, a.rows = 1; }), "");
  EXPECT_EQ(said([](auto&) {}, {.kv = kv_q8}), "");
  EXPECT_EQ(said([](auto& a) { a.value_head = 16; }, {.kv = kv_q8}),
            "heads: heads of 16 values, but a q8 cache has a scale for each 32");
  EXPECT_THROW(Heads{.kv = kv_f32}.build(), Error);
}

TEST(Heads, TakesAWarpPerHeadOrABlockForAll) {
  Heads::Args a = some_heads();
  EXPECT_EQ(Heads{}.grid(a).y, 3u);  // 6 + 2 + 2 heads, 4 in a block
  EXPECT_EQ((Heads{.over = Heads::all_heads}.grid(a).y), 3u);
  a.heads = 32, a.q_stride = 2048;
  EXPECT_EQ((Heads{.over = Heads::all_heads}.grid(a).y), 9u);  // without a norm all heads are for themselves
  EXPECT_EQ((Heads{.k_norm = norm_rms, .over = Heads::all_heads}.grid(a).y), 3u);
  EXPECT_EQ((Heads{.rotation = Heads::none}.grid(a).y), 1u);  // q stays as it is
  EXPECT_EQ((Heads{.k_norm = norm_rms, .over = Heads::all_heads, .rotation = Heads::none}.grid(a).y), 2u);
  a.rows = 0;
  EXPECT_EQ(Heads{}.grid(a).x, 1u);
}

TEST(AnyAttention, RefusesShapesStridesAndAlignments) {
  auto said = [](auto&& change, const AnyAttention& spec = {}) {
    AnyAttention::Args a{};
    a.rows = 2, a.heads = 6, a.kv_heads = 2, a.head = 64, a.value_head = 32, a.q_stride = 384, a.out_stride = 192;
    a.page_size = 16, a.table_stride = 4;
    change(a);
    return refusal(spec, a);
  };
  EXPECT_EQ(said([](auto&) {}), "");
  EXPECT_EQ(said([](auto& a) { a.head = 65; }, {.vec = 2}),
            "any_attention: heads of 65 and 32 values are not multiples of vec = 2");
  EXPECT_EQ(said([](auto& a) { a.head = 129; }, {.largest = 128}),
            "any_attention: heads of 129 values, 1 to 128 expected");
  EXPECT_EQ(said([](auto& a) { a.k_cache = {4}; }, {.vec = 4}),
            "any_attention: with vec = 4 the cache must be 8-byte aligned");
  EXPECT_EQ(said([](auto& a) { a.k_cache = {4}; }, {.vec = 2}), "");
  EXPECT_EQ(said([](auto& a) { a.out_stride = 191; }),
            "any_attention: out has a stride of 191, but rows of 192 values");
  EXPECT_NE(said([](auto& a) { a.q_stride = 383; }), "");
  EXPECT_EQ(said([](auto&) {}, {.softcap = 1}), "any_attention: softcap = 0, but it must be positive");
  EXPECT_NE(said([](auto& a) { a.heads = 65536, a.rows = 1; }), "");
  EXPECT_THROW((AnyAttention{.largest = 100}.build()), Error);
  EXPECT_EQ(said([](auto& a) { a.head = 36; }, {.vec = 4, .kv = kv_q8}),
            "any_attention: heads of 36 values, but a q8 cache has a scale for each 32");
  EXPECT_THROW((AnyAttention{.vec = 2, .kv = kv_q8}.build()), Error);
}

TEST(NormAdd, RefusesRowsOfNothing) {
  EXPECT_EQ(refusal(NormAdd{}, {.h = {}, .y = {}, .weight = {}, .bias = {}, .rows = 2, .cols = 0}),
            "norm_add: rows of 0 columns");
  EXPECT_EQ(NormAdd{}.grid({.h = {}, .y = {}, .weight = {}, .bias = {}, .rows = 0, .cols = 8}).x, 1u);
}

TEST(Route, RefusesMoreThanThereAre) {
  auto said = [](uint32_t experts, uint32_t used, uint32_t stride, const Route& spec = {}) {
    return refusal(
        spec,
        {.ids = {}, .weights = {}, .logits = {}, .rows = 2, .experts = experts, .used = used, .logits_stride = stride});
  };
  EXPECT_EQ(said(512, 32, 512), "");
  EXPECT_EQ(said(513, 8, 513), "route: 513 experts, 1 to 512 expected");
  EXPECT_EQ(said(65, 8, 65, {.largest = 64}), "route: 65 experts, 1 to 64 expected");
  EXPECT_EQ(said(8, 9, 8), "route: 9 of 8 experts are used; 1 to 32, not above that, expected");
  EXPECT_NE(said(64, 33, 64), "");
  EXPECT_NE(said(64, 0, 64), "");
  EXPECT_EQ(said(64, 8, 63), "route: logits have a stride of 63, but 64 experts");
}

TEST(Mix, RefusesWhatDoesNotFitItsGrid) {
  Mix::Args a{};
  a.rows = 2, a.cols = 65535 * 32, a.used = 2;
  EXPECT_EQ(refusal(Mix{.threads = 32}, a), "");
  a.cols += 1;
  EXPECT_EQ(refusal(Mix{.threads = 32}, a), "mix: 2097121 columns, 2097120 at most");
  a.rows = 0, a.cols = 0;
  EXPECT_EQ(Mix{}.grid(a).x, 1u);
}

TEST(SoftcapRows, RefusesCapsAndStrides) {
  SoftcapRows::Args a{};
  a.rows = 2, a.cols = 100, a.stride = 100;
  EXPECT_EQ(refusal(SoftcapRows{}, a), "softcap_rows: a cap of 0; it must be above 0");
  EXPECT_EQ(refusal(SoftcapRows{.cap = 0}, a), "");
  a.cap = 30, a.stride = 99;
  EXPECT_EQ(refusal(SoftcapRows{}, a), "softcap_rows: a stride of 99, but 100 columns");
}

TEST(StepAdvance, RefusesHistoriesAndAlignments) {
  StepAdvance::Args a{};
  a.rows = 3, a.ring = 2;
  EXPECT_EQ(refusal(StepAdvance{}, a), "");
  EXPECT_EQ(StepAdvance{}.grid(a).x, 1u);
  a.history = {4};
  EXPECT_EQ(refusal(StepAdvance{}, a), "step_advance: picked, history, params and step must be 8-byte aligned");
  a.history = {}, a.ring = 0;
  EXPECT_EQ(refusal(StepAdvance{}, a), "step_advance: a history of 0 steps");
}

}  // namespace
}  // namespace heddle::kernels
