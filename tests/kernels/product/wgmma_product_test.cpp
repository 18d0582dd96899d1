// What wgmma_product refuses, that its shapes fit the SM, and that they assemble.
#include "kernels/product/wgmma_product.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

using quant::Format;

TEST(WgmmaProduct, RefusesWhatItCannotDo) {
  const WgmmaProduct spec;
  auto with = [&](auto&& change, WgmmaProduct s = {}) {
    Product::Args args{.x = {256}, .w = {512}, .rows = 7, .cols = 4096, .blocks = 132, .vectors = 9};
    change(args);
    return refusal(s, args);
  };
  EXPECT_EQ(with([](auto& a) { a.cols = 4097; }), "wgmma_product: 4097 columns, but 4 slices of 1024 are 4096");
  EXPECT_EQ(with([](auto& a) { a.x.address = 8; }), "wgmma_product: x and w must be 16-byte aligned, found 0x8");
  EXPECT_EQ(with([](auto& a) { a.blocks = 0; }), "wgmma_product: a grid of 0 blocks");
  EXPECT_EQ(with([](auto& a) { a.first_rows = 8; }), "wgmma_product: rows from 8 of 7");
  EXPECT_EQ(with([](auto&) {}, {.out = Product::gate}),
            "wgmma_product: 7 rows of gate and up, expected a multiple of 4");
  EXPECT_EQ(with([](auto&) {}, {.out = Product::qkv}), "wgmma_product: pages of 0 positions");
  EXPECT_EQ(refused([] { WgmmaProduct{.stage_cols = 512}.build(); }),
            "wgmma_product: strips of 256 columns are not stages of 512");
  EXPECT_EQ(refused([] { WgmmaProduct{.slices = 3, .shares = 16}.build(); }).substr(0, 28),
            "wgmma_product: shares = 16 i");
  EXPECT_EQ(refused([] { WgmmaProduct{.slices = 3, .col_groups = 2, .shares = 8}.build(); }),
            "wgmma_product: 12 runs, 2 of them and 3 stages in flight, do not divide by 8 blocks of 2 groups");
  EXPECT_EQ(refused([] { WgmmaProduct{.tile_cols = 512, .run = 4}.build(); }),
            "wgmma_product: runs of 1024 columns do not divide a tile of 512");
  EXPECT_EQ(refused([] { WgmmaProduct{.shares = 2, .experts = 1}.build(); }),
            "wgmma_product: experts are not shared by a cluster");
  EXPECT_EQ(refused([] { WgmmaProduct{.out = Product::add, .experts = 1}.build(); }),
            "wgmma_product: experts have no residual and no cache");
}

TEST(WgmmaProduct, TheGridHasABlockForEachTileUpToTheSms) {
  Product::Args args{.x = {256}, .w = {512}, .rows = 300, .cols = 4096, .blocks = 132, .vectors = 130};
  EXPECT_EQ((WgmmaProduct{.columns = 128, .row_groups = 2}.grid(args).x), 6u);
  EXPECT_EQ((WgmmaProduct{.columns = 64, .row_groups = 1, .shares = 2}.grid(args).x), 30u);
  args.rows = 30'000;
  EXPECT_EQ((WgmmaProduct{.columns = 128, .row_groups = 2}.grid(args).x), 132u);
  args.vectors = 0;  // an empty grid cannot be launched
  EXPECT_EQ(WgmmaProduct{}.grid(args).x, 1u);
}

// Every shape that may be chosen: shared memory, stages that divide, and registers. A group that asks for more of them
// than the block has would wait forever.
TEST(WgmmaProduct, ShapesFitTheSm) {
  for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16, Format::f32, Format::iq2_s})
    for (uint32_t cols : {256u, 768u, 1536u, 4096u, 8960u, 14336u})
      for (uint32_t vectors : {1u, 9u, 17u, 64u, 130u, 600u, 2048u})
        for (const WgmmaProduct& s : wgmma_product_candidates({.format = uint32_t(format)}, 4096, cols, vectors, 132)) {
          const uint32_t groups = s.row_groups * s.col_groups;
          EXPECT_TRUE(s.fits()) << field_text(s);
          EXPECT_LE(s.columns, std::max(8u, 2 * vectors - 1)) << field_text(s);
          if (!s.moves_registers()) continue;
          EXPECT_LE(s.registers() * groups + 24, s.first_registers() * (groups + 1)) << field_text(s);
        }
}

// iq2_s has the largest codebook, which lies in shared memory too.
TEST(WgmmaProduct, SharedMemoryIsNoMoreThanItSays) {
  for (Format format : {Format::q4_k, Format::iq2_s})
    for (uint32_t vectors : {40u, 136u, 256u, 2048u})
      for (const WgmmaProduct& s : wgmma_product_candidates({.format = uint32_t(format)}, 28672, 4096, vectors, 132))
        EXPECT_LE(s.build().shared_bytes, s.shared_bytes()) << field_text(s);
}

TEST(WgmmaProduct, ChosenShapesAssembleWithoutSpillsOrSerialisation) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::vector<WgmmaProduct> specs;
  for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16})
    for (uint32_t vectors : {16u, 24u, 64u, 512u, 2048u})
      for (uint32_t out : {Product::gate, Product::qkv})
        specs.push_back(wgmma_product_choice({.format = uint32_t(format), .out = out, .halves = 1, .chained = 1}, 6144,
                                             4096, vectors, 132));
  for (uint32_t vectors : {24u, 64u, 128u})
    specs.push_back(wgmma_product_choice({.out = Product::add, .chained = 1}, 4096, 14336, vectors, 132));
  for (Format format : {Format::q4_k, Format::q6_k})
    for (uint32_t vectors : {1u, 4u, 12u, 40u})
      specs.push_back(wgmma_product_choice({.format = uint32_t(format), .out = Product::gate, .experts = 1}, 1536, 2048,
                                           vectors, 132));
  const WgmmaProduct biased{.format = uint32_t(Format::mxfp4),
                            .out = Product::gate,
                            .activation = act_clamped_swiglu,
                            .bias = 1,
                            .experts = 1};
  for (uint32_t vectors : {8u, 24u, 64u}) specs.push_back(wgmma_product_choice(biased, 5760, 2880, vectors, 132));
  const std::vector<Assembled> all = expect_no_spills(specs, "sm_90a");
  for (size_t i = 0; i < all.size(); ++i) EXPECT_FALSE(all[i].serialized) << field_text(specs[i]) << "\n" << all[i].log;
}

}  // namespace
}  // namespace heddle::kernels
