// What any_attention refuses: shapes, strides and alignments.
#include "kernels/attention/any_attention.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(AnyAttention, RefusesShapesStridesAndAlignments) {
  auto said = [](auto&& change, const AnyAttention& spec = {}) {
    AnyAttention::Args a{};
    a.rows = 2;
    a.heads = 6;
    a.kv_heads = 2;
    a.head = 64;
    a.value_head = 32;
    a.q_stride = 384;
    a.out_stride = 192;
    a.page_size = 16;
    a.table_stride = 4;
    change(a);
    return refusal(spec, a);
  };
  EXPECT_EQ(said([](auto&) {}), "");
  EXPECT_EQ(said([](auto& a) { a.head = 65; }, {.vec = 2}),
            "any_attention: heads of 65 and 32 values are not multiples of vec = 2");
  EXPECT_EQ(said([](auto& a) { a.head = 129; }, {.largest = 128}),
            "any_attention: heads of 129 values, 1 to 128 expected");
  EXPECT_EQ(said([](auto& a) { a.k = {4}; }, {.vec = 4}),
            "any_attention: with vec = 4 the cache must be 8-byte aligned");
  EXPECT_EQ(said([](auto& a) { a.k = {4}; }, {.vec = 2}), "");
  EXPECT_EQ(said([](auto& a) { a.out_stride = 191; }),
            "any_attention: out has a stride of 191, but rows of 192 values");
  EXPECT_NE(said([](auto& a) { a.q_stride = 383; }), "");
  EXPECT_EQ(said([](auto&) {}, {.softcap = 1}), "any_attention: softcap = 0, but it must be positive");
  EXPECT_EQ(said([](auto&) {}, {.bidirectional = 1}), "any_attention: no lengths, but that of each row's text is read");
  EXPECT_EQ(said([](auto& a) { a.lengths = {4}; }, {.bidirectional = 1}), "");
  EXPECT_EQ(said([](auto&) {}, {.sinks = 1}), "any_attention: no sinks, but one for each head is read");
  EXPECT_EQ(said([](auto&) {}, {.slopes = 1}), "any_attention: no slopes, but one for each head is read");
  EXPECT_EQ(said([](auto&) {}, {.chunk = 1}), "any_attention: chunks of 0 positions, but a token sees itself");
  EXPECT_NE(said([](auto& a) {
              a.heads = 65536;
              a.rows = 1;
            }),
            "");
  EXPECT_THROW((AnyAttention{.largest = 100}.build()), Error);
  EXPECT_EQ(said([](auto& a) { a.head = 36; }, {.vec = 4, .kv = kv_q8}), "");
  EXPECT_EQ(said([](auto& a) { a.head = 35; }, {.vec = 1, .kv = kv_q8}), "");
  EXPECT_EQ(refused([] { AnyAttention{.vec = 2, .kv = kv_q8}.build(); }),
            "any_attention: a q8 cache with vec = 2, but it is read 1 or 4 values at a time");
}

}  // namespace
}  // namespace heddle::kernels
