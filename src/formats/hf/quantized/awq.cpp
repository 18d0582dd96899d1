// AWQ: 4 bits with zero points.
//   "gemm"  qweight i32 (cols, rows / 8), qzeros i32 (groups, rows / 8), scales (groups, rows); the nibbles of a word,
//           from the lowest on, are rows 0 2 4 6 1 3 5 7
//   "gemv"  qweight i32 (rows, cols / 8), qzeros i32 (rows, words), scales (rows, 8 * words); nibbles in order, the
//   last
//           zero points and scales are unused where the groups do not fill the words
#include <fmt/format.h>

#include "base/error.h"
#include "formats/hf/quantized/integers.h"
#include "formats/hf/quantized/methods.h"

namespace heddle::formats::hf {
namespace {

using Type = Packed::Type;

uint32_t awq_value(uint32_t word, uint64_t row) {
  constexpr uint32_t nibble_of[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  return word >> 4 * nibble_of[row % 8] & 15;
}

struct AwqOptions {
  uint64_t group = 0;  // 0: the whole row
  bool gemv = false;
};

Integers awq_gemm(const Packed& weight, const std::string& base, const AwqOptions& options, PackedFiles& files) {
  Integers integers;
  const uint64_t words = weight.shape[0];
  const uint64_t rows = integers.rows = words * 8, cols = integers.cols = weight.shape[1];
  integers.group = options.group ? options.group : cols;
  const uint64_t groups = cols / integers.group;
  const Packed zeros = files.take(base + "qzeros", {Type::i32}, {words, groups});
  const Packed scales = files.take(base + "scales", {Type::f16, Type::bf16, Type::f32}, {rows, groups});
  integers.quants = [weight, words, cols](uint64_t first, uint64_t count, uint8_t* to) {
    for (uint64_t row = first; row < first + count; ++row)
      for (uint64_t col = 0; col < cols; ++col) *to++ = uint8_t(awq_value(weight.word(col * words + row / 8), row));
  };
  integers.scale = [scales, rows](uint64_t row, uint64_t group) { return scales.number(group * rows + row); };
  integers.zero = [zeros, words](uint64_t row, uint64_t group) {
    return int(awq_value(zeros.word(group * words + row / 8), row));
  };
  return integers;
}

Integers awq_gemv(const Packed& weight, const std::string& base, const AwqOptions& options, PackedFiles& files) {
  Integers integers;
  const uint64_t words = weight.shape[0];
  const uint64_t rows = integers.rows = weight.shape[1], cols = integers.cols = words * 8;
  integers.group = options.group ? options.group : cols;
  const uint64_t groups = cols / integers.group;
  const Packed zeros = files.take(base + "qzeros", {Type::i32});
  const uint64_t zero_words = zeros.shape[0];
  if (!same_shape(zeros.shape, {zero_words, rows}) || zero_words * 8 < groups)
    files.refuse(zeros.name, "expected {} x at least {}, found {}", rows, (groups + 7) / 8, shape_text(zeros.shape));
  const Packed scales = files.take(base + "scales", {Type::f16, Type::bf16, Type::f32}, {zero_words * 8, rows});
  integers.quants = [weight, words, cols](uint64_t first, uint64_t count, uint8_t* to) {
    for (uint64_t row = first; row < first + count; ++row)
      for (uint64_t col = 0; col < cols; ++col)
        *to++ = uint8_t(bits_at(col, 4, [&](uint64_t n) { return weight.word(row * words + n); }));
  };
  integers.scale = [scales, zero_words](uint64_t row, uint64_t group) {
    return scales.number(row * zero_words * 8 + group);
  };
  integers.zero = [zeros, zero_words](uint64_t row, uint64_t group) {
    return int(bits_at(group, 4, [&](uint64_t n) { return zeros.word(row * zero_words + n); }));
  };
  return integers;
}

}  // namespace

std::string unpack_awq(Config& config, PackedFiles& files) {
  AwqOptions options;
  config.expect("bits", {4}, 4);
  config.expect("version", {"gemm", "GEMM", "gemv", "GEMV"}, "gemm");
  config.expect("zero_point", {true}, true);
  options.group = read_group_size(config);
  const std::string version = config.string("version", "gemm");
  options.gemv = version == "gemv" || version == "GEMV";

  for (const std::string& name : files.ending_with(".qweight")) {
    const std::string base = name.substr(0, name.size() - std::string_view("qweight").size());
    const Packed weight = files.take(name, {Type::i32});
    if (weight.shape.size() != 2) files.refuse(name, "expected a matrix, found {}", shape_text(weight.shape));
    const uint64_t cols = options.gemv ? weight.shape[0] * 8 : weight.shape[1];
    if (options.group && cols % options.group)
      files.refuse(name, "expected columns that are a multiple of group_size {}, found {}", options.group, cols);
    Integers integers = (options.gemv ? awq_gemv : awq_gemm)(weight, base, options, files);
    integers.bits = 4;
    files.add(integer_matrix(base + "weight", name, std::move(integers)));
  }
  return fmt::format("AWQ 4 bit, {}", group_text(options.group));
}

}  // namespace heddle::formats::hf
