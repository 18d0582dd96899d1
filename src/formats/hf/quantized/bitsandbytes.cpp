// bitsandbytes.
//   4 bits  weight u8: the values of the rows one after the other, two in a byte, the first in the high half; each
//   names
//           an entry of weight.quant_map (16), and blocks of them share a scale, weight.absmax. Where that is u8, the
//           scales are quantised too: nested_quant_map[absmax] * nested_absmax, for each nested_blocksize, +
//           nested_offset. weight.quant_state.bitsandbytes__nf4 (or __fp4) is a JSON text with the sizes.
//   8 bits  weight i8, SCB f32 (rows): w = weight * SCB / 127
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "formats/hf/quantized/integers.h"
#include "formats/hf/quantized/methods.h"

namespace heddle::formats::hf {
namespace {

using Type = Packed::Type;

// The scales of blocks of values, quantised or not.
struct BlockScales {
  Packed absmax;
  Packed nested_absmax, nested_map;  // where absmax is u8
  uint64_t nested_size = 1;
  float offset = 0;

  float at(uint64_t block) const {
    if (absmax.type != Type::u8) return absmax.number(block);
    return nested_map.number(uint64_t(absmax.byte(block))) * nested_absmax.number(block / nested_size) + offset;
  }
};

constexpr uint64_t max_block = 1u << 20;

Tensor four_bit_matrix(const std::string& name, const std::string& type, PackedFiles& files) {
  const Packed state = files.take(name + ".quant_state.bitsandbytes__" + type, {Type::u8});
  const Json json = parse_json(state.text(), state.name);
  Config config(json, state.name);
  config.expect("quant_type", {type}, nullptr);
  const auto shape = config.numbers("shape");
  if (shape.size() != 2 || !(shape[0] >= 1 && shape[1] >= 1 && shape[0] < 1u << 30 && shape[1] < 1u << 30))
    config.refuse("shape", "rows and columns");
  const auto rows = static_cast<uint64_t>(shape[0]), cols = static_cast<uint64_t>(shape[1]);
  const uint64_t size = config.integer("blocksize", 64), blocks = (rows * cols + size - 1) / size;
  if (size > max_block) config.refuse("blocksize", fmt::format("at most {}", max_block));

  const Packed weight = files.take(name, {Type::u8}, {(rows * cols + 1) / 2});
  const Packed map = files.take(name + ".quant_map", {Type::f32}, {16});
  BlockScales scales;
  scales.absmax = files.take(name + ".absmax", {Type::f32, Type::u8}, {blocks});
  if (scales.absmax.type == Type::u8) {
    scales.nested_size = config.integer("nested_blocksize", 256);
    scales.offset = static_cast<float>(config.number("nested_offset", 0));
    scales.nested_map = files.take(name + ".nested_quant_map", {Type::f32}, {256});
    scales.nested_absmax =
        files.take(name + ".nested_absmax", {Type::f32}, {(blocks + scales.nested_size - 1) / scales.nested_size});
  }
  std::array<float, 16> values{};
  for (uint64_t i = 0; i < 16; ++i) values[i] = map.number(i);
  auto exact = [weight, scales, values, cols, size](uint64_t first, uint64_t count, float* to) {
    const uint64_t begin = first * cols, end = (first + count) * cols;
    for (uint64_t i = begin; i < end;) {
      const float scale = scales.at(i / size);
      for (const uint64_t stop = std::min(end, i / size * size + size); i < stop; ++i)
        *to++ = values[weight.view[i / 2] >> (i % 2 ? 0 : 4) & 15] * scale;
    }
  };
  return computed_matrix(name, name, cols, rows, nearest_format(cols), std::move(exact));
}

Tensor eight_bit_matrix(const std::string& base, PackedFiles& files) {
  const std::string name = base + "weight";
  const Packed weight = files.take(name, {Type::i8});
  if (weight.shape.size() != 2) files.refuse(name, "expected a matrix, found {}", shape_text(weight.shape));
  const uint64_t cols = weight.shape[0], rows = weight.shape[1];
  const Packed scales = files.take(base + "SCB", {Type::f32}, {rows});
  if (files.has(base + "weight_format")) {
    const Packed format = files.take(base + "weight_format", {Type::u8}, {1});
    if (format.byte(0) != 0)
      files.refuse(format.name, "expected 0, rows one after the other, found {}", format.byte(0));
  }
  Integers integers;
  integers.cols = integers.group = cols;
  integers.rows = rows;
  integers.bits = 8;
  integers.symmetric = true;
  integers.quants = [weight, cols](uint64_t first, uint64_t count, uint8_t* to) {
    for (uint64_t i = first * cols; i < (first + count) * cols; ++i) *to++ = uint8_t(weight.byte(i) + 128);
  };
  integers.scale = [scales](uint64_t row, uint64_t) { return scales.number(row) / 127; };
  integers.zero = [](uint64_t, uint64_t) { return 128; };
  return integer_matrix(name, name, std::move(integers));
}

}  // namespace

std::string unpack_bitsandbytes(Config&, PackedFiles& files) {
  std::set<std::string> texts;
  for (const char* type : {"nf4", "fp4"}) {
    const std::string suffix = fmt::format(".quant_state.bitsandbytes__{}", type);
    for (const std::string& state : files.ending_with(suffix)) {
      const std::string name = state.substr(0, state.size() - suffix.size());
      const bool nested = files.has(name + ".nested_absmax");
      files.add(four_bit_matrix(name, type, files));
      texts.insert(fmt::format("{}{}", type, nested ? " with double quantisation" : ""));
    }
  }
  for (const std::string& name : files.ending_with(".SCB")) {
    files.add(eight_bit_matrix(name.substr(0, name.size() - std::string_view("SCB").size()), files));
    texts.insert("int8");
  }
  return fmt::format("bitsandbytes {}", fmt::join(texts, " and "));
}

}  // namespace heddle::formats::hf
