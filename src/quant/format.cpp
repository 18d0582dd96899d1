// The table of formats.
#include "quant/format.h"

#include <fmt/format.h>

#include "base/error.h"
#include "quant/blocks.h"

namespace heddle::quant {
namespace {

struct Row {
  std::string_view name;
  uint32_t values, bytes;  // of a block
  void (*decode)(const uint8_t* block, float* out);
};
constexpr Row table[] = {
    {"f32", 1, 4, decode_f32},       {"f16", 1, 2, decode_f16},         {"bf16", 1, 2, decode_bf16},
    {"q4_0", 32, 18, decode_q4_0},   {"q4_1", 32, 20, decode_q4_1},     {"q5_0", 32, 22, decode_q5_0},
    {"q5_1", 32, 24, decode_q5_1},   {"q8_0", 32, 34, decode_q8_0},     {"q2_k", 256, 84, decode_q2_k},
    {"q3_k", 256, 110, decode_q3_k}, {"q4_k", 256, 144, decode_q4_k},   {"q5_k", 256, 176, decode_q5_k},
    {"q6_k", 256, 210, decode_q6_k}, {"iq4_nl", 32, 18, decode_iq4_nl}, {"iq4_xs", 256, 136, decode_iq4_xs},
    {"mxfp4", 32, 17, decode_mxfp4},
};
static_assert(std::size(table) == format_count);

const Row& row(Format format) {
  check(uint32_t(format) < format_count, "a format of the table");
  return table[uint32_t(format)];
}

}  // namespace

std::string_view name(Format format) { return row(format).name; }
uint32_t block_values(Format format) { return row(format).values; }
uint32_t block_bytes(Format format) { return row(format).bytes; }

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
  for (size_t i = 0; i < values; i += r.values, blocks += r.bytes) r.decode(blocks, out + i);
}

}  // namespace heddle::quant
