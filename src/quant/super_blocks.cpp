// Super-blocks of 256 values: small integer scales (and mins) for 16 or 32 values each, which two f16 scale in turn.
//   q2_k   84 bytes: 16 scales (low nibble) and mins (high nibble), one for each 16 values | 64 bytes of 2-bit quants |
//          f16 d | f16 dmin                                                   w = d * scale * q - dmin * min
//   q3_k  110 bytes: 32 bytes of high bits | 64 bytes of 2-bit quants | 12 bytes of sixteen 6-bit scales | f16 d
//                                                                             w = d * (scale - 32) * (q - 4)
//   q4_k  144 bytes: f16 d | f16 dmin | 12 bytes of eight 6-bit scales and mins, one for each 32 values |
//          128 bytes of nibbles                                               w = d * scale * q - dmin * min
//   q5_k  176 bytes: as q4_k, with 32 bytes of high bits before the nibbles
//   q6_k  210 bytes: 128 bytes of nibbles | 64 bytes of 2 high bits each | 16 int8 scales | f16 d
//                                                                             w = d * scale * (q - 32)
// Each product of scales is exact in f32; only the last difference rounds.
#include "quant/blocks.h"

namespace heddle::quant {
namespace {

struct Pair {
  int scale, min;
};
// Number j of the eight 6-bit scales and mins in the 12 bytes: the first four of each are the low 6 bits of bytes 0-3
// and 4-7; the last four have their low 4 bits in bytes 8-11 and their high 2 bits on top of the first four.
Pair pair_of_six_bits(const uint8_t* packed, int j) {
  if (j < 4) return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 15) | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4};
}

// Number j of the sixteen 6-bit scales in the 12 bytes: the low 4 bits in the nibbles of bytes 0-7 (8 to 15 in the
// high nibbles), the high 2 bits in bytes 8-11.
int six_bits(const uint8_t* packed, int j) {
  const int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4;
  return low | (packed[8 + j % 4] >> 2 * (j / 4) & 3) << 4;
}

// 2-bit quants: half n of 128 values has 32 bytes; bits 2j and 2j + 1 of byte b are value 32 * j + b of the half.
int two_bits(const uint8_t* bytes, int i) {
  const int n = i / 128, j = i % 128 / 32, b = i % 32;
  return bytes[32 * n + b] >> 2 * j & 3;
}

// Nibbles: chunk c of 64 values has 32 bytes, values 0-31 of it in the low and 32-63 in the high nibbles.
int nibble(const uint8_t* bytes, int i) { return bytes[i / 64 * 32 + i % 32] >> (i % 64 < 32 ? 0 : 4) & 15; }

}  // namespace

void decode_q2_k(const uint8_t* block, float* out) {
  const float d = f16_at(block + 80), dmin = f16_at(block + 82);
  for (int i = 0; i < 256; ++i) {
    const uint8_t packed = block[i / 16];
    const float scale = d * float(packed & 15), min = dmin * float(packed >> 4);
    out[i] = scale * float(two_bits(block + 16, i)) - min;
  }
}

void decode_q3_k(const uint8_t* block, float* out) {
  const float d = f16_at(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int high = block[i % 32] >> i / 32 & 1;  // bit i / 32 of byte i % 32
    const float scale = d * float(six_bits(block + 96, i / 16) - 32);
    out[i] = scale * float((two_bits(block + 32, i) | high << 2) - 4);
  }
}

void decode_q4_k(const uint8_t* block, float* out) {
  const float d = f16_at(block), dmin = f16_at(block + 2);
  for (int i = 0; i < 256; ++i) {
    const Pair pair = pair_of_six_bits(block + 4, i / 32);
    const float scale = d * float(pair.scale), min = dmin * float(pair.min);
    out[i] = scale * float(nibble(block + 16, i)) - min;
  }
}

void decode_q5_k(const uint8_t* block, float* out) {
  const float d = f16_at(block), dmin = f16_at(block + 2);
  for (int i = 0; i < 256; ++i) {
    const Pair pair = pair_of_six_bits(block + 4, i / 32);
    const float scale = d * float(pair.scale), min = dmin * float(pair.min);
    const int high = block[16 + i % 32] >> i / 32 & 1;  // bit i / 32 of byte i % 32
    out[i] = scale * float(nibble(block + 48, i) | high << 4) - min;
  }
}

void decode_q6_k(const uint8_t* block, float* out) {
  const float d = f16_at(block + 208);
  for (int i = 0; i < 256; ++i) {
    // half n of 128 values: 64 bytes of nibbles (values 64-127 high) and 32 bytes of high bits, 2 for each 32 values
    const int n = i / 128, j = i % 128;
    const int low = block[64 * n + j % 64] >> (j < 64 ? 0 : 4) & 15;
    const int high = block[128 + 32 * n + j % 32] >> 2 * (j / 32) & 3;
    const float scale = d * float(int8_t(block[192 + i / 16]));
    out[i] = scale * float((low | high << 4) - 32);
  }
}

}  // namespace heddle::quant
