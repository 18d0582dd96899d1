// Q4_K matrix times vector by value: the interpreted kernel against dequantised weights summed in f64.
#include "kernels/gemv.h"

#include <gtest/gtest.h>

#include "ptx/interpret.h"
#include "ptx/verify.h"
#include "tests/kernels/random_q4k.h"

namespace heddle::kernels {
namespace {

struct Shape {
  uint32_t warps, rows, cols;
};
void PrintTo(const Shape& s, std::ostream* out) {
  *out << s.warps << " warps, " << s.rows << " rows, " << s.cols << " columns";
}

class Q4KGemvByValue : public testing::TestWithParam<Shape> {};

TEST_P(Q4KGemvByValue, IsTheProduct) {
  const auto [warps, rows, cols] = GetParam();
  const Q4KGemv spec{.warps = warps};
  const ptx::Kernel kernel = spec.build();
  ptx::verify(kernel);

  std::mt19937 rng(rows * 1000 + cols + warps);
  std::normal_distribution<float> normal;
  const std::vector<uint8_t> w = random_q4k(rng, size_t(rows) * cols / quant::q4_k_values);
  std::vector<float> x(cols);
  for (auto& v : x) v = normal(rng) * (rng() % 50 ? 1.0f : 30.0f);  // with outliers, as activations have

  ptx::Memory memory;
  constexpr uint32_t guard = 40;  // values after y that must stay as they are
  auto y = memory.alloc<float>(rows + guard);
  const Q4KGemv::Args args{.y = y, .x = memory.put(x), .w = memory.put(w), .rows = rows, .cols = cols};
  const std::vector<float> before = memory.get(y, rows + guard);
  ptx::interpret(kernel, spec.grid(args), args, memory);
  const std::vector<float> got = memory.get(y, rows + guard);

  for (uint32_t r = 0; r < rows; ++r) {
    const Dot want = dot_q4k(w.data() + size_t(r) * (cols / 256) * quant::q4_k_bytes, x.data(), cols);
    // a lane adds 8 products per block, each of three roundings, then five sums across the warp
    const double bound = (8.0 * (cols / 256) + 8) * 0x1p-24 * want.magnitude;
    EXPECT_NEAR(got[r], want.sum, bound) << "row " << r;
  }
  EXPECT_EQ(std::memcmp(got.data() + rows, before.data() + rows, guard * sizeof(float)), 0) << "wrote behind y";
}

INSTANTIATE_TEST_SUITE_P(Shapes, Q4KGemvByValue,
                         testing::Values(Shape{1, 1, 256}, Shape{4, 1, 256}, Shape{4, 4, 512}, Shape{4, 5, 256},
                                         Shape{4, 7, 1024}, Shape{3, 10, 512}, Shape{8, 17, 768}, Shape{32, 33, 256},
                                         Shape{2, 64, 2048}, Shape{1, 3, 4096}));

TEST(Q4KGemv, NoRowsTouchNothing) {
  const Q4KGemv spec;
  ptx::Memory memory;
  auto y = memory.alloc<float>(8);
  const Q4KGemv::Args args{
      .y = y, .x = memory.alloc<float>(256), .w = memory.alloc<uint8_t>(0), .rows = 0, .cols = 256};
  const std::vector<float> before = memory.get(y, 8);
  const ptx::Grid grid = spec.grid(args);
  EXPECT_EQ(grid.x, 1u);
  ptx::interpret(spec.build(), grid, args, memory);
  const std::vector<float> after = memory.get(y, 8);
  EXPECT_EQ(std::memcmp(after.data(), before.data(), 8 * sizeof(float)), 0);
}

TEST(Q4KGemv, NoColumnsGiveZeros) {
  const Q4KGemv spec;
  ptx::Memory memory;
  auto y = memory.alloc<float>(3);
  const Q4KGemv::Args args{.y = y, .x = memory.alloc<float>(4), .w = memory.alloc<uint8_t>(16), .rows = 3, .cols = 0};
  ptx::interpret(spec.build(), spec.grid(args), args, memory);
  EXPECT_EQ(memory.get(y, 3), std::vector<float>(3, 0.0f));
}

TEST(Q4KGemv, RefusesWhatItCannotDo) {
  const Q4KGemv spec;
  EXPECT_THROW(spec.grid({.y = {}, .x = {}, .w = {}, .rows = 1, .cols = 100}), Error);
  EXPECT_THROW(spec.grid({.y = {}, .x = {}, .w = {8}, .rows = 1, .cols = 256}), Error);
  EXPECT_THROW(Q4KGemv{.warps = 33}.build(), Error);
  EXPECT_EQ(spec.grid({.y = {}, .x = {}, .w = {}, .rows = 0xffffffff, .cols = 256}).x, 0x40000000u);
}

TEST(Q4KGemv, SpecsAreKeys) {
  EXPECT_EQ(Q4KGemv{}, Q4KGemv{.warps = 4});
  EXPECT_LT(Q4KGemv{.warps = 4}, Q4KGemv{.warps = 8});
}

}  // namespace
}  // namespace heddle::kernels
