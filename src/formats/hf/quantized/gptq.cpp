// GPTQ: 2, 3, 4 or 8 bits, packed along the columns as a stream of bits.
//   qweight i32 (cols * bits / 32, rows), qzeros i32 (groups, rows * bits / 32), scales (groups, rows), g_idx i32
//   (cols)
// qzeros holds zero points less one, modulo 2^bits; in checkpoint_format gptq_v2 the zero points themselves. g_idx, the
// group of each column, matters where columns were quantised in the order of their activations (desc_act).
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "formats/hf/quantized/integers.h"
#include "formats/hf/quantized/methods.h"

namespace heddle::formats::hf {
namespace {

using Type = Packed::Type;

struct GptqOptions {
  uint32_t bits = 4;
  uint64_t group = 0;  // 0: the whole row
  bool symmetric = false, desc_act = false;
  uint32_t zero_offset = 1;
};

GptqOptions read_gptq(Config& config) {
  GptqOptions options;
  options.bits = static_cast<uint32_t>(config.integer("bits", 4));
  config.expect("bits", {2, 3, 4, 8}, 4);
  options.group = read_group_size(config);
  options.symmetric = config.boolean("sym", false);
  options.desc_act = config.boolean("desc_act", false);
  config.expect("checkpoint_format", {"gptq", "gptq_v2"}, "gptq");
  config.expect("is_marlin_format", {false}, false);
  options.zero_offset = config.string("checkpoint_format", "gptq") == "gptq" ? 1 : 0;
  // Rules that begin with "-" name modules that are not quantised; others have options of their own.
  if (const Json* dynamic = config.find("dynamic"); dynamic && dynamic->is_object())
    for (const auto& [pattern, rule] : dynamic->items())
      if (!pattern.starts_with("-")) config.refuse("dynamic", "the same options for all modules");
  return options;
}

Tensor gptq_matrix(const std::string& base, const GptqOptions& options, PackedFiles& files) {
  const std::string name = base + "qweight";
  const Packed weight = files.take(name, {Type::i32});
  if (weight.shape.size() != 2 || weight.shape[1] * 32 % options.bits)
    files.refuse(name, "expected a matrix of {} bits, found {} words", options.bits, shape_text(weight.shape));
  Integers integers;
  const uint32_t bits = integers.bits = options.bits;
  const uint64_t rows = integers.rows = weight.shape[0];
  const uint64_t cols = integers.cols = weight.shape[1] * 32 / bits;
  integers.group = options.group ? std::min(options.group, cols) : cols;
  integers.symmetric = options.symmetric;
  const uint64_t groups = (cols + integers.group - 1) / integers.group, zero_words = rows * bits / 32;
  if (rows * bits % 32) files.refuse(name, "expected rows that fill words of 32 bits, found {} of {}", rows, bits);
  const Packed zeros = files.take(base + "qzeros", {Type::i32}, {zero_words, groups});
  const Packed scales = files.take(base + "scales", {Type::f16, Type::bf16, Type::f32}, {rows, groups});
  if (files.has(base + "g_idx"))
    integers.groups_of = column_groups(files.take(base + "g_idx", {Type::i32}, {cols}), integers.group, groups, files);
  else if (options.desc_act)
    files.refuse(base + "g_idx", "expected, as desc_act says, but not there");

  integers.quants = [weight, bits, rows, cols](uint64_t first, uint64_t count, uint8_t* to) {
    for (uint64_t row = first; row < first + count; ++row)
      for (uint64_t col = 0; col < cols; ++col)
        *to++ = uint8_t(bits_at(col, bits, [&](uint64_t n) { return weight.word(n * rows + row); }));
  };
  integers.scale = [scales, rows](uint64_t row, uint64_t group) { return scales.number(group * rows + row); };
  integers.zero = [zeros, zero_words, options](uint64_t row, uint64_t group) {
    const uint32_t packed = bits_at(row, options.bits, [&](uint64_t n) { return zeros.word(group * zero_words + n); });
    const int zero = int((packed + options.zero_offset) & ((1u << options.bits) - 1));
    if (options.symmetric && zero != 1 << (options.bits - 1))
      throw Error("expected zero points of {}, as sym says, found {} in {}", 1 << (options.bits - 1), zero, zeros.name);
    return zero;
  };
  return integer_matrix(base + "weight", name, std::move(integers));
}

}  // namespace

std::string unpack_gptq(Config& config, PackedFiles& files) {
  const GptqOptions options = read_gptq(config);
  for (const std::string& name : files.ending_with(".qweight")) {
    const std::string base = name.substr(0, name.size() - std::string_view("qweight").size());
    files.add(gptq_matrix(base, options, files));
  }
  return fmt::format("GPTQ {} bit, {}{}", options.bits, group_text(options.group),
                     options.desc_act ? ", desc_act" : "");
}

}  // namespace heddle::formats::hf
