// Weights as the products read them. Formats with packed tiles are interleaved: `tile_rows` rows at a time, word by
// word. Others stay as they are in the file.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu/isa.h"
#include "model/backend.h"

namespace heddle::cpu {

// How activations are written for weights of this format in rows of `cols`.
XKind x_kind(quant::Format format, uint64_t cols, const Isa& isa, bool exact);

// Values that are packed together: a block, or what a matrix instruction takes of a row of halves.
inline uint32_t pack_values(quant::Format format) { return std::max<uint32_t>(quant::block_values(format), 32); }

struct Weights {
  quant::Format format = quant::Format::f32;       // in the file
  quant::Format tile_format = quant::Format::f32;  // in tiles: F16 is rounded to BF16 where that has products
  XKind kind = XKind::f32;
  uint64_t rows = 0, cols = 0;
  uint32_t tile_rows = 0;  // the last tile is padded with zeros; with XKind::f32 it is shorter
  const uint8_t* data = nullptr;
  uint64_t tile_bytes = 0;
  bool packed_on_use = false;  // `data` has the rows of the file: Products packs tiles just before it multiplies them
  bool pairs = false;          // eight bytes of a row stay together, and blocks are those of cpu/pack_pairs.h

  uint64_t tiles() const { return (rows + tile_rows - 1) / tile_rows; }
  uint64_t blocks() const { return cols / pack_values(format); }
  // Where `data` has the rows of the file.
  model::Matrix matrix() const { return {format, rows, cols, {data, rows * quant::row_bytes(format, cols)}}; }
};

// Everything but `data`, which is set here for XKind::f32 alone: those weights are read from the file.
Weights describe_weights(const model::Matrix& matrix, const Isa& isa, bool exact);
// Writes tiles `first` to `first` + `count` - 1 to `to`, one after the other.
void pack_tiles(const model::Matrix& matrix, const Weights& weights, uint64_t first, uint64_t count, uint8_t* to);

}  // namespace heddle::cpu
