// Sizes of tiles and of their planes. tests/proof/format/weights_test.cpp reads them.
#include "kernels/product/tile.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/format/block_format.h"

namespace heddle::kernels {
namespace {

using quant::Format;

TEST(Tile, AddsNoByteAndPlanesAreAligned) {
  for (Format f : known_formats) {
    EXPECT_EQ(tile_bytes(f), quant::row_bytes(f, tile_values)) << quant::name(f);
    EXPECT_EQ(tile_bytes(f) % 16, 0u) << quant::name(f);
    for (uint32_t cols : {256u, 512u, 1024u}) {
      uint32_t from = 0;
      for (const TilePlane& plane : tile_planes(f, cols)) {
        EXPECT_EQ(plane.from, from) << quant::name(f);
        EXPECT_EQ(plane.at % 16, 0u) << quant::name(f);
        from += plane.bytes;
      }
      EXPECT_EQ(from, tile_block_bytes(f)) << quant::name(f);
      const TileStrip strip = tile_strip(f, cols);
      EXPECT_EQ(strip.bytes * (cols / strip.cols), tile_bytes(f)) << quant::name(f);
      EXPECT_EQ(strip.bytes % 16, 0u) << quant::name(f);
      EXPECT_EQ(strip.rows * cols, tile_values) << quant::name(f);
      EXPECT_LE(strip.cols, std::min(cols, 512u)) << quant::name(f);
    }
  }
  for (Format f : {Format::f64, Format::i8, Format::i64}) EXPECT_THROW(tile_bytes(f), Error) << quant::name(f);
}

TEST(Tile, ShapesArePaddedToWholeTiles) {
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
  EXPECT_EQ(tile_cols_for(8960), 1024u);  // 2.9 % are padding
  EXPECT_EQ(tile_cols_for(1536), 512u);
  EXPECT_EQ(tile_cols_for(2816), 256u);
  EXPECT_EQ(tile_cols_for(896), 1024u);  // each width adds a padding of 128
  EXPECT_EQ(tile_cols_for(77), 256u);
  EXPECT_EQ(tile_cols_for(0), 1024u);
}

}  // namespace
}  // namespace heddle::kernels
