// Integers to f32, and into blocks of GGUF without rounding them again.
#include "formats/hf/quantized/integers.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/f16.h"

namespace heddle::formats::hf {
namespace {

using quant::Format;
constexpr uint64_t block = 32;

// Whether every 32 columns are of one group.
bool has_blocks(const Integers& integers) {
  return integers.cols % block == 0 && integers.group % block == 0 && integers.groups_of.empty();
}

Format format_for(const Integers& integers) {
  if (!has_blocks(integers)) return nearest_format(integers.cols);
  if (integers.bits > 4) return Format::q8_0;
  return integers.symmetric ? Format::q4_0 : Format::q4_1;
}

void exact_rows(const Integers& integers, uint64_t first, uint64_t count, float* to) {
  thread_local std::vector<uint8_t> quants;
  quants.resize(count * integers.cols);
  integers.quants(first, count, quants.data());
  for (uint64_t row = 0; row < count; ++row) {
    uint64_t group = UINT64_MAX;
    float scale = 0;
    int zero = 0;
    for (uint64_t col = 0; col < integers.cols; ++col) {
      if (const uint64_t here = integers.group_of(col); here != group) {
        group = here;
        scale = integers.scale(first + row, group);
        zero = integers.zero(first + row, group);
      }
      to[row * integers.cols + col] = static_cast<float>(quants[row * integers.cols + col] - zero) * scale;
    }
  }
}

void put_half(float value, uint8_t* to) {
  const uint16_t bits = to_f16(value).bits;
  to[0] = uint8_t(bits);
  to[1] = uint8_t(bits >> 8);
}

void put_nibbles(const uint8_t* quants, int offset, uint8_t* to) {
  for (uint64_t i = 0; i < block / 2; ++i)
    to[i] = uint8_t((quants[i] + offset) | (quants[i + block / 2] + offset) << 4);
}

// 32 quants of one group as they are. False where the block cannot hold them, or an f16 not the scale or the offset.
bool repack(Format format, const uint8_t* quants, float scale, int zero, uint8_t* to) {
  const auto [low, high] = std::minmax_element(quants, quants + block);
  const float d = to_f32(to_f16(scale)), m = to_f32(to_f16(-scale * static_cast<float>(zero)));
  if (!std::isfinite(d) || !std::isfinite(m)) return false;
  switch (format) {
    case Format::q4_0:
      if (*low - zero < -8 || *high - zero > 7) return false;
      put_half(d, to);
      put_nibbles(quants, 8 - zero, to + 2);
      return true;
    case Format::q4_1:
      put_half(d, to);
      put_half(m, to + 2);
      put_nibbles(quants, 0, to + 4);
      return true;
    case Format::q8_0:
      if (*low - zero < -128 || *high - zero > 127) return false;
      put_half(d, to);
      for (uint64_t i = 0; i < block; ++i) to[2 + i] = uint8_t(quants[i] - zero);
      return true;
    default:
      return false;
  }
}

void encoded_rows(const Integers& integers, Format format, uint64_t first, uint64_t count, uint8_t* to) {
  thread_local std::vector<uint8_t> quants;
  quants.resize(count * integers.cols);
  integers.quants(first, count, quants.data());
  const uint64_t bytes = quant::block_bytes(format);
  for (uint64_t row = 0; row < count; ++row)
    for (uint64_t col = 0; col < integers.cols; col += block, to += bytes) {
      const uint8_t* q = &quants[row * integers.cols + col];
      const float scale = integers.scale(first + row, col / integers.group);
      const int zero = integers.zero(first + row, col / integers.group);
      if (repack(format, q, scale, zero, to)) continue;
      float values[block];
      for (uint64_t i = 0; i < block; ++i) values[i] = static_cast<float>(q[i] - zero) * scale;
      quant::encode(format, values, block, to);
    }
}

}  // namespace

Tensor integer_matrix(std::string name, std::string from, Integers integers) {
  const Format format = format_for(integers);
  const bool repacked = has_blocks(integers);
  const uint64_t cols = integers.cols, rows = integers.rows;
  const auto shared = std::make_shared<const Integers>(std::move(integers));
  ExactRows exact = [shared](uint64_t first, uint64_t count, float* to) { exact_rows(*shared, first, count, to); };
  EncodedRows encode;
  if (repacked)
    encode = [shared, format](uint64_t first, uint64_t count, uint8_t* to) {
      encoded_rows(*shared, format, first, count, to);
    };
  return computed_matrix(std::move(name), std::move(from), cols, rows, format, std::move(exact), std::move(encode));
}

uint64_t read_group_size(Config& config) {
  const Json* found = config.find("group_size");
  return found && *found == -1 ? 0 : config.integer("group_size", 128);
}

std::string group_text(uint64_t group) { return group ? fmt::format("group {}", group) : "one group per row"; }

std::vector<uint32_t> column_groups(const Packed& index, uint64_t group, uint64_t groups, const PackedFiles& files) {
  std::vector<uint32_t> result(index.values());
  bool side_by_side = true;
  for (uint64_t col = 0; col < result.size(); ++col) {
    result[col] = index.word(col);
    if (result[col] >= groups)
      files.refuse(index.name, "expected groups below {}, found {} for column {}", groups, int32_t(result[col]), col);
    side_by_side &= result[col] == col / group;
  }
  if (side_by_side) result.clear();
  return result;
}

}  // namespace heddle::formats::hf
