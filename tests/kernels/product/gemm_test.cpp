// What gemm refuses, and that what is chosen for a size fits and does not spill.
#include "kernels/product/gemm.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

Gemm::Args product(uint32_t m, uint32_t n, uint32_t k) {
  const uint32_t ld = (k + 63) / 64 * 64;
  return {.m = m, .n = n, .k = k, .lda = ld, .ldb = ld, .y_stride = n + n % 2};
}

TEST(Gemm, RefusesTilesThatItsWarpsCannotShare) {
  auto build = [](const Gemm& spec) { return refused([&] { spec.build(); }); };
  EXPECT_EQ(build({.rows = 32, .warps_down = 4}), "gemm: 32 rows cannot be dealt to 4 warps in multiples of 16");
  EXPECT_EQ(build({.cols = 32, .warps_along = 4}), "gemm: 32 columns cannot be dealt to 4 warps in multiples of 16");
  EXPECT_EQ(build({.rows = 256, .cols = 256, .warps_down = 8, .warps_along = 8}), "gemm: 8 x 8 warps are more than 32");
  EXPECT_EQ(build({.rows = 128, .cols = 256, .warps_along = 2}),
            "gemm: 128 x 256 values are more than 128 for each of 128 threads");
  EXPECT_EQ(build({.rows = 16, .cols = 64, .warps_down = 1, .warps_along = 4, .depth = 32}),
            "gemm: 128 threads copy 32 rows at a time, but 16 rows and 64 columns must be multiples of that and 8");
  EXPECT_EQ(build({.depth = 48}), "gemm: depth = 48 is not possible; it may be 32, 64");
}

TEST(Gemm, RefusesSizesWithTheFieldAndWhatItMustBe) {
  const Gemm spec;
  auto grid = [&](auto&& change) {
    Gemm::Args args = product(100, 200, 300);
    change(args);
    return refused([&] { spec.grid(args); });
  };
  EXPECT_EQ(grid([](auto&) {}), "");
  EXPECT_EQ(grid([](auto& a) { a.k = 0; }), "gemm: k is 0, but a product has at least one term");
  EXPECT_EQ(grid([](auto& a) { a.lda = 350; }), "gemm: lda is 350, but it must be a multiple of 64 and at least 300");
  EXPECT_EQ(grid([](auto& a) { a.ldb = 256; }), "gemm: ldb is 256, but it must be a multiple of 64 and at least 300");
  EXPECT_EQ(grid([](auto& a) { a.y_stride = 201; }),
            "gemm: y_stride is 201, but it must be a multiple of 2 and at least 200");
  EXPECT_EQ(grid([](auto& a) { a.b.address = 8; }), "gemm: a and b must be 16-byte aligned, y 8-byte aligned");
  EXPECT_EQ(grid([](auto& a) { a.m = a.n = a.y_stride = 0xfffffffe; }),
            "gemm: 1125899906842624 tiles, but a grid has at most 2147483647");
}

TEST(Gemm, HasOneBlockPerTile) {
  const Gemm spec;
  EXPECT_EQ(spec.grid(product(129, 257, 1)).x, 6u);
  EXPECT_EQ(spec.grid(product(0, 257, 1)).x, 1u);
}

// Large products get the tile that reads the least, small ones tiles enough for all SMs.
TEST(Gemm, ChoosesTilesThatFit) {
  auto tile = [](uint32_t m, uint32_t n, uint32_t k) {
    const Gemm spec = gemm_choice(m, n, k, 132);
    return std::pair(spec.rows, spec.cols);
  };
  EXPECT_EQ(tile(2048, 4096, 4096), std::pair(128u, 256u));
  EXPECT_EQ(tile(2048, 28672, 4096), std::pair(128u, 256u));
  EXPECT_EQ(tile(16, 4096, 4096), std::pair(16u, 32u));
  EXPECT_EQ(tile(64, 4096, 4096).first, 64u);
  for (uint32_t shared : {232'448u, 166'912u, 101'376u})
    for (uint32_t m : {1u, 16u, 17u, 60u, 128u, 500u, 4096u, 0xffffffffu})
      for (uint32_t n : {1u, 512u, 4096u, 128'256u})
        EXPECT_LE(gemm_choice(m, n, 4096, 132, shared).shared_bytes(), shared) << m << " " << n;
  EXPECT_EQ(refused([] { gemm_choice(1, 1, 1, 132, 1000); }), "gemm: no tile fits 1000 bytes of shared memory");
}

TEST(Gemm, ChoicesAssembleWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::set<Gemm> seen;
  for (uint32_t m : {8u, 20u, 60u, 128u, 500u, 4096u})
    for (uint32_t n : {64u, 1024u, 4096u, 28'672u}) seen.insert(gemm_choice(m, n, 4096, 132));
  EXPECT_GE(seen.size(), 6u);
  std::vector<Gemm> specs(seen.begin(), seen.end());
  for (Gemm& spec : specs) spec.add = spec.bias = spec.chained = 1;
  expect_no_spills(specs, "sm_90a");
  expect_no_spills(std::vector{gemm_choice(4096, 4096, 4096, 108, 166'912)}, "sm_80");
  expect_no_spills(std::vector{gemm_choice(4096, 4096, 4096, 128, 101'376)}, "sm_89");
}

}  // namespace
}  // namespace heddle::kernels
