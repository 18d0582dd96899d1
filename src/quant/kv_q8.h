// What a KV cache in q8 keeps of 32 neighbouring values of a head: int8 and an f16 scale. The last values of a head
// whose size is no multiple of 32 are a group of their own. Every device computes the same bits:
//   scale = f16(largest magnitude / 127), the division in f32, both roundings to nearest even;
//   q = value / scale, the division in f32, then to the nearest integer, ties to even, then within +-127;
//   where the scale is 0, so is every q.
// scale * q is exact in f32. (q8_0 of files multiplies with inverses, and its scale is 0 for zeros alone.)
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "quant/half.h"

namespace heddle::quant {

inline constexpr uint32_t kv_q8_values = 32;
inline constexpr uint32_t kv_q8_groups(uint32_t head) { return (head + kv_q8_values - 1) / kv_q8_values; }  // of a head

// Returns the scale, as f16. A NaN makes it a NaN.
inline uint16_t encode_kv_q8(const float* values, int8_t* q, uint32_t count = kv_q8_values) {
  uint32_t max = 0;  // magnitudes are ordered as their bits are
  for (uint32_t i = 0; i < count; ++i) max = std::max(max, std::bit_cast<uint32_t>(values[i]) & 0x7fffffff);
  const uint16_t half = f16_of_f32(std::bit_cast<float>(max) / 127);
  const float scale = f32_of_f16(half);
  for (uint32_t i = 0; i < count; ++i) {
    // the last place of the sum is 1, so it rounds to an integer: below 2^22 that is all, and no quotient is larger
    const float nearest = (values[i] / (scale == 0 ? 1 : scale) + 0x1.8p23f) - 0x1.8p23f;
    q[i] = scale == 0 ? int8_t(0) : nearest > 127 ? int8_t(127) : nearest > -127 ? int8_t(nearest) : int8_t(-127);
  }
  return half;
}

inline void decode_kv_q8(uint16_t half, const int8_t* q, float* values, uint32_t count = kv_q8_values) {
  const float scale = f32_of_f16(half);
  for (uint32_t i = 0; i < count; ++i) values[i] = scale * float(q[i]);
}

}  // namespace heddle::quant
