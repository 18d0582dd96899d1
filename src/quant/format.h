// The weight formats of a file: their names, the size of their blocks, and the scalar decoder that every kernel is
// compared with. The file that decodes a format has its layout.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
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
  nvfp4,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  tq1_0,
  tq2_0,
  q1_0,
  q2_0,
  q8_1,
  q8_k,
  f64,
  i8,
  i16,
  i32,
  i64,
};
inline constexpr uint32_t format_count = 35;

std::string_view name(Format format);        // "q4_k"
Format format_named(std::string_view text);  // throws an Error that lists the names
uint32_t block_values(Format format);        // values of a block: 1, 32, 64, 128 or 256
uint32_t block_bytes(Format format);
constexpr bool is_float(Format format) { return format <= Format::bf16 || format == Format::f64; }
constexpr bool is_integer(Format format) { return format >= Format::i8; }
const std::vector<Format>& all_formats();

// The number of the type in a GGUF file, and the other way; numbers that GGUF withdrew (4, 5, 31 to 33, 36 to 38) or
// has not assigned have no format.
uint32_t gguf_type(Format format);
std::optional<Format> format_of_gguf_type(uint32_t type);

// Bytes of a row. Throws an Error if `cols` is no multiple of the block.
size_t row_bytes(Format format, size_t cols);

// `values` (a multiple of the block) from `blocks` to f32, with the roundings of the format's definition.
void decode(Format format, const uint8_t* blocks, size_t values, float* out);

// `count` values (a multiple of the block) from f32 to `blocks`, with the least square error that a short search finds.
// The same on every machine. A value beyond the range of the format is clamped, never infinite. A value that is
// infinite or NaN is an Error, which names its place: a model with such a weight is broken.
void encode(Format format, const float* values, size_t count, uint8_t* blocks);
bool can_encode(Format format);  // the floats but f64, q4_0 to q8_0, q8_1, q2_k to q6_k, q8_k, iq4_nl, iq4_xs, mxfp4

}  // namespace heddle::quant
