// Tiles: their sizes, and what is refused. tests/proof has what is read of them.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/ptxas.h"
#include "kernels/layer/embedding.h"
#include "kernels/product/tile_pack.h"
#include "kernels/product/tile_unpack.h"
#include "ptx/print.h"
#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

using quant::Format;

TEST(Tile, AddsNoByteAndPlanesAreAligned) {
  for (Format f : known_formats) {
    EXPECT_EQ(tile_bytes(f), quant::row_bytes(f, tile_values)) << quant::name(f);
    EXPECT_EQ(tile_bytes(f) % 16, 0u) << quant::name(f);
    uint32_t from = 0;
    for (const TilePlane& plane : tile_planes(f)) {
      EXPECT_EQ(plane.from, from) << quant::name(f);
      EXPECT_EQ(plane.at % 16, 0u) << quant::name(f);
      from += plane.bytes;
    }
    EXPECT_EQ(from, tile_block_bytes(f)) << quant::name(f);
  }
  for (Format f : {Format::f64, Format::i8, Format::i64}) EXPECT_THROW(tile_bytes(f), Error) << quant::name(f);
}

TEST(Tile, ShapesFillUp) {
  const TileShape shape{Format::q4_k, 17, 4352, 256};
  EXPECT_EQ(shape.tile_rows(), 16u);
  EXPECT_EQ(shape.row_tiles(), 2u);
  EXPECT_EQ(shape.slices(), 17u);
  EXPECT_EQ(shape.bytes(), 2ull * 17 * 2304);
  EXPECT_EQ((TileShape{Format::f16, 0, 77, 512}).bytes(), 0u);
  EXPECT_EQ((TileShape{Format::q8_0, 300'000, 16'384, 1024}).bytes(), 300'000ull * 16'384 / 32 * 34);
}

TEST(Tile, AsWideAsTheColumnsAllow) {
  EXPECT_EQ(tile_cols_for(4096), 1024u);
  EXPECT_EQ(tile_cols_for(8960), 1024u);  // 2.9 % are filled up
  EXPECT_EQ(tile_cols_for(1536), 512u);
  EXPECT_EQ(tile_cols_for(2816), 256u);
  EXPECT_EQ(tile_cols_for(896), 1024u);  // each width fills up 128
  EXPECT_EQ(tile_cols_for(77), 256u);
  EXPECT_EQ(tile_cols_for(0), 1024u);
}

TEST(Tile, KernelsAssembleForEveryFormatWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  auto expect = [](const ptx::Kernel& kernel, Format f) {
    const Assembled assembled = assemble(ptx::print(kernel, ptx::target("sm_90a")), "sm_90a");
    EXPECT_TRUE(assembled.ok) << kernel.name << " " << quant::name(f) << assembled.log;
    EXPECT_EQ(assembled.spill_bytes, 0u) << kernel.name << " " << quant::name(f);
  };
  for (Format f : known_formats) {
    expect(TileUnpack{.format = uint32_t(f), .chained = 1}.build(), f);
    expect(Embedding{.format = uint32_t(f), .add = 1, .chained = 1}.build(), f);
  }
  for (Format f : {Format::f32, Format::f16, Format::q6_k, Format::mxfp4, Format::iq2_s})  // units of 1, 2 and 4 bytes
    expect(TilePack{.format = uint32_t(f)}.build(), f);
}

TEST(TilePack, RefusesWhatItCannotDo) {
  const TilePack spec{.format = uint32_t(Format::q6_k)};
  const TilePack::Args good{.to = {256}, .from = {514}, .order = {}, .rows = 300'000, .cols = 16'384};
  EXPECT_EQ(spec.grid(good).x, 75'000u * 16);
  EXPECT_EQ(spec.grid({.to = {256}, .from = {512}, .order = {}, .rows = 0, .cols = 256}).x, 1u);
  auto with = [&](auto&& change) {
    TilePack::Args args = good;
    change(args);
    return refusal(spec, args);
  };
  EXPECT_EQ(with([](auto& a) { a.cols = 250; }), "tile_pack: 250 columns of q6_k are not a positive multiple of 256");
  EXPECT_EQ(with([](auto& a) { a.cols = 0; }), "tile_pack: 0 columns of q6_k are not a positive multiple of 256");
  EXPECT_EQ(
      with([](auto& a) { a.from.address = 513; }),
      "tile_pack: the addresses of to, from and order are 0x100, 0x201 and 0x0, expected multiples of 16, 2 and 4");
  EXPECT_EQ(with([](auto& a) { a.rows = 4'000'000'000, a.cols = 1 << 20; }),
            "tile_pack: 4000000000 x 1048576 values are too many for one launch");
}

TEST(TileUnpack, RefusesWhatItCannotDo) {
  const TileUnpack spec{.tile_cols = 512};
  const TileUnpack::Args good{.to = {256}, .w = {512}, .order = {}, .rows = 9, .cols = 512, .ld = 576, .first = 16};
  EXPECT_EQ(spec.grid(good).x, 2u * 2);
  auto with = [&](auto&& change) {
    TileUnpack::Args args = good;
    change(args);
    return refusal(spec, args);
  };
  EXPECT_EQ(with([](auto& a) { a.cols = 500; }), "tile_unpack: 500 columns of q4_k are not a positive multiple of 256");
  EXPECT_EQ(with([](auto& a) { a.ld = 448; }), "tile_unpack: ld is 448, expected a multiple of 64 that is 512 or more");
  EXPECT_EQ(with([](auto& a) { a.ld = 520; }), "tile_unpack: ld is 520, expected a multiple of 64 that is 512 or more");
  EXPECT_EQ(with([](auto& a) { a.first = 4; }), "tile_unpack: first is 4, expected a multiple of 8");
  EXPECT_EQ(with([](auto& a) { a.w.address = 8; }),
            "tile_unpack: the addresses of to, w and order are 0x100, 0x8 and 0x0, expected multiples of 16, 16 and 4");
}

}  // namespace
}  // namespace heddle::kernels
