// Weights as the products read them. Integer formats are interleaved: `tile_rows` rows at a time, word by word. A
// format without an integer product stays as it is in the file.
#pragma once
#include <cstdint>

#include "cpu/isa.h"
#include "model/backend.h"

namespace heddle::cpu {

// How activations are quantised for weights of this format.
XKind x_kind(quant::Format format, const Isa& isa, bool exact);

struct Weights {
  quant::Format format = quant::Format::f32;
  XKind kind = XKind::f32;
  uint64_t rows = 0, cols = 0;
  uint32_t tile_rows = 0;  // the last tile is padded with zeros; with XKind::f32 it is shorter
  const uint8_t* data = nullptr;
  uint64_t tile_bytes = 0;

  uint64_t tiles() const { return (rows + tile_rows - 1) / tile_rows; }
  uint64_t blocks() const { return cols / quant::block_values(format); }
};

// Everything but `data`, which is set here for XKind::f32 alone: those weights are read from the file.
Weights describe_weights(const model::Matrix& matrix, const Isa& isa, bool exact);
// Writes tiles `first` to `first` + `count` - 1 to their places; tile 0 is at `to`.
void pack_tiles(const model::Matrix& matrix, const Weights& weights, uint64_t first, uint64_t count, uint8_t* to);

}  // namespace heddle::cpu
