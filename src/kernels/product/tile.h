// Tiles: the layout of weights that GPU kernels read, whatever their format.
//
// A tile is 4096 values: 4, 8 or 16 rows x 1024, 512 or 256 columns. A matrix is padded with zeros to whole tiles;
// tile (tile_row, slice) lies at (tile_row * slices + slice) * tile_bytes(format). Inside a tile each field of the
// format's blocks (scales, quants, ...) is a plane of its own, in the order row, block within the row: all but the
// small fields can be read 16 bytes at a time, and no byte is added to what the file has. f32, f16 and bf16 count as
// blocks of 32 values whose fields are 16 bytes each.
#pragma once
#include <cstdint>
#include <vector>

#include "quant/format.h"

namespace heddle::kernels {

inline constexpr uint32_t tile_values = 4096;
uint32_t tile_bytes(quant::Format format);  // a multiple of 16. Throws an Error for what is not among known_formats.

// A field of a block: where it lies in the block as the file has it, and in a tile.
struct TilePlane {
  uint32_t from, bytes;  // of a block
  uint32_t at;           // where the plane begins in a tile
};
std::vector<TilePlane> tile_planes(quant::Format format);  // in the order of the file
uint32_t tile_block_values(quant::Format format);          // 32 for floats
uint32_t tile_block_bytes(quant::Format format);

struct TileShape {
  quant::Format format;
  uint32_t rows, cols, tile_cols;

  uint32_t tile_rows() const { return tile_values / tile_cols; }
  uint32_t row_tiles() const { return rows / tile_rows() + (rows % tile_rows() != 0); }
  uint32_t slices() const { return cols / tile_cols + (cols % tile_cols != 0); }
  uint64_t bytes() const { return uint64_t(row_tiles()) * slices() * tile_bytes(format); }
};
// The widest of 1024, 512 and 256 with 3 % of padding or less (8960 columns become 9216), else the one with the least
// padding.
uint32_t tile_cols_for(uint32_t cols);

}  // namespace heddle::kernels
