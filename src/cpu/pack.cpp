// Fields of a block, in the order that a tile has them. cpu/kernels/formats.h reads what is written here.
#include "cpu/pack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace heddle::cpu {
namespace {

struct Field {
  uint32_t offset, bytes;
  uint32_t unit;      // bytes of a row that stay together
  bool bits = false;  // 32 bits, one for each value: bit `step` of byte b is that of value 4 * step + b
};

std::vector<Field> fields(quant::Format format) {
  using quant::Format;
  switch (format) {
    case Format::q4_0:
    case Format::iq4_nl:
      return {{0, 2, 2}, {2, 16, 4}};
    case Format::q4_1:
      return {{0, 2, 2}, {2, 2, 2}, {4, 16, 4}};
    case Format::q5_0:
      return {{0, 2, 2}, {2, 4, 4, true}, {6, 16, 4}};
    case Format::q5_1:
      return {{0, 2, 2}, {2, 2, 2}, {4, 4, 4, true}, {8, 16, 4}};
    case Format::q8_0:
      return {{0, 2, 2}, {2, 32, 4}};
    case Format::mxfp4:
      return {{0, 1, 1}, {1, 16, 4}};
    case Format::q2_k:
      return {{80, 2, 2}, {82, 2, 2}, {0, 16, 4}, {16, 64, 4}};
    case Format::q3_k:
      return {{108, 2, 2}, {96, 12, 4}, {0, 32, 4}, {32, 64, 4}};
    case Format::q4_k:
      return {{0, 2, 2}, {2, 2, 2}, {4, 12, 4}, {16, 128, 4}};
    case Format::q5_k:
      return {{0, 2, 2}, {2, 2, 2}, {4, 12, 4}, {16, 32, 4}, {48, 128, 4}};
    case Format::q6_k:
      return {{208, 2, 2}, {192, 16, 4}, {0, 128, 4}, {128, 64, 4}};
    case Format::iq4_xs:
      return {{0, 2, 2}, {2, 2, 2}, {4, 4, 4}, {8, 128, 4}};
    default:
      check(false, "an integer format");
      return {};
  }
}

uint32_t steps_to_bits(uint32_t values) {
  uint32_t out = 0;
  for (uint32_t v = 0; v < 32; ++v) out |= (values >> v & 1) << (v % 4 * 8 + v / 4);
  return out;
}

// One field of the blocks of all rows of a tile.
template <uint32_t unit>
void interleave(const Field& field, const uint8_t* const* blocks, uint32_t rows, uint8_t* to) {
  for (uint32_t at = 0; at < field.bytes; at += unit)
    for (uint32_t r = 0; r < rows; ++r, to += unit)
      if (blocks[r])
        std::memcpy(to, blocks[r] + field.offset + at, unit);
      else
        std::memset(to, 0, unit);
}

void interleave_bits(const Field& field, const uint8_t* const* blocks, uint32_t rows, uint8_t* to) {
  for (uint32_t r = 0; r < rows; ++r, to += 4) {
    uint32_t bits = 0;
    if (blocks[r]) std::memcpy(&bits, blocks[r] + field.offset, 4);
    bits = steps_to_bits(bits);
    std::memcpy(to, &bits, 4);
  }
}

}  // namespace

XKind x_kind(quant::Format format, const Isa& isa, bool exact) {
  if (exact || !isa.products[unsigned(format)]) return XKind::f32;
  return quant::block_values(format) == 32 ? XKind::by_32 : XKind::by_256;
}

Weights describe_weights(const model::Matrix& matrix, const Isa& isa, bool exact) {
  Weights to;
  to.format = matrix.format;
  to.kind = x_kind(matrix.format, isa, exact);
  to.rows = matrix.rows;
  to.cols = matrix.cols;
  to.tile_rows = isa.tile_rows;
  to.tile_bytes = matrix.row_bytes() * to.tile_rows;
  if (to.kind == XKind::f32) to.data = matrix.data.data();
  return to;
}

void pack_tiles(const model::Matrix& matrix, const Weights& weights, uint64_t first, uint64_t count, uint8_t* to) {
  const std::vector<Field> all = fields(matrix.format);
  const uint64_t row_bytes = matrix.row_bytes(), block_bytes = quant::block_bytes(matrix.format);
  std::vector<const uint8_t*> blocks(weights.tile_rows);
  for (uint64_t tile = first; tile < first + count; ++tile) {
    uint8_t* at = to + tile * weights.tile_bytes;
    for (uint64_t b = 0; b < weights.blocks(); ++b) {
      for (uint32_t r = 0; r < weights.tile_rows; ++r) {
        const uint64_t row = tile * weights.tile_rows + r;
        blocks[r] = row < weights.rows ? matrix.data.data() + row * row_bytes + b * block_bytes : nullptr;
      }
      for (const Field& field : all) {
        if (field.bits)
          interleave_bits(field, blocks.data(), weights.tile_rows, at);
        else if (field.unit == 4)
          interleave<4>(field, blocks.data(), weights.tile_rows, at);
        else if (field.unit == 2)
          interleave<2>(field, blocks.data(), weights.tile_rows, at);
        else
          interleave<1>(field, blocks.data(), weights.tile_rows, at);
        at += field.bytes * weights.tile_rows;
      }
    }
  }
}

FileMappings::FileMappings() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0, end = 0, inode = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*x %*s %" SCNu64, &begin, &end, access, &inode) == 4 &&
        inode != 0 && access[1] == '-')
      ranges_.emplace_back(begin, end);
  }
}

void FileMappings::release(std::span<const uint8_t> range) const {
  const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE)), address = reinterpret_cast<uint64_t>(range.data());
  const uint64_t begin = (address + page - 1) / page * page, end = (address + range.size()) / page * page;
  for (const auto& [from, to] : ranges_)
    if (begin < end && from <= begin && end <= to)
      madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // if it fails, memory is the only loss
}

}  // namespace heddle::cpu
