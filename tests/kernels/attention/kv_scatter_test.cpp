// What kv_scatter refuses: pages, strides and alignments.
#include "kernels/attention/kv_scatter.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
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
}  // namespace heddle::kernels
