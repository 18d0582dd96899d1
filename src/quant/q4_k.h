// Q4_K as bytes, and its scalar decoder: the reference for every kernel that reads the format.
// A super-block is 256 weights in 144 bytes, little-endian:
//   0    f16 d, the scale of the scales
//   2    f16 dmin, the scale of the mins
//   4    12 bytes: eight 6-bit scales and eight 6-bit mins, one pair for each sub-block of 32 weights
//   16   128 bytes of nibbles: chunk c of 64 weights has sub-block 2c in the low and 2c + 1 in the high nibbles
#pragma once
#include <cstdint>

namespace heddle::quant {

inline constexpr uint32_t q4_k_values = 256;
inline constexpr uint32_t q4_k_bytes = 144;

// The 6-bit scale and min of sub-block j, from the 12 packed bytes.
struct Q4KScale {
  uint8_t scale, min;
};
Q4KScale q4_k_scale(const uint8_t packed[12], uint32_t j);

// weight = d * scale[j] * q - dmin * min[j], each product and the difference rounded to f32.
void dequantise_q4_k(const uint8_t* block, float out[q4_k_values]);

}  // namespace heddle::quant
