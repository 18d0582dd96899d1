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
//   q8_k  292 bytes: f32 d | 256 int8 | 16 int16 sums of 16 int8 each         w = d * q
// Each product of scales is exact in f32; only the last difference rounds (and for q8_k the product).
#include "quant/codecs.h"

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

// 2-bit quants: half n of 128 values has 32 bytes; bits 2j and 2j + 1 of byte b are value 32 * j + b of the half. So
// values 16 * g to 16 * g + 15 have their bits at one shift in 16 neighbouring bytes.
const uint8_t* two_bits(const uint8_t* bytes, int g) { return bytes + g / 8 * 32 + g % 2 * 16; }
int two_bits_shift(int g) { return 2 * (g % 8 / 2); }

// Nibbles: chunk c of 64 values has 32 bytes, values 0-31 of it in the low and 32-63 in the high nibbles. Values 32 * j
// to 32 * j + 31 have theirs at one shift.
const uint8_t* nibbles(const uint8_t* bytes, int j) { return bytes + j / 2 * 32; }
int nibble_shift(int j) { return 4 * (j % 2); }

}  // namespace

void decode_q2_k(const uint8_t* blocks, size_t count, float* out) {
  each_block<84, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block + 80), dmin = f16_at(block + 82);
    for (int g = 0; g < 16; ++g) {
      const float scale = d * float(block[g] & 15), min = dmin * float(block[g] >> 4);
      const uint8_t* low = two_bits(block + 16, g);
      const int shift = two_bits_shift(g);
      for (int i = 0; i < 16; ++i) y[16 * g + i] = scale * float(low[i] >> shift & 3) - min;
    }
  });
}

void decode_q3_k(const uint8_t* blocks, size_t count, float* out) {
  each_block<110, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block + 108);
    for (int g = 0; g < 16; ++g) {
      const float scale = d * float(six_bits(block + 96, g) - 32);
      const uint8_t* low = two_bits(block + 32, g);
      const uint8_t* high = block + g % 2 * 16;  // bit v / 32 of byte v % 32 for value v
      const int shift = two_bits_shift(g), bit = g / 2;
      for (int i = 0; i < 16; ++i)
        y[16 * g + i] = scale * float(((low[i] >> shift & 3) | (high[i] >> bit & 1) << 2) - 4);
    }
  });
}

void decode_q4_k(const uint8_t* blocks, size_t count, float* out) {
  each_block<144, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block), dmin = f16_at(block + 2);
    for (int j = 0; j < 8; ++j) {
      const Pair pair = pair_of_six_bits(block + 4, j);
      const float scale = d * float(pair.scale), min = dmin * float(pair.min);
      const uint8_t* low = nibbles(block + 16, j);
      const int shift = nibble_shift(j);
      for (int i = 0; i < 32; ++i) y[32 * j + i] = scale * float(low[i] >> shift & 15) - min;
    }
  });
}

void decode_q5_k(const uint8_t* blocks, size_t count, float* out) {
  each_block<176, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block), dmin = f16_at(block + 2);
    for (int j = 0; j < 8; ++j) {
      const Pair pair = pair_of_six_bits(block + 4, j);
      const float scale = d * float(pair.scale), min = dmin * float(pair.min);
      const uint8_t* low = nibbles(block + 48, j);
      const uint8_t* high = block + 16;  // bit j of byte i for value i of the 32
      const int shift = nibble_shift(j);
      for (int i = 0; i < 32; ++i)
        y[32 * j + i] = scale * float((low[i] >> shift & 15) | (high[i] >> j & 1) << 4) - min;
    }
  });
}

void decode_q6_k(const uint8_t* blocks, size_t count, float* out) {
  each_block<210, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block + 208);
    for (int g = 0; g < 16; ++g) {
      // half n of 128 values: 64 bytes of nibbles (values 64-127 high) and 32 bytes of high bits, 2 for each 32 values
      const int n = g / 8, j = g % 8;
      const uint8_t *low = block + 64 * n + j % 4 * 16, *high = two_bits(block + 128, g);
      const int low_shift = j < 4 ? 0 : 4, high_shift = two_bits_shift(g);
      const float scale = d * float(int8_t(block[192 + g]));
      for (int i = 0; i < 16; ++i)
        y[16 * g + i] = scale * float(((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
    }
  });
}

void decode_q8_k(const uint8_t* blocks, size_t count, float* out) {
  each_block<292, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f32_at(block);
    for (int i = 0; i < 256; ++i) y[i] = d * float(int8_t(block[4 + i]));
  });
}

}  // namespace heddle::quant
