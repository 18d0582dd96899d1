// One scale for many values of one or two bits, or of three states:
//   q1_0    18 bytes, 128 values: f16 d | 16 bytes, bit i % 8 of byte i / 8 for value i     w = bit ? d : -d
//   q2_0    18 bytes, 64 values: f16 d | 16 bytes, bits 2 * (i % 4) and up of byte i / 4     w = (q - 1) * d
//   tq2_0   66 bytes, 256 values: 64 bytes of 2-bit quants as in q2_k | f16 d                w = (q - 1) * d
//   tq1_0   54 bytes, 256 values: 52 bytes of five (the last four: of four) ternary digits | f16 d
//                                                                                            w = (digit - 1) * d
// A byte of tq1_0 is a fraction of 256, its first digit the one after the point: times 3, what goes beyond 256 is the
// digit and the rest goes on. Bytes 0-31 hold the first digits of values 0-31, then the second ones of 32-63, ...;
// bytes 32-47 the same for 80 values from 160 on, bytes 48-51 for the last 16.
#include "quant/blocks.h"

namespace heddle::quant {
namespace {

// Digit number n of `bytes` bytes to values n * bytes and on.
float* put_digits(const uint8_t* packed, int bytes, int digits, float d, float* out) {
  int power = 1;
  for (int n = 0; n < digits; ++n, power *= 3)
    for (int i = 0; i < bytes; ++i) *out++ = float(((packed[i] * power & 255) * 3 >> 8) - 1) * d;
  return out;
}

}  // namespace

void decode_tq1_0(const uint8_t* blocks, size_t count, float* out) {
  each_block<54, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block + 52);
    y = put_digits(block, 32, 5, d, y);
    y = put_digits(block + 32, 16, 5, d, y);
    put_digits(block + 48, 4, 4, d, y);
  });
}

void decode_tq2_0(const uint8_t* blocks, size_t count, float* out) {
  each_block<66, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block + 64);
    for (int j = 0; j < 8; ++j)
      for (int i = 0; i < 32; ++i) y[32 * j + i] = float((block[j / 4 * 32 + i] >> 2 * (j % 4) & 3) - 1) * d;
  });
}

void decode_q1_0(const uint8_t* blocks, size_t count, float* out) {
  each_block<18, 128>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block);
    for (int i = 0; i < 128; ++i) y[i] = block[2 + i / 8] >> i % 8 & 1 ? d : -d;
  });
}

void decode_q2_0(const uint8_t* blocks, size_t count, float* out) {
  each_block<18, 64>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block);
    for (int i = 0; i < 64; ++i) y[i] = float((block[2 + i / 4] >> 2 * (i % 4) & 3) - 1) * d;
  });
}

}  // namespace heddle::quant
