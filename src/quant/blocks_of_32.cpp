// Blocks of 32 values with one scale. Byte i of the nibbles holds value i (low) and value i + 16 (high).
//   q4_0  18 bytes: f16 d | 16 nibbles                    w = d * (q - 8)
//   q4_1  20 bytes: f16 d | f16 m | 16 nibbles            w = d * q + m
//   q5_0  22 bytes: f16 d | u32 high | 16 nibbles         w = d * (q - 16), bit i of `high` is bit 4 of value i
//   q5_1  24 bytes: f16 d | f16 m | u32 high | 16 nibbles w = d * q + m
//   q8_0  34 bytes: f16 d | 32 int8                       w = d * q
//   q8_1  36 bytes: f16 d | f16 s | 32 int8               w = d * q, s = d * (sum of the q)
#include "quant/blocks.h"

namespace heddle::quant {
namespace {

// f(quant) for the nibbles, and for the nibbles with their high bits.
void each_nibble(const uint8_t* nibbles, float* out, auto&& f) {
  for (int i = 0; i < 16; ++i) out[i] = f(nibbles[i] & 15);
  for (int i = 0; i < 16; ++i) out[16 + i] = f(nibbles[i] >> 4);
}
void each_five_bits(const uint8_t* high, const uint8_t* nibbles, float* out, auto&& f) {
  const uint32_t bits = u32_at(high);
  for (int i = 0; i < 16; ++i) out[i] = f((nibbles[i] & 15) | int(bits >> i & 1) << 4);
  for (int i = 0; i < 16; ++i) out[16 + i] = f(nibbles[i] >> 4 | int(bits >> (16 + i) & 1) << 4);
}

}  // namespace

void decode_q4_0(const uint8_t* blocks, size_t count, float* out) {
  each_block<18, 32>(blocks, count, out, [](const uint8_t* block, float* y) {
    each_nibble(block + 2, y, [d = f16_at(block)](int q) { return d * float(q - 8); });
  });
}

void decode_q4_1(const uint8_t* blocks, size_t count, float* out) {
  each_block<20, 32>(blocks, count, out, [](const uint8_t* block, float* y) {
    each_nibble(block + 4, y, [d = f16_at(block), m = f16_at(block + 2)](int q) { return d * float(q) + m; });
  });
}

void decode_q5_0(const uint8_t* blocks, size_t count, float* out) {
  each_block<22, 32>(blocks, count, out, [](const uint8_t* block, float* y) {
    each_five_bits(block + 2, block + 6, y, [d = f16_at(block)](int q) { return d * float(q - 16); });
  });
}

void decode_q5_1(const uint8_t* blocks, size_t count, float* out) {
  each_block<24, 32>(blocks, count, out, [](const uint8_t* block, float* y) {
    each_five_bits(block + 4, block + 8, y,
                   [d = f16_at(block), m = f16_at(block + 2)](int q) { return d * float(q) + m; });
  });
}

void decode_q8_0(const uint8_t* blocks, size_t count, float* out) {
  each_block<34, 32>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block);
    for (int i = 0; i < 32; ++i) y[i] = d * float(int8_t(block[2 + i]));
  });
}

void decode_q8_1_blocks(const uint8_t* blocks, size_t count, float* out) {
  each_block<36, 32>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block);
    for (int i = 0; i < 32; ++i) y[i] = d * float(int8_t(block[4 + i]));
  });
}

}  // namespace heddle::quant
