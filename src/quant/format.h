// The weight formats of a file: their names, the size of their blocks, and the scalar decoder that every kernel is
// compared with. The layout of each stands in the file that decodes it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace heddle::quant {

enum class Format : uint8_t {
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
};
inline constexpr uint32_t format_count = 16;

std::string_view name(Format format);        // "q4_k"
Format format_named(std::string_view text);  // throws an Error that lists the names
uint32_t block_values(Format format);        // values of a block: 1, 32 or 256
uint32_t block_bytes(Format format);
constexpr bool is_float(Format format) { return format <= Format::bf16; }
const std::vector<Format>& all_formats();

// Bytes of a row. Throws an Error if `cols` is no multiple of the block.
size_t row_bytes(Format format, size_t cols);

// `values` (a multiple of the block) from `blocks` to f32, with the roundings of the format's definition.
void decode(Format format, const uint8_t* blocks, size_t values, float* out);

}  // namespace heddle::quant
