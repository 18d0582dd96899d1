// Weights that are floats already, little-endian.
#include "quant/blocks.h"

namespace heddle::quant {

void decode_f32(const uint8_t* block, float* out) { *out = std::bit_cast<float>(u32_at(block)); }
void decode_f16(const uint8_t* block, float* out) { *out = f16_at(block); }
void decode_bf16(const uint8_t* block, float* out) { *out = to_f32(bf16{u16_at(block)}); }

}  // namespace heddle::quant
