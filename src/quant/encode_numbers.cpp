// To floats, rounded to nearest even. What is beyond the largest f16 or bf16 becomes that one: an infinite weight would
// break a model, a cut one hardly changes it.
#include <algorithm>

#include "quant/encoders.h"

namespace heddle::quant {

void encode_f32(const float* values, size_t count, uint8_t* blocks) {
  for (size_t i = 0; i < count; ++i) put_u32(blocks + 4 * i, std::bit_cast<uint32_t>(values[i]));
}

void encode_f16(const float* values, size_t count, uint8_t* blocks) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t half = f16_of_f32(values[i]);
    put_u16(blocks + 2 * i, (half & 0x7fff) == 0x7c00 ? half - 1 : half);
  }
}

void encode_bf16(const float* values, size_t count, uint8_t* blocks) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    put_u16(blocks + 2 * i, (rounded & 0x7fff) == 0x7f80 ? rounded - 1 : rounded);
  }
}

}  // namespace heddle::quant
