// Weights of a test: random ones as a file would have them, in any format, decoded, and in tiles as kernels read them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/product/tile.h"
#include "proof/case.h"
#include "quant/format.h"

namespace heddle::proof {

// What the quants are: any, or all bits set or clear, where a decoder that mixes up fields or signs shows most.
enum class Quants { random, ones, zeros };

// Scales are finite, of either sign where the format has signs, and such that weights are about 1 /
// sqrt(values_per_row) but for a factor of up to 2 between blocks.
std::vector<uint8_t> random_blocks(Random& random, quant::Format format, size_t values, size_t values_per_row,
                                   Quants quants = Quants::random);

// One row decoded: w[i] = scaled[i] + offset[i], where offset is -min in formats that have one. What a kernel rounds is
// relative to the magnitudes of both.
struct DecodedRow {
  std::vector<float> w, offset;
};
DecodedRow decode_row(quant::Format format, const uint8_t* row, size_t cols);

// The tiles of a matrix whose packed row p is row order[p] of `file` (rows as the file has them); without an order, row
// p. Rows of zeros and rows that stay as they are in `before` as tile_pack.h says.
std::vector<uint8_t> tiles_of(const kernels::TileShape& shape, std::span<const uint8_t> file,
                              const std::vector<uint32_t>& order = {}, std::vector<uint8_t> before = {});

}  // namespace heddle::proof
