// Weights as the products read them. Integer formats are interleaved: `tile_rows` rows at a time, word by word. What
// has no integer product stays as it is in the file.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cpu/isa.h"
#include "model/backend.h"

namespace heddle::cpu {

// How rows of x must be written to meet these weights.
XKind x_kind(quant::Format format, const Isa& isa, bool exact);

struct Weights {
  quant::Format format = quant::Format::f32;
  XKind kind = XKind::f32;
  uint64_t rows = 0, cols = 0;
  uint32_t tile_rows = 0;  // the last tile is filled up with zeros; with XKind::f32 it is shorter
  const uint8_t* data = nullptr;
  uint64_t tile_bytes = 0;

  uint64_t tiles() const { return (rows + tile_rows - 1) / tile_rows; }
  uint64_t blocks() const { return cols / quant::block_values(format); }
};

// All but where the tiles lie; with XKind::f32 they lie in the file.
Weights describe_weights(const model::Matrix& matrix, const Isa& isa, bool exact);
void pack_tiles(const model::Matrix& matrix, const Weights& weights, uint64_t first, uint64_t count, uint8_t* to);

// The files that were mapped when it was made.
class FileMappings {
 public:
  FileMappings();
  // Gives pages back to the system: they were read and will not be read again. What is not a file mapping (a test's
  // own memory, converted weights) is left alone.
  void release(std::span<const uint8_t> range) const;

 private:
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;  // addresses of private mappings that are not written to
};

}  // namespace heddle::cpu
