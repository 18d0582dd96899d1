// Fields of a block, in the order that a tile has them. cpu/kernels/formats.h reads what is written here.
#include "cpu/pack.h"

#include <bit>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "cpu/pack_pairs.h"
#include "quant/codecs.h"
#include "quant/half.h"

namespace heddle::cpu {
namespace {

using quant::Format;

constexpr uint32_t max_packed_block_bytes = 256;  // of a row: q6_k has 210

// What happens to each word of a field. In `bits` a word has a bit for each of 32 values: bit `step` of byte b becomes
// that of value 4 * step + b. In `twos` it has 2 bits for each of 16 values, and the same is done to them.
enum class Change { none, bits, twos };

struct Field {
  uint32_t offset, bytes;
  uint32_t unit;  // bytes of a row that stay together
  Change change = Change::none;
};

std::vector<Field> fields(Format format) {
  switch (format) {
    case Format::bf16:
      return {{0, 64, 4}};
    case Format::q4_0:
    case Format::iq4_nl:
      return {{0, 2, 2}, {2, 16, 4}};
    case Format::q4_1:
      return {{0, 4, 2}, {4, 16, 4}};
    case Format::q5_0:
      return {{0, 2, 2}, {2, 4, 4, Change::bits}, {6, 16, 4}};
    case Format::q5_1:
      return {{0, 4, 2}, {4, 4, 4, Change::bits}, {8, 16, 4}};
    case Format::q8_0:
      return {{0, 2, 2}, {2, 32, 4}};
    case Format::mxfp4:
      return {{0, 1, 1}, {1, 16, 4}};
    case Format::q2_k:
      return {{80, 4, 2}, {0, 80, 4}};
    case Format::q3_k:
      return {{108, 2, 2}, {96, 12, 4}, {0, 96, 4}};
    case Format::q4_k:
      return {{0, 4, 2}, {4, 140, 4}};
    case Format::q5_k:
      return {{0, 4, 2}, {4, 172, 4}};
    case Format::q6_k:
      return {{208, 2, 2}, {192, 16, 4}, {0, 192, 4}};
    case Format::iq4_xs:
      return {{0, 4, 2}, {4, 132, 4}};
    case Format::nvfp4:  // four blocks of 16 values
      return {{0, 1, 1}, {4, 8, 4}, {1, 1, 1}, {12, 8, 4}, {2, 1, 1}, {20, 8, 4}, {3, 1, 1}, {28, 8, 4}};
    case Format::q1_0:
      return {{0, 2, 2}, {2, 16, 4, Change::bits}};
    case Format::q2_0:
      return {{0, 2, 2}, {2, 16, 4, Change::twos}};
    case Format::tq1_0:
      return {{52, 2, 2}, {0, 52, 4}};
    case Format::tq2_0:
      return {{64, 2, 2}, {0, 64, 4}};
    case Format::iq1_s:
      return {{0, 2, 2}, {34, 16, 2}, {2, 32, 4}};
    case Format::iq1_m:
      return {{32, 24, 2}, {0, 32, 4}};
    case Format::iq2_s:
      return {{0, 2, 2}, {74, 8, 4}, {66, 8, 4}, {34, 32, 4, Change::bits}, {2, 32, 4}};
    case Format::iq3_s:
      return {{0, 2, 2}, {106, 4, 4}, {66, 8, 4}, {74, 32, 4, Change::bits}, {2, 64, 4}};
    // these as rewrite() leaves them
    case Format::iq2_xxs:
      return {{0, 2, 2}, {2, 4, 4}, {6, 32, 4, Change::bits}, {38, 32, 4}};
    case Format::iq2_xs:
      return {{0, 2, 2}, {2, 12, 4}, {14, 32, 4, Change::bits}, {46, 32, 4}};
    case Format::iq3_xxs:
      return {{0, 2, 2}, {2, 4, 4}, {6, 32, 4, Change::bits}, {38, 64, 4}};
    default:
      check(false, "a format with packed tiles");
      return {};
  }
}

// Blocks with fields that straddle bytes are rewritten before they are packed: iq2_xxs, iq2_xs and iq3_xxs with
// all signs written out and each field by itself. See quant/decode_grids.cpp for the files' blocks; the new ones take
// 70, 78 and 102 bytes, four more.
uint8_t eight_signs(uint32_t seven) { return uint8_t((seven & 127) | (std::popcount(seven & 127) & 1) << 7); }

// The u32 of 32 values of the _xxs formats, number j: four times 7 signs and a scale.
void signs_and_scale(uint32_t word, uint32_t j, uint8_t* signs, uint8_t* scales) {
  for (uint32_t e = 0; e < 4; ++e) signs[4 * j + e] = eight_signs(word >> 7 * e);
  scales[j / 2] = uint8_t(scales[j / 2] | word >> 28 << j % 2 * 4);
}

uint32_t rewritten_bytes(Format format) {
  switch (format) {
    case Format::iq2_xxs:
      return 70;
    case Format::iq2_xs:
      return 78;
    case Format::iq3_xxs:
      return 102;
    default:
      return 0;
  }
}

void rewrite(Format format, const uint8_t* block, uint8_t* to) {
  std::memset(to, 0, rewritten_bytes(format));
  std::memcpy(to, block, 2);  // d
  if (format == Format::iq2_xs) {
    std::memcpy(to + 2, block + 66, 8);  // scales
    for (uint32_t e = 0; e < 32; ++e) {
      const uint32_t q = quant::u16_at(block + 2 + 2 * e);
      to[10 + e / 8] = uint8_t(to[10 + e / 8] | (q >> 8 & 1) << e % 8);
      to[14 + e] = eight_signs(q >> 9);
      to[46 + e] = uint8_t(q);
    }
    return;
  }
  check(format == Format::iq2_xxs || format == Format::iq3_xxs, "a format that is written anew");
  for (uint32_t j = 0; j < 8; ++j) {
    const bool eights = format == Format::iq2_xxs;
    signs_and_scale(quant::u32_at(block + (eights ? 6 + 8 * j : 66 + 4 * j)), j, to + 6, to + 2);
    if (eights)
      std::memcpy(to + 38 + 4 * j, block + 2 + 8 * j, 4);
    else
      std::memcpy(to + 38 + 8 * j, block + 2 + 8 * j, 8);
  }
}

// Cells of `bits` bits: number 4 * step + b goes to place `step` of byte b.
template <uint32_t bits>
uint32_t cells_by_step(uint32_t cells) {
  uint32_t out = 0;
  for (uint32_t i = 0; i < 32 / bits; ++i)
    out |= (cells >> bits * i & ((1u << bits) - 1)) << (i % 4 * 8 + i / 4 * bits);
  return out;
}

// One field of the blocks of all rows of a tile.
template <uint32_t unit>
void interleave(const Field& field, const uint8_t* const* blocks, uint32_t rows, uint8_t* to) {
  for (uint32_t r = 0; r < rows; ++r, to += unit) {
    const uint8_t* from = blocks[r] + field.offset;
    for (uint32_t at = 0; at < field.bytes; at += unit) std::memcpy(to + at * rows, from + at, unit);
  }
}

void interleave_changed(const Field& field, const uint8_t* const* blocks, uint32_t rows, uint8_t* to) {
  for (uint32_t at = 0; at < field.bytes; at += 4)
    for (uint32_t r = 0; r < rows; ++r, to += 4) {
      uint32_t word;
      std::memcpy(&word, blocks[r] + field.offset + at, 4);
      word = field.change == Change::bits ? cells_by_step<1>(word) : cells_by_step<2>(word);
      std::memcpy(to, &word, 4);
    }
}

Format tile_format(Format format) { return format == Format::f16 ? Format::bf16 : format; }

}  // namespace

XKind x_kind(quant::Format format, uint64_t cols, const Isa& isa, bool exact) {
  if (exact || !isa.tiles[unsigned(tile_format(format))] || cols % pack_values(format) != 0) return XKind::f32;
  if (format == Format::f16 || format == Format::bf16) return XKind::bf16;
  return quant::block_values(format) == 256 ? XKind::by_256 : XKind::by_32;
}

Weights describe_weights(const model::Matrix& matrix, const Isa& isa, bool exact) {
  Weights to;
  to.format = matrix.format;
  to.tile_format = tile_format(matrix.format);
  to.kind = x_kind(matrix.format, matrix.cols, isa, exact);
  to.rows = matrix.rows;
  to.cols = matrix.cols;
  to.tile_rows = isa.tile_rows;
  to.tile_bytes = matrix.row_bytes() * to.tile_rows;
  if (to.kind == XKind::f32)
    to.data = matrix.data.data();
  else if (isa.tiles[unsigned(to.tile_format)].pairs) {
    to.pairs = true;
    to.tile_bytes = to.blocks() * pair_block_bytes(to.tile_format) * to.tile_rows;
  } else if (const uint32_t bytes = rewritten_bytes(matrix.format))
    to.tile_bytes = to.blocks() * bytes * to.tile_rows;
  return to;
}

void pack_tiles(const model::Matrix& matrix, const Weights& weights, uint64_t first, uint64_t count, uint8_t* to) {
  if (weights.tile_format != matrix.format) {
    check(matrix.format == Format::f16, "F16 that becomes BF16");
    Weights tile = weights;
    std::vector<uint8_t> rounded(matrix.row_bytes() * weights.tile_rows);
    for (uint64_t i = first; i < first + count; ++i, to += weights.tile_bytes) {
      const uint64_t row = i * weights.tile_rows;
      tile.rows = std::min<uint64_t>(weights.tile_rows, weights.rows - row);
      const std::span<const uint8_t> from = matrix.slice(row, tile.rows).data;
      for (size_t at = 0; at < from.size(); at += 2) {
        const uint16_t bits = quant::bf16_of_f32(quant::f32_of_f16(quant::u16_at(from.data() + at)));
        std::memcpy(rounded.data() + at, &bits, 2);
      }
      pack_tiles({tile.tile_format, tile.rows, tile.cols, {rounded.data(), from.size()}}, tile, 0, 1, to);
    }
    return;
  }
  static constexpr uint8_t zeros[max_packed_block_bytes] = {};  // the block of a row that the matrix does not have
  const uint64_t row_bytes = matrix.row_bytes(), block_bytes = row_bytes / weights.blocks();
  if (weights.pairs) {
    for (uint64_t tile = first; tile < first + count; ++tile, to += weights.tile_bytes) {
      const uint64_t row = tile * weights.tile_rows, rows = std::min<uint64_t>(weights.tile_rows, weights.rows - row);
      pack_pair_tile(matrix.format, matrix.data.data() + row * row_bytes, row_bytes, uint32_t(rows), weights.blocks(),
                     to);
    }
    return;
  }
  const std::vector<Field> all = fields(matrix.format);
  const uint32_t new_bytes = rewritten_bytes(matrix.format);
  std::vector<uint8_t> rewritten(new_bytes * weights.tile_rows);
  std::vector<const uint8_t*> blocks(weights.tile_rows);
  for (uint64_t tile = first; tile < first + count; ++tile)
    for (uint64_t b = 0; b < weights.blocks(); ++b) {
      for (uint32_t r = 0; r < weights.tile_rows; ++r) {
        const uint64_t row = tile * weights.tile_rows + r;
        blocks[r] = row < weights.rows ? matrix.data.data() + row * row_bytes + b * block_bytes : zeros;
        if (blocks[r] == zeros || !new_bytes) continue;
        rewrite(matrix.format, blocks[r], rewritten.data() + r * new_bytes);
        blocks[r] = rewritten.data() + r * new_bytes;
      }
      for (const Field& field : all) {
        if (field.change != Change::none)
          interleave_changed(field, blocks.data(), weights.tile_rows, to);
        else if (field.unit == 8)
          interleave<8>(field, blocks.data(), weights.tile_rows, to);
        else if (field.unit == 4)
          interleave<4>(field, blocks.data(), weights.tile_rows, to);
        else if (field.unit == 2)
          interleave<2>(field, blocks.data(), weights.tile_rows, to);
        else
          interleave<1>(field, blocks.data(), weights.tile_rows, to);
        to += field.bytes * weights.tile_rows;
      }
    }
}

}  // namespace heddle::cpu
