// What `heads` refuses, and its grid.
#include "kernels/attention/heads.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

Heads::Args some_heads() {
  Heads::Args a{};
  a.rows = 2;
  a.heads = 6;
  a.kv_heads = 2;
  a.head = 64;
  a.value_head = 32;
  a.dimensions = 64;
  a.q_stride = 384;
  a.k_stride = 128;
  a.v_stride = 64;
  a.page_size = 16;
  a.table_stride = 4;
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
  EXPECT_EQ(said([](auto& a) {
              a.rows = 1;
              a.q_stride = 0;
            }),
            "");
  EXPECT_NE(said([](auto& a) {
              a.heads = 65535 * 4;
              a.rows = 1;
            }),
            "");
  EXPECT_EQ(said([](auto&) {}, {.kv = kv_q8}), "");
  EXPECT_EQ(said([](auto& a) { a.value_head = 15; }, {.kv = kv_q8}), "");
  EXPECT_THROW(Heads{.kv = kv_q8 + 1}.build(), Error);
  const Heads as_values{.stores = Heads::keys_as_values};
  EXPECT_EQ(said([](auto&) {}, as_values),
            "heads: values that are keys, but they lie elsewhere or have heads of 32 and 64");
  EXPECT_EQ(said(
                [](auto& a) {
                  a.value_head = a.head;
                  a.v_stride = a.k_stride;
                },
                as_values),
            "");
  EXPECT_EQ(said([](auto& a) { a.k_stride = a.v_stride = 0; }, {.stores = Heads::nothing}), "");
  EXPECT_EQ(refused([] { Heads{.rotation = Heads::none, .stores = Heads::nothing}.build(); }),
            "heads: q stays as it is and nothing is stored");
  EXPECT_EQ(refused([] { Heads{.q_norm = norm_rms, .v_norm = norm_rms, .over = Heads::all_heads}.build(); }),
            "heads: a norm of each head of v beside one over all heads of q or k");
}

TEST(Heads, TakesAWarpPerHeadOrABlockForAll) {
  Heads::Args a = some_heads();
  EXPECT_EQ(Heads{}.grid(a).y, 3u);  // 6 + 2 + 2 heads, 4 in a block
  EXPECT_EQ((Heads{.over = Heads::all_heads}.grid(a).y), 3u);
  a.heads = 32;
  a.q_stride = 2048;
  EXPECT_EQ((Heads{.over = Heads::all_heads}.grid(a).y), 9u);  // without a norm every head is on its own
  EXPECT_EQ((Heads{.k_norm = norm_rms, .over = Heads::all_heads}.grid(a).y), 3u);
  EXPECT_EQ((Heads{.rotation = Heads::none}.grid(a).y), 1u);  // q stays as it is
  EXPECT_EQ((Heads{.k_norm = norm_rms, .over = Heads::all_heads, .rotation = Heads::none}.grid(a).y), 2u);
  a.heads = 6;
  a.value_head = a.head;
  a.v_stride = a.k_stride;
  EXPECT_EQ((Heads{.stores = Heads::keys_as_values}.grid(a).y), 2u);  // 6 + 2 heads
  EXPECT_EQ((Heads{.q_norm = norm_rms, .over = Heads::all_heads, .stores = Heads::nothing}.grid(a).y), 1u);
  a.rows = 0;
  EXPECT_EQ(Heads{}.grid(a).x, 1u);
}

}  // namespace
}  // namespace heddle::kernels
