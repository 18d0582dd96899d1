// Scalar decoding of Q4_K.
#include "quant/q4_k.h"

#include "base/f16.h"

namespace heddle::quant {

Q4KScale q4_k_scale(const uint8_t packed[12], uint32_t j) {
  // the first four of each are the low 6 bits of bytes 0-3 and 4-7; the last four have their low 4 bits in bytes 8-11
  // and their high 2 bits on top of the first four
  if (j < 4) return {uint8_t(packed[j] & 63), uint8_t(packed[j + 4] & 63)};
  return {uint8_t((packed[j + 4] & 15) | packed[j - 4] >> 6 << 4), uint8_t(packed[j + 4] >> 4 | packed[j] >> 6 << 4)};
}

void dequantise_q4_k(const uint8_t* block, float out[q4_k_values]) {
  const float d = to_f32(f16{uint16_t(block[0] | block[1] << 8)});
  const float dmin = to_f32(f16{uint16_t(block[2] | block[3] << 8)});
  for (uint32_t j = 0; j < 8; ++j) {
    const Q4KScale s = q4_k_scale(block + 4, j);
    const float scale = d * s.scale, min = dmin * s.min;
    const uint8_t* nibbles = block + 16 + j / 2 * 32;
    for (uint32_t i = 0; i < 32; ++i) {
      const float product = scale * float(j % 2 ? nibbles[i] >> 4 : nibbles[i] & 15);
      out[32 * j + i] = product - min;
    }
  }
}

}  // namespace heddle::quant
