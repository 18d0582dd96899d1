// The table of formats.
#include "quant/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "quant/codecs.h"

namespace heddle::quant {
namespace {

struct Row {
  std::string_view name;
  uint32_t values, bytes;  // of a block
  uint32_t gguf;           // number of the type in GGUF
  Decode* decode;
  Encode* encode = nullptr;
};
constexpr Row table[] = {
    {"f32", 1, 4, 0, decode_f32, encode_f32},
    {"f16", 1, 2, 1, decode_f16, encode_f16},
    {"bf16", 1, 2, 30, decode_bf16, encode_bf16},
    {"q4_0", 32, 18, 2, decode_q4_0, encode_q4_0},
    {"q4_1", 32, 20, 3, decode_q4_1, encode_q4_1},
    {"q5_0", 32, 22, 6, decode_q5_0, encode_q5_0},
    {"q5_1", 32, 24, 7, decode_q5_1, encode_q5_1},
    {"q8_0", 32, 34, 8, decode_q8_0, encode_q8_0},
    {"q2_k", 256, 84, 10, decode_q2_k, encode_q2_k},
    {"q3_k", 256, 110, 11, decode_q3_k, encode_q3_k},
    {"q4_k", 256, 144, 12, decode_q4_k, encode_q4_k},
    {"q5_k", 256, 176, 13, decode_q5_k, encode_q5_k},
    {"q6_k", 256, 210, 14, decode_q6_k, encode_q6_k},
    {"iq4_nl", 32, 18, 20, decode_iq4_nl, encode_iq4_nl},
    {"iq4_xs", 256, 136, 23, decode_iq4_xs, encode_iq4_xs},
    {"mxfp4", 32, 17, 39, decode_mxfp4, encode_mxfp4},
    {"nvfp4", 64, 36, 40, decode_nvfp4},
    {"iq1_s", 256, 50, 19, decode_iq1_s},
    {"iq1_m", 256, 56, 29, decode_iq1_m},
    {"iq2_xxs", 256, 66, 16, decode_iq2_xxs},
    {"iq2_xs", 256, 74, 17, decode_iq2_xs},
    {"iq2_s", 256, 82, 22, decode_iq2_s},
    {"iq3_xxs", 256, 98, 18, decode_iq3_xxs},
    {"iq3_s", 256, 110, 21, decode_iq3_s},
    {"tq1_0", 256, 54, 34, decode_tq1_0},
    {"tq2_0", 256, 66, 35, decode_tq2_0},
    {"q1_0", 128, 18, 41, decode_q1_0},
    {"q2_0", 64, 18, 42, decode_q2_0},
    {"q8_1", 32, 36, 9, decode_q8_1_blocks, encode_q8_1_blocks},
    {"q8_k", 256, 292, 15, decode_q8_k, encode_q8_k},
    {"f64", 1, 8, 28, decode_f64},
    {"i8", 1, 1, 24, decode_i8},
    {"i16", 1, 2, 25, decode_i16},
    {"i32", 1, 4, 26, decode_i32},
    {"i64", 1, 8, 27, decode_i64},
};
static_assert(std::size(table) == format_count);

const Row& row(Format format) {
  check(uint32_t(format) < format_count, "a format of the table");
  return table[uint32_t(format)];
}

// An exponent of ones is that of infinity and NaN.
bool is_finite(float v) { return (std::bit_cast<uint32_t>(v) & 0x7f800000) != 0x7f800000; }
void check_finite(const float* values, size_t first, size_t count) {
  uint32_t bad = 0;
  for (size_t i = first; i < first + count; ++i) bad |= !is_finite(values[i]);
  if (!bad) return;
  for (size_t i = first;; ++i)
    if (!is_finite(values[i])) throw Error("value {} is {}", i, values[i]);
}

}  // namespace

std::string_view name(Format format) { return row(format).name; }
uint32_t block_values(Format format) { return row(format).values; }
uint32_t block_bytes(Format format) { return row(format).bytes; }
uint32_t gguf_type(Format format) { return row(format).gguf; }

std::optional<Format> format_of_gguf_type(uint32_t type) {
  for (uint32_t i = 0; i < format_count; ++i)
    if (table[i].gguf == type) return Format(i);
  return std::nullopt;
}

const std::vector<Format>& all_formats() {
  static const std::vector<Format> all = [] {
    std::vector<Format> list;
    for (uint32_t i = 0; i < format_count; ++i) list.push_back(Format(i));
    return list;
  }();
  return all;
}

Format format_named(std::string_view text) {
  std::vector<std::string_view> names;
  for (Format f : all_formats()) {
    if (name(f) == text) return f;
    names.push_back(name(f));
  }
  throw Error("there is no weight format \"{}\"; there are {}", text, fmt::join(names, ", "));
}

size_t row_bytes(Format format, size_t cols) {
  const Row& r = row(format);
  if (cols % r.values) throw Error("{}: {} columns are not a multiple of its block of {}", r.name, cols, r.values);
  return cols / r.values * r.bytes;
}

void decode(Format format, const uint8_t* blocks, size_t values, float* out) {
  const Row& r = row(format);
  if (values % r.values) throw Error("{}: {} values are not a multiple of its block of {}", r.name, values, r.values);
  r.decode(blocks, values / r.values, out);
}

bool can_encode(Format format) { return row(format).encode != nullptr; }

void encode(Format format, const float* values, size_t count, uint8_t* blocks) {
  const Row& r = row(format);
  if (!r.encode) throw Error("{} can be read but not written", r.name);
  if (count % r.values) throw Error("{}: {} values are not a multiple of its block of {}", r.name, count, r.values);
  constexpr size_t run = 4096;  // values checked and then encoded while they are in L1
  for (size_t first = 0; first < count; first += run) {
    const size_t n = std::min(run, count - first);
    check_finite(values, first, n);
    r.encode(values + first, n / r.values, blocks + first / r.values * r.bytes);
  }
}

}  // namespace heddle::quant
