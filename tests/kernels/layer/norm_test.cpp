// RMSNorm by value: the interpreted kernel against f64.
#include "kernels/layer/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ptx/interpret.h"
#include "ptx/verify.h"
#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

struct Shape {
  uint32_t threads, vec, rows, cols;
};
void PrintTo(const Shape& s, std::ostream* out) {
  *out << s.threads << " threads, " << s.vec << " per load, " << s.rows << " rows, " << s.cols << " columns";
}

class RmsNormByValue : public testing::TestWithParam<Shape> {};

TEST_P(RmsNormByValue, IsTheNorm) {
  const auto [threads, vec, rows, cols] = GetParam();
  const RmsNorm spec{.threads = threads, .vec = vec};
  const ptx::Kernel kernel = spec.build();
  ptx::verify(kernel);

  std::mt19937 rng(rows * 1000 + cols + threads);
  std::normal_distribution<float> normal;
  const size_t values = size_t(rows) * cols;
  std::vector<float> x(values), w(cols);
  for (uint32_t r = 0; r < rows; ++r) {
    const float size = r == 1 ? 0.0f : std::ldexp(1.0f, int(rng() % 20) - 10);  // a row of zeros too
    for (uint32_t c = 0; c < cols; ++c) x[size_t(r) * cols + c] = normal(rng) * size;
  }
  for (auto& v : w) v = 1 + 0.3f * normal(rng);

  ptx::Memory memory;
  constexpr uint32_t guard = 64;  // values after y that must stay as they are
  auto y = memory.alloc<float>(values + guard);
  const RmsNorm::Args args{.y = y, .x = memory.put(x), .w = memory.put(w), .rows = rows, .cols = cols, .eps = 1e-5f};
  const std::vector<float> before = memory.get(y, values + guard);
  ptx::interpret(kernel, spec.grid(args), args, memory);
  const std::vector<float> got = memory.get(y, values + guard);

  // half the relative error of the sum (a thread adds `terms` squares, then 5 steps in the warp, then the warps), the
  // division, eps, rsqrt.approx (2^-22) and two products
  const double terms = std::ceil(double(cols) / threads);
  const double bound = ((terms + 5 + threads / 32) / 2 + 8) * 0x1p-24;
  for (uint32_t r = 0; r < rows; ++r) {
    const float* row = x.data() + size_t(r) * cols;
    double squares = 0;
    for (uint32_t c = 0; c < cols; ++c) squares += double(row[c]) * row[c];
    const double scale = 1 / std::sqrt(squares / cols + double(1e-5f));
    for (uint32_t c = 0; c < cols; ++c) {
      const double want = row[c] * scale * w[c];
      ASSERT_NEAR(got[size_t(r) * cols + c], want, bound * std::abs(want)) << "row " << r << ", column " << c;
    }
  }
  EXPECT_EQ(std::memcmp(got.data() + values, before.data() + values, guard * sizeof(float)), 0) << "wrote behind y";
}

INSTANTIATE_TEST_SUITE_P(Shapes, RmsNormByValue,
                         testing::Values(Shape{32, 1, 1, 1}, Shape{256, 1, 1, 1}, Shape{256, 1, 3, 1000},
                                         Shape{64, 1, 5, 63}, Shape{128, 1, 2, 129}, Shape{1024, 1, 2, 2049},
                                         Shape{32, 1, 40, 96}, Shape{256, 1, 7, 4097}, Shape{256, 2, 3, 1002},
                                         Shape{256, 4, 4, 1024}, Shape{96, 4, 3, 1236}, Shape{512, 4, 2, 8192},
                                         Shape{256, 4, 1, 4}, Shape{64, 2, 33, 2}));

TEST(RmsNorm, NoRowsTouchNothing) {
  const RmsNorm spec;
  ptx::Memory memory;
  auto y = memory.alloc<float>(8);
  const RmsNorm::Args args{
      .y = y, .x = memory.alloc<float>(0), .w = memory.alloc<float>(8), .rows = 0, .cols = 8, .eps = 0};
  const std::vector<float> before = memory.get(y, 8);
  const ptx::Grid grid = spec.grid(args);
  EXPECT_EQ(grid.x, 1u);
  ptx::interpret(spec.build(), grid, args, memory);
  const std::vector<float> after = memory.get(y, 8);
  EXPECT_EQ(std::memcmp(after.data(), before.data(), 8 * sizeof(float)), 0);
}

TEST(RmsNorm, RefusesWhatItCannotDo) {
  EXPECT_THROW((RmsNorm{.threads = 33}.build()), Error);
  EXPECT_THROW((RmsNorm{.threads = 0}.build()), Error);
  EXPECT_THROW((RmsNorm{.vec = 3}.build()), Error);
  const RmsNorm wide{.vec = 4};
  EXPECT_THROW(wide.grid({.y = {}, .x = {}, .w = {}, .rows = 1, .cols = 6, .eps = 0}), Error);
  EXPECT_THROW(wide.grid({.y = {}, .x = {}, .w = {}, .rows = 1, .cols = 0, .eps = 0}), Error);
}

TEST(RmsNorm, SpecsAreKeys) {
  EXPECT_EQ(RmsNorm{}, (RmsNorm{.threads = 256, .vec = 1}));
  EXPECT_NE(RmsNorm{}, (RmsNorm{.threads = 256, .vec = 4}));
}

TEST(NormAdd, RefusesEmptyRows) {
  EXPECT_EQ(refusal(NormAdd{}, {.h = {}, .y = {}, .weight = {}, .bias = {}, .rows = 2, .cols = 0}),
            "norm_add: rows of 0 columns");
  EXPECT_EQ(NormAdd{}.grid({.h = {}, .y = {}, .weight = {}, .bias = {}, .rows = 0, .cols = 8}).x, 1u);
}

TEST(NormSum, RefusesEmptyRows) {
  EXPECT_EQ(refusal(NormSum{}, {.rows = 2, .cols = 0, .a_epsilon = 0, .b_epsilon = 0, .epsilon = 0}),
            "norm_sum: rows of 0 columns");
}

TEST(MatchLength, RefusesEmptyRowsAndNoLength) {
  EXPECT_EQ(refusal(MatchLength{}, {.y = {}, .p = {}, .x = {}, .rows = 2, .cols = 0, .least = 1}),
            "match_length: rows of 0 columns");
  EXPECT_EQ(refusal(MatchLength{}, {.y = {}, .p = {}, .x = {}, .rows = 2, .cols = 8, .least = 0}),
            "match_length: a mean square of 0 at least, expected one above 0");
}

}  // namespace
}  // namespace heddle::kernels
