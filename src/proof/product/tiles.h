// Weights in tiles, made on the host: what kernels that read tiles are given, and what tile_pack must make.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/product/tile.h"

namespace heddle::proof {

// The tiles of a matrix whose packed row p is row order[p] of `file` (rows as the file has them); without an order, row
// p. Rows of zeros and rows that stay as they are in `before` as tile_pack.h says.
std::vector<uint8_t> tiles_of(const kernels::TileShape& shape, std::span<const uint8_t> file,
                              const std::vector<uint32_t>& order = {}, std::vector<uint8_t> before = {});

}  // namespace heddle::proof
