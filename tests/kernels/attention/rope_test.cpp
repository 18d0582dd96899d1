// What RoPE refuses, and its grid.
#include "kernels/attention/rope.h"

#include <gtest/gtest.h>

namespace heddle::kernels {
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
}  // namespace heddle::kernels
