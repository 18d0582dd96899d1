// DeepSeek's and Qwen's FP8 in blocks, fbgemm's per row, per-tensor scales of vLLM, ModelOpt and Mistral.
#include "formats/hf/quantized/fp8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/f16.h"
#include "formats/hf/quantized/methods.h"

namespace heddle::formats::hf {
namespace {

using Type = Packed::Type;

template <class Float>
std::array<float, 256> values_of() {
  std::array<float, 256> values{};
  for (uint32_t i = 0; i < 256; ++i) values[i] = to_f32(Float{uint8_t(i)});
  return values;
}
const std::array<float, 256>& fp8_values(Type type) {
  static const std::array<float, 256> of_e4m3 = values_of<e4m3>(), of_e5m2 = values_of<e5m2>();
  return type == Type::e4m3 ? of_e4m3 : of_e5m2;
}

// How many rows and columns share a scale.
struct Spread {
  uint64_t rows, cols;
  std::string text;
};

Spread spread_of(const Packed& weight, const Packed& scale, std::optional<Fp8Block> block, const PackedFiles& files) {
  const uint64_t cols = weight.shape[0], rows = weight.shape[1];
  if (scale.values() == 1) return {rows, cols, "one scale per tensor"};
  if (block) {
    const Shape expected = {(cols + block->cols - 1) / block->cols, (rows + block->rows - 1) / block->rows};
    if (!same_shape(scale.shape, expected))
      files.refuse(scale.name, "expected {}, one scale for each {} x {} of the weight's {}, found {}",
                   shape_text(expected), block->rows, block->cols, shape_text(weight.shape), shape_text(scale.shape));
    return {block->rows, block->cols, fmt::format("block {} x {}", block->rows, block->cols)};
  }
  if (same_shape(scale.shape, {rows})) return {1, cols, "one scale per row"};
  const uint64_t groups = scale.shape[0];
  if (scale.shape.size() != 2 || scale.shape[1] != rows || cols % groups)
    files.refuse(scale.name, "expected one scale, or one per row, for the weight's {}, found {}",
                 shape_text(weight.shape), shape_text(scale.shape));
  return {1, cols / groups, fmt::format("group {}", cols / groups)};
}

Tensor fp8_matrix(const Packed& weight, const Packed& scale, const Spread& spread) {
  const uint64_t cols = weight.shape[0], rows = weight.shape[1];
  const uint64_t per_row = (cols + spread.cols - 1) / spread.cols;
  auto exact = [weight, scale, cols, per_row, spread_rows = spread.rows, spread_cols = spread.cols](
                   uint64_t first, uint64_t count, float* to) {
    const auto& values = fp8_values(weight.type);
    for (uint64_t row = first; row < first + count; ++row)
      for (uint64_t begin = 0; begin < cols; begin += spread_cols) {
        const float factor = scale.number(row / spread_rows * per_row + begin / spread_cols);
        const uint64_t end = std::min(begin + spread_cols, cols);
        for (uint64_t col = begin; col < end; ++col) *to++ = values[weight.view[row * cols + col]] * factor;
      }
  };
  return computed_matrix(weight.name, weight.name, cols, rows, nearest_format(cols), std::move(exact));
}

}  // namespace

std::string take_fp8(PackedFiles& files, std::optional<Fp8Block> block) {
  std::set<std::string> texts;
  std::vector<std::string> names = files.of_type(Type::e4m3);
  for (std::string& name : files.of_type(Type::e5m2)) names.push_back(std::move(name));
  for (const std::string& name : names) {
    if (!name.ends_with(".weight")) continue;
    const Packed weight = files.take(name, {Type::e4m3, Type::e5m2});
    if (weight.shape.size() != 2) files.refuse(name, "expected a matrix, found {}", shape_text(weight.shape));
    const std::string scale_name = name + (files.has(name + "_scale_inv") ? "_scale_inv" : "_scale");
    if (!files.has(scale_name))
      files.refuse(name, "has the type {1}; expected {0}_scale_inv or {0}_scale beside it, found neither", name,
                   weight.type_name);
    const Packed scale = files.take(scale_name, {Type::f32, Type::bf16, Type::f16, Type::e8m0});
    const Spread spread = spread_of(weight, scale, block, files);
    texts.insert(spread.text);
    files.add(fp8_matrix(weight, scale, spread));
  }
  for (const char* suffix :
       {".input_scale", ".input_zero_point", ".activation_scale", ".output_scale", ".k_scale", ".v_scale", ".q_scale"})
    files.drop(suffix);
  return texts.empty() ? "" : fmt::format("FP8, {}", fmt::join(texts, " or "));
}

std::string unpack_fp8(Config& config, PackedFiles& files) {
  std::optional<Fp8Block> block;
  config.expect("fmt", {"e4m3", "e5m2"}, "e4m3");  // the tensors say which
  if (const auto sizes = config.numbers("weight_block_size"); !sizes.empty()) {
    if (sizes.size() != 2 || !(sizes[0] >= 1 && sizes[1] >= 1 && sizes[0] <= 1 << 20 && sizes[1] <= 1 << 20))
      config.refuse("weight_block_size", "two sizes");
    block = {static_cast<uint64_t>(sizes[0]), static_cast<uint64_t>(sizes[1])};
  }
  return take_fp8(files, block);
}

std::string unpack_modelopt(Config& config, PackedFiles& files) {
  config.expect("quant_algo", {"FP8"}, nullptr);
  return take_fp8(files, {});
}

}  // namespace heddle::formats::hf
