// The product on the matrix units: what it refuses, the order of its vectors, and the shapes that are chosen for it.
#include "kernels/product/mma_product.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/product/activations.h"
#include "tests/kernels/refusal.h"
#include "tests/kernels/small_gpus.h"

namespace heddle::kernels {
namespace {

using quant::Format;

TEST(MmaProduct, RefusesWhatItCannotDo) {
  const MmaProduct spec{.slices = 4};
  const Product::Args good{.y = {256}, .x = {512}, .w = {1024}, .rows = 7, .cols = 4096, .blocks = 3, .vectors = 9};
  EXPECT_EQ(spec.grid(good).x, 3u);
  EXPECT_EQ(spec.grid(good).y, 2u);
  auto with = [&](auto&& change, MmaProduct changed = {}) {
    Product::Args args = good;
    change(args);
    return refusal(changed, args);
  };
  EXPECT_EQ(with([](auto& a) { a.cols = 4097; }), "mma_product: 4097 columns, but 4 slices of 1024 are 4096");
  EXPECT_EQ(with([](auto& a) { a.x.address = 8; }), "mma_product: x and w must be 16-byte aligned, found 0x8");
  EXPECT_EQ(with([](auto& a) { a.blocks = 0; }), "mma_product: a grid of 0 blocks");
  EXPECT_EQ(with([](auto& a) { a.first_rows = 8; }), "mma_product: rows from 8 of 7");
  EXPECT_EQ(with([](auto&) {}, {.out = Product::gate}), "mma_product: 7 rows of gate and up, expected a multiple of 4");
  EXPECT_EQ(with([](auto&) {}, {.out = Product::qkv}), "mma_product: pages of 0 positions");
  EXPECT_THROW((MmaProduct{.band = 48, .teams = 2}.build()), Error);
  EXPECT_THROW((MmaProduct{.y_bf16 = 1}.build()), Error);
}

TEST(MmaProduct, ChosenShapesFitAndDoNotSpill) {
  std::set<MmaProduct> seen;
  for (Format format : {Format::q4_k, Format::q5_k, Format::q6_k, Format::q8_0, Format::f16, Format::f32, Format::q3_k,
                        Format::iq2_xxs})
    for (uint32_t vectors : {3u, 8u, 16u, 33u})
      for (const auto& [rows, cols] : {std::pair{6144u, 4096u}, {28672u, 4096u}, {2048u, 8192u}, {151936u, 1536u}}) {
        const MmaProduct what{
            .format = uint32_t(format), .out = cols == 8192 ? Product::add : Product::gate, .chained = 1};
        const MmaProduct s = mma_product_choice(what, rows, cols, vectors, 132);
        EXPECT_TRUE(s.fits()) << field_text(s);
        EXPECT_GE(s.slices * s.tile_cols, cols);
        if (!seen.insert(s).second) continue;
        EXPECT_LE(s.build().shared_bytes * s.resident, 227u * 1024) << field_text(s);
      }
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH: shapes were not assembled";
  expect_no_spills(std::vector(seen.begin(), seen.end()), "sm_90a");
}

// Where weights do not fit, x alone goes through shared memory.
TEST(MmaProduct, ChosenShapesFitSmallerGpusSlow) {
  for (const SmallGpu& gpu : small_gpus()) {
    std::set<MmaProduct> seen;
    for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16, Format::f32, Format::iq2_xxs})
      for (uint32_t vectors : {3u, 16u, 33u})
        for (const auto& [rows, cols] : {std::pair{28672u, 4096u}, {4096u, 14336u}, {151936u, 1536u}}) {
          const MmaProduct what{.format = uint32_t(format),
                                .copies = copies_on(gpu.limits),
                                .out = cols == 4096 ? Product::gate : Product::add};
          const MmaProduct s = mma_product_choice(what, rows, cols, vectors, 40, gpu.limits);
          EXPECT_LE(s.build().shared_bytes * s.resident, gpu.limits.shared_per_block) << gpu.target << field_text(s);
          EXPECT_FALSE(s.direct && format == Format::q4_k) << gpu.target << field_text(s);
          seen.insert(s);
        }
    if (ptxas_found()) expect_no_spills(std::vector(seen.begin(), seen.end()), gpu.target);
  }
}

}  // namespace
}  // namespace heddle::kernels
