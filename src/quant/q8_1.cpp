// Scalar q8_1.
#include "quant/q8_1.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "quant/codecs.h"

namespace heddle::quant {

size_t q8_1_row_bytes(size_t cols) {
  if (cols % q8_1_values) throw Error("q8_1: {} columns are not a multiple of its block of {}", cols, q8_1_values);
  return (cols + cols / q8_1_values * 4 + 15) / 16 * 16;
}

void encode_q8_1(const float* x, size_t cols, uint8_t* row) {
  std::fill_n(row, q8_1_row_bytes(cols), uint8_t(0));
  for (size_t b = 0; b < cols / q8_1_values; ++b) {
    const float* from = x + b * q8_1_values;
    uint32_t max = 0;  // magnitudes are ordered as their bits are, NaN above all
    for (uint32_t i = 0; i < q8_1_values; ++i) max = std::max(max, std::bit_cast<uint32_t>(from[i]) & 0x7fffffff);
    const float d = std::bit_cast<float>(max) / 127;
    if (d == 0) continue;  // nothing but zeros, or so small that they count as such
    int sum = 0;
    for (uint32_t i = 0; i < q8_1_values; ++i) {
      // the clamp is for a subnormal d, which is off by much of itself
      const float quotient = from[i] / d;
      const int q = std::isnan(quotient) ? 0 : int(std::clamp(std::nearbyint(quotient), -127.0f, 127.0f));
      row[b * q8_1_values + i] = uint8_t(q);
      sum += q;
    }
    put_f16(row + cols + 4 * b, d);
    put_f16(row + cols + 4 * b + 2, d * float(sum));
  }
}

void decode_q8_1(const uint8_t* row, size_t cols, float* out) {
  for (size_t i = 0; i < cols; ++i) out[i] = f16_at(row + cols + i / q8_1_values * 4) * float(int8_t(row[i]));
}

float q8_1_sum(const uint8_t* row, size_t cols, size_t b) { return f16_at(row + cols + 4 * b + 2); }

}  // namespace heddle::quant
