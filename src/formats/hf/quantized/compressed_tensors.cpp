// compressed-tensors, of LLM Compressor: what a weight is follows from the tensors beside it.
//   pack-quantized   weight_packed i32 (rows, cols * bits / 32), weight_shape, weight_scale (rows, groups),
//                    weight_zero_point i32 (rows * bits / 32, groups) or none, weight_g_idx i32 (cols) or none;
//                    quants and zero points are from 0 on, the first in the lowest bits
//   int-quantized    weight i8, weight_scale, weight_zero_point i8 or none
//   float-quantized  weight e4m3, weight_scale: fp8.h
#include <fmt/ranges.h>

#include <set>

#include "base/error.h"
#include "formats/hf/quantized/fp8.h"
#include "formats/hf/quantized/integers.h"
#include "formats/hf/quantized/methods.h"

namespace heddle::formats::hf {
namespace {

using Type = Packed::Type;

// Scales of `rows` rows: one, one per row, or one per group of columns; sets the group.
Packed take_scales(const std::string& name, Integers& integers, PackedFiles& files) {
  const Packed scales = files.take(name, {Type::f16, Type::bf16, Type::f32});
  const uint64_t all = scales.values();
  const uint64_t groups = all == 1 ? 1 : all / integers.rows;
  const bool fits = all == 1 || (scales.shape.back() == integers.rows && all % integers.rows == 0);
  if (!fits || integers.cols % groups)
    files.refuse(name, "expected one scale, or some for each of {} rows of {}, found {}", integers.rows, integers.cols,
                 shape_text(scales.shape));
  integers.group = integers.cols / groups;
  integers.scale = [scales, groups, one = all == 1](uint64_t row, uint64_t group) {
    return scales.number(one ? 0 : row * groups + group);
  };
  return scales;
}

Tensor packed_integers(const std::string& base, PackedFiles& files, std::set<std::string>& texts) {
  const std::string name = base + "weight_packed";
  const Packed weight = files.take(name, {Type::i32});
  const Packed shape = files.take(base + "weight_shape", {Type::i64, Type::i32}, {2});
  if (weight.shape.size() != 2) files.refuse(name, "expected a matrix, found {}", shape_text(weight.shape));
  const auto size = [&](uint64_t i) -> uint64_t {
    return shape.type == Type::i32 ? shape.word(i) : shape.word(2 * i) | uint64_t(shape.word(2 * i + 1)) << 32;
  };
  Integers integers;
  const uint64_t words = weight.shape[0];
  const uint64_t rows = integers.rows = weight.shape[1], cols = integers.cols = size(1);
  for (const uint32_t bits : {4u, 8u})
    if ((cols + 32 / bits - 1) / (32 / bits) == words) integers.bits = bits;
  if (size(0) != rows || !integers.bits || cols > words * 8)
    files.refuse(name, "expected words with 4 or 8 bits for each of {} x {} values, found {}", size(0), cols,
                 shape_text(weight.shape));
  const uint32_t bits = integers.bits, per_word = 32 / bits;
  take_scales(base + "weight_scale", integers, files);
  const uint64_t groups = cols / integers.group;
  integers.quants = [weight, words, cols, bits](uint64_t first, uint64_t count, uint8_t* to) {
    for (uint64_t row = first; row < first + count; ++row)
      for (uint64_t col = 0; col < cols; ++col)
        *to++ = uint8_t(bits_at(col, bits, [&](uint64_t n) { return weight.word(row * words + n); }));
  };
  integers.symmetric = !files.has(base + "weight_zero_point");
  if (integers.symmetric) {
    integers.zero = [bits](uint64_t, uint64_t) { return 1 << (bits - 1); };
  } else {
    const Packed zeros =
        files.take(base + "weight_zero_point", {Type::i32}, {groups, (rows + per_word - 1) / per_word});
    integers.zero = [zeros, groups, bits](uint64_t row, uint64_t group) {
      return int(bits_at(row, bits, [&](uint64_t n) { return zeros.word(n * groups + group); }));
    };
  }
  const bool ordered = files.has(base + "weight_g_idx");
  if (ordered)
    integers.groups_of =
        column_groups(files.take(base + "weight_g_idx", {Type::i32}, {cols}), integers.group, groups, files);
  texts.insert(fmt::format("int{}, group {}", bits, integers.group));
  return integer_matrix(base + "weight", name, std::move(integers));
}

Tensor byte_integers(const std::string& name, PackedFiles& files, std::set<std::string>& texts) {
  const Packed weight = files.take(name, {Type::i8});
  if (weight.shape.size() != 2) files.refuse(name, "expected a matrix, found {}", shape_text(weight.shape));
  Integers integers;
  integers.bits = 8;
  const uint64_t cols = integers.cols = weight.shape[0];
  integers.rows = weight.shape[1];
  const Packed scales = take_scales(name + "_scale", integers, files);
  const uint64_t groups = cols / integers.group;
  integers.quants = [weight, cols](uint64_t first, uint64_t count, uint8_t* to) {
    for (uint64_t i = first * cols; i < (first + count) * cols; ++i) *to++ = uint8_t(weight.byte(i) + 128);
  };
  integers.symmetric = !files.has(name + "_zero_point");
  if (integers.symmetric) {
    integers.zero = [](uint64_t, uint64_t) { return 128; };
  } else {
    const Packed zeros = files.take(name + "_zero_point", {Type::i8}, scales.shape);
    integers.zero = [zeros, groups, one = scales.values() == 1](uint64_t row, uint64_t group) {
      return zeros.byte(one ? 0 : row * groups + group) + 128;
    };
  }
  texts.insert("int8");
  return integer_matrix(name, name, std::move(integers));
}

// "block_structure" of the first group that has one: [128, 128].
std::optional<Fp8Block> read_block(const Json& groups, const Config& config) {
  if (!groups.is_object()) return {};
  for (const auto& [name, group] : groups.items()) {
    const auto weights = group.is_object() ? group.find("weights") : group.end();
    if (weights == group.end() || !weights->is_object()) continue;
    const auto block = weights->find("block_structure");
    if (block == weights->end() || block->is_null()) continue;
    const auto size = [&](size_t i) -> uint64_t {
      return block->is_array() && block->size() == 2 && (*block)[i].is_number_unsigned() ? (*block)[i].get<uint64_t>()
                                                                                         : 0;
    };
    if (!size(0) || !size(1) || size(0) > 1 << 20 || size(1) > 1 << 20)
      config.refuse("config_groups", "two sizes as block_structure");
    return Fp8Block{size(0), size(1)};
  }
  return {};
}

}  // namespace

std::string unpack_compressed_tensors(Config& config, PackedFiles& files) {
  config.expect("format", {"pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mixed-precision"},
                "pack-quantized");
  if (const Json* sparsity = config.find("sparsity_config"); sparsity && sparsity->is_object() && !sparsity->empty()) {
    Config sparse(*sparsity, config.where() + ": sparsity_config");
    sparse.expect("format", {"dense"}, "dense");
  }
  std::set<std::string> texts;
  for (const std::string& name : files.ending_with(".weight_packed"))
    files.add(packed_integers(name.substr(0, name.size() - std::string_view("weight_packed").size()), files, texts));
  for (const std::string& name : files.of_type(Type::i8))
    if (name.ends_with(".weight")) files.add(byte_integers(name, files, texts));
  const Json* groups = config.find("config_groups");
  if (const std::string fp8 = take_fp8(files, groups ? read_block(*groups, config) : std::nullopt); !fp8.empty())
    texts.insert(fp8);
  return fmt::format("compressed-tensors {}", fmt::join(texts, " and "));
}

}  // namespace heddle::formats::hf
