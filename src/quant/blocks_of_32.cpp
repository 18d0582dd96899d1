// Blocks of 32 values with one scale. Byte i of the nibbles holds value i (low) and value i + 16 (high).
//   q4_0  18 bytes: f16 d | 16 nibbles                    w = d * (q - 8)
//   q4_1  20 bytes: f16 d | f16 m | 16 nibbles            w = d * q + m
//   q5_0  22 bytes: f16 d | u32 high | 16 nibbles         w = d * (q - 16), bit i of `high` is bit 4 of value i
//   q5_1  24 bytes: f16 d | f16 m | u32 high | 16 nibbles w = d * q + m
//   q8_0  34 bytes: f16 d | 32 int8                       w = d * q
#include "quant/blocks.h"

namespace heddle::quant {
namespace {

int nibble(const uint8_t* bytes, int i) { return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4; }
int five_bits(const uint8_t* bytes, uint32_t high, int i) { return nibble(bytes, i) | int(high >> i & 1) << 4; }

}  // namespace

void decode_q4_0(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (int i = 0; i < 32; ++i) out[i] = d * float(nibble(block + 2, i) - 8);
}

void decode_q4_1(const uint8_t* block, float* out) {
  const float d = f16_at(block), m = f16_at(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * float(nibble(block + 4, i)) + m;
}

void decode_q5_0(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  const uint32_t high = u32_at(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * float(five_bits(block + 6, high, i) - 16);
}

void decode_q5_1(const uint8_t* block, float* out) {
  const float d = f16_at(block), m = f16_at(block + 2);
  const uint32_t high = u32_at(block + 4);
  for (int i = 0; i < 32; ++i) out[i] = d * float(five_bits(block + 8, high, i)) + m;
}

void decode_q8_0(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  for (int i = 0; i < 32; ++i) out[i] = d * float(int8_t(block[2 + i]));
}

}  // namespace heddle::quant
