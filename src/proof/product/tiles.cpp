// Tiles on the host, byte by byte.
#include "proof/product/tiles.h"

#include <algorithm>

#include "kernels/product/tile_pack.h"

namespace heddle::proof {

std::vector<uint8_t> tiles_of(const kernels::TileShape& shape, std::span<const uint8_t> file,
                              const std::vector<uint32_t>& order, std::vector<uint8_t> before) {
  const uint32_t values = kernels::tile_block_values(shape.format), bytes = kernels::tile_block_bytes(shape.format);
  const uint32_t across = shape.tile_cols / values, tile_bytes = kernels::tile_bytes(shape.format);
  const uint64_t row_bytes = quant::row_bytes(shape.format, shape.cols);
  const std::vector<kernels::TilePlane> planes = kernels::tile_planes(shape.format);
  std::vector<uint8_t> tiles = std::move(before);
  tiles.resize(shape.bytes());
  for (uint32_t p = 0; p < shape.row_tiles() * shape.tile_rows(); ++p) {
    const uint32_t row = p >= shape.rows ? kernels::tile_row_of_zeros : order.empty() ? p : order[p];
    if (row == kernels::tile_row_as_it_is) continue;
    // a row as in the file, filled up
    std::vector<uint8_t> filled(uint64_t(shape.slices()) * across * bytes);
    if (row != kernels::tile_row_of_zeros) std::copy_n(file.begin() + long(row * row_bytes), row_bytes, filled.begin());
    for (uint32_t slice = 0; slice < shape.slices(); ++slice) {
      const uint64_t tile = (uint64_t(p / shape.tile_rows()) * shape.slices() + slice) * tile_bytes;
      for (uint32_t b = 0; b < across; ++b)
        for (const kernels::TilePlane& plane : planes)
          std::copy_n(filled.begin() + long((uint64_t(slice) * across + b) * bytes + plane.from), plane.bytes,
                      tiles.begin() + long(tile + plane.at + (p % shape.tile_rows() * across + b) * plane.bytes));
    }
  }
  return tiles;
}

}  // namespace heddle::proof
