// half_rows: what it refuses.
#include "kernels/product/activations.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {

// What half_rows refuses, and what is chosen for a size.

namespace {

TEST(HalfRows, RefusesWithTheFieldAndWhatItMustBe) {
  const HalfRows spec;
  auto grid = [&](auto&& change) {
    HalfRows::Args args{.rows = 3, .cols = 200, .x_stride = 204, .ld = 256};
    change(args);
    return refused([&] { spec.grid(args); });
  };
  EXPECT_EQ(grid([](auto&) {}), "");
  EXPECT_EQ(grid([](auto& a) { a.cols = 202; }),
            "half_rows: 202 columns every 204, but with vec = 4 both must be positive multiples of that");
  EXPECT_EQ(grid([](auto& a) { a.x_stride = 100; }),
            "half_rows: 200 columns every 100, but with vec = 4 both must be positive multiples of that");
  EXPECT_EQ(grid([](auto& a) { a.ld = 192; }),
            "half_rows: ld is 192, but it must be a multiple of 64 and at least 200");
  EXPECT_EQ(grid([](auto& a) { a.ld = 8192; }), "half_rows: 256 threads hold 4 loads of 4 values each, but ld is 8192");
  EXPECT_EQ(grid([](auto& a) { a.x.address = 8; }), "half_rows: x, weight and bias must be 16-byte aligned");
  EXPECT_EQ(refused([] { HalfRows{.held = 32}.build(); }),
            "half_rows: 32 loads of 4 values are more than 64 for a thread");
  EXPECT_EQ(refused([] { HalfRows{.plus_one = 1}.build(); }), "half_rows: plus_one is for a weight, but there is none");
}

TEST(HalfRows, ChoosesWhatHoldsTheRow) {
  for (uint32_t cols : {1u, 2u, 64u, 768u, 4095u, 4096u, 14'336u, 32'768u, 65'536u}) {
    const uint32_t ld = (cols + 63) / 64 * 64;
    const HalfRows spec = half_rows_choice(cols, cols, ld);
    EXPECT_GE(spec.threads * spec.vec * spec.held, ld) << cols;
    EXPECT_NO_THROW(spec.build()) << cols;
    EXPECT_NO_THROW(spec.grid({.rows = 1, .cols = cols, .x_stride = cols, .ld = ld})) << cols;
  }
  EXPECT_EQ(half_rows_choice(4096, 4098, 4096).vec, 2u);
  EXPECT_EQ(refused([] { half_rows_choice(65'537, 65'537, 65'600); }),
            "half_rows: rows of 65600 are too long with vec = 1");
}

TEST(HalfRows, EveryValueHasAPlaceOfItsOwnAsAnOperand) {
  for (uint32_t apart : {16u, 32u, 64u, 128u})
    for (uint32_t group : {8u, 32u}) {
      const uint32_t rows = group * 2, ld = 512;
      std::set<uint64_t> seen;
      for (uint32_t r = 0; r < rows; ++r)
        for (uint32_t c = 0; c < ld; ++c) seen.insert(operand_place(r, c, apart, group, ld));
      EXPECT_EQ(seen.size(), size_t(rows) * ld);
      EXPECT_EQ(*seen.rbegin(), uint64_t(rows) * ld - 1);
    }
}

}  // namespace

}  // namespace heddle::kernels
