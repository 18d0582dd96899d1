// What mma_tiles refuses, that its shapes fit every GPU, and that they assemble.
#include "kernels/product/mma_tiles.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

using quant::Format;

constexpr uint32_t kb = 1024;

TEST(MmaTiles, RefusesWhatItCannotDo) {
  auto with = [&](auto&& change, MmaTiles s = {}) {
    Product::Args args{.x = {256}, .w = {512}, .rows = 7, .cols = 4096, .blocks = 132, .vectors = 9};
    change(args);
    return refusal(s, args);
  };
  EXPECT_EQ(with([](auto& a) { a.cols = 4097; }), "mma_tiles: 4097 columns, but 4 slices of 1024 are 4096");
  EXPECT_EQ(with([](auto& a) { a.x.address = 8; }), "mma_tiles: x and w must be 16-byte aligned, found 0x8");
  EXPECT_EQ(with([](auto& a) { a.blocks = 0; }), "mma_tiles: a grid of 0 blocks");
  EXPECT_EQ(with([](auto& a) { a.first_rows = 8; }), "mma_tiles: rows from 8 of 7");
  EXPECT_EQ(with([](auto&) {}, {.out = Product::gate}), "mma_tiles: 7 rows of gate and up, expected a multiple of 4");
  EXPECT_EQ(with([](auto&) {}, {.out = Product::qkv}), "mma_tiles: pages of 0 positions");
  EXPECT_EQ(refused([] { MmaTiles{.row_warps = 8, .col_warps = 2, .stage_cols = 128}.build(); }),
            "mma_tiles: 16 warps, 8 at most");
  EXPECT_EQ(refused([] { MmaTiles{.col_warps = 2}.build(); }),
            "mma_tiles: 4096 columns do not divide into 3 stages of 64 for 4 x 2 warps");
  EXPECT_EQ(refused([] { MmaTiles{.slices = 1, .row_warps = 1, .col_warps = 8, .stage_cols = 128}.build(); }), "");
  EXPECT_EQ(refused([] {
              MmaTiles{.tile_cols = 512, .slices = 1, .row_warps = 1, .col_warps = 8, .stage_cols = 128}.build();
            }),
            "mma_tiles: 512 columns do not divide into 3 stages of 128 for 1 x 8 warps");
  EXPECT_EQ(refused([] { MmaTiles{.async = 0}.build(); }),
            "mma_tiles: 4096 columns do not divide into 3 stages of 64 for 4 x 1 warps");
  EXPECT_EQ(refused([] { MmaTiles{.out = Product::add, .experts = 1}.build(); }),
            "mma_tiles: experts have no residual and no cache");
  EXPECT_EQ(refused([] { MmaTiles{.y_apart = 32}.build(); }), "mma_tiles: y_bf16 and y_apart are for act and gate");
}

TEST(MmaTiles, TheGridHasABlockForEachTileUpToWhatIsAskedFor) {
  Product::Args args{.x = {256}, .w = {512}, .rows = 300, .cols = 4096, .blocks = 132, .vectors = 130};
  EXPECT_EQ((MmaTiles{.columns = 128, .row_tiles = 2, .row_warps = 4}.grid(args).x), 6u);
  EXPECT_EQ((MmaTiles{.columns = 64, .row_tiles = 1, .row_warps = 4}.grid(args).x), 15u);
  args.rows = 30'000;
  EXPECT_EQ(MmaTiles{}.grid(args).x, 132u);
  args.vectors = 0;  // an empty grid cannot be launched
  EXPECT_EQ(MmaTiles{}.grid(args).x, 1u);
}

TEST(MmaTiles, ThereIsAShapeForEveryFormatAndGpu) {
  for (Format format : known_formats)
    for (uint32_t shared : {64 * kb, 99 * kb, 163 * kb, 227 * kb})
      for (uint32_t cols : {256u, 768u, 1536u, 4096u, 8960u, 14336u})
        for (uint32_t vectors : {1u, 17u, 130u, 2048u}) {
          const MmaTiles what{.format = uint32_t(format), .async = shared > 64 * kb};
          const MmaTiles s = mma_tiles_choice(what, 4096, cols, vectors, 132, shared);
          EXPECT_TRUE(s.fits(shared)) << field_text(s);
          EXPECT_EQ(s.filled_cols() / s.tile_cols, (cols + s.tile_cols - 1) / s.tile_cols);
          EXPECT_LE(s.columns, std::max(16u, 2 * vectors - 1)) << field_text(s);
        }
}

// iq2_s has the largest codebook, which lies in shared memory too.
TEST(MmaTiles, SharedMemoryIsNoMoreThanItSays) {
  for (Format format : {Format::q4_k, Format::iq2_s})
    for (uint32_t vectors : {32u, 512u})
      for (const MmaTiles& s : mma_tiles_candidates({.format = uint32_t(format)}, 28672, 4096, vectors, 132, 99 * kb))
        EXPECT_LE(s.build().shared_bytes, s.shared_bytes()) << field_text(s);
}

std::vector<MmaTiles> chosen_shapes(uint32_t shared) {
  std::set<MmaTiles> specs;
  for (Format format : {Format::q4_k, Format::q6_k, Format::f16})
    for (uint32_t vectors : {24u, 512u, 2048u})
      for (uint32_t out : {Product::gate, Product::qkv})
        specs.insert(
            mma_tiles_choice({.format = uint32_t(format), .out = out, .halves = 1}, 6144, 4096, vectors, 132, shared));
  for (uint32_t vectors : {32u, 512u})
    specs.insert(mma_tiles_choice({.out = Product::add}, 4096, 14336, vectors, 132, shared));
  for (uint32_t vectors : {8u, 40u})
    specs.insert(mma_tiles_choice({.out = Product::gate, .experts = 1}, 1536, 2048, vectors, 132, shared));
  return {specs.begin(), specs.end()};
}

TEST(MmaTiles, ChosenShapesAssembleWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  for (const char* target : {"sm_80", "sm_86"})
    expect_no_spills(chosen_shapes(ptx::target(target).max_shared_bytes), target);
}

// For sm_120 ptxas spills a few words of an ending, once in a tile.
TEST(MmaTiles, ChosenShapesAssembleForTheNewestGpu) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  const ptx::Target& target = ptx::target("sm_120");
  const std::vector<MmaTiles> specs = chosen_shapes(target.max_shared_bytes);
  std::vector<std::string> texts;
  for (const MmaTiles& spec : specs) texts.push_back(ptx::print(spec.build(), target, {.lines = false}));
  const std::vector<Assembled> results = ptx::assemble_all(texts, target.name.c_str());
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_TRUE(results[i].ok) << field_text(specs[i]) << "\n" << results[i].log;
    EXPECT_LE(results[i].spill_bytes, 64u) << field_text(specs[i]);
  }
}

}  // namespace
}  // namespace heddle::kernels
