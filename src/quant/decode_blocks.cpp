// Decoders of numbers, of blocks with one scale, of formats with tables, and of formats with one or two bits.
#include "quant/codecs.h"
#include "quant/tables.h"

namespace heddle::quant {

// Formats without blocks: floats and integers, little-endian, rounded to the nearest f32.

void decode_f32(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = f32_at(blocks + 4 * i);
}
void decode_f16(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = f16_at(blocks + 2 * i);
}
void decode_bf16(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = to_f32(bf16{u16_at(blocks + 2 * i)});
}
void decode_f64(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float(std::bit_cast<double>(u64_at(blocks + 8 * i)));
}
void decode_i8(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float(int8_t(blocks[i]));
}
void decode_i16(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float(int16_t(u16_at(blocks + 2 * i)));
}
void decode_i32(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float(int32_t(u32_at(blocks + 4 * i)));
}
void decode_i64(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float(int64_t(u64_at(blocks + 8 * i)));
}

// Blocks of 32 values with one scale. Byte i of the nibbles holds value i (low) and value i + 16 (high).
//   q4_0  18 bytes: f16 d | 16 nibbles                    w = d * (q - 8)
//   q4_1  20 bytes: f16 d | f16 m | 16 nibbles            w = d * q + m
//   q5_0  22 bytes: f16 d | u32 high | 16 nibbles         w = d * (q - 16), bit i of `high` is bit 4 of value i
//   q5_1  24 bytes: f16 d | f16 m | u32 high | 16 nibbles w = d * q + m
//   q8_0  34 bytes: f16 d | 32 int8                       w = d * q
//   q8_1  36 bytes: f16 d | f16 s | 32 int8               w = d * q, s = d * (sum of the q)
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

// Formats whose nibbles name an entry of a table. Within 32 values (for nvfp4 16), byte i holds value i (low) and
// i + 16 (i + 8) (high).
//   iq4_nl   18 bytes, 32 values: f16 d | 16 nibbles                            w = d * table[q]
//   iq4_xs  136 bytes, 256 values: f16 d | u16 high bits of the scales | 4 bytes of their low nibbles | 128 bytes of
//           nibbles, 16 for each 32 values                                      w = d * (scale - 32) * table[q]
//   mxfp4    17 bytes, 32 values: u8 e | 16 nibbles                             w = 2^(e - 128) * table[q]
//   nvfp4    36 bytes, 64 values: 4 e4m3 scales, one for each 16 values | 32 bytes of nibbles, 8 for each 16 values
//                                                                               w = scale / 2 * table[q]
namespace {

template <int values>
void look_up(const uint8_t* nibbles, const int8_t* table, float scale, float* out) {
  for (int i = 0; i < values / 2; ++i) {
    out[i] = scale * float(table[nibbles[i] & 15]);
    out[i + values / 2] = scale * float(table[nibbles[i] >> 4]);
  }
}

}  // namespace

void decode_iq4_nl(const uint8_t* blocks, size_t count, float* out) {
  each_block<18, 32>(blocks, count, out,
                     [](const uint8_t* block, float* y) { look_up<32>(block + 2, iq4_table, f16_at(block), y); });
}

void decode_iq4_xs(const uint8_t* blocks, size_t count, float* out) {
  each_block<136, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block);
    const int high = u16_at(block + 2);
    for (int j = 0; j < 8; ++j) {
      const int scale = (block[4 + j / 2] >> 4 * (j % 2) & 15) | (high >> 2 * j & 3) << 4;
      look_up<32>(block + 8 + 16 * j, iq4_table, d * float(scale - 32), y + 32 * j);
    }
  });
}

void decode_mxfp4(const uint8_t* blocks, size_t count, float* out) {
  each_block<17, 32>(blocks, count, out, [](const uint8_t* block, float* y) {
    look_up<32>(block + 1, mxfp4_table, mxfp4_half_scale(block[0]), y);
  });
}

void decode_nvfp4(const uint8_t* blocks, size_t count, float* out) {
  each_block<36, 64>(blocks, count, out, [](const uint8_t* block, float* y) {
    for (int j = 0; j < 4; ++j) look_up<16>(block + 4 + 8 * j, mxfp4_table, nvfp4_half_scale(block[j]), y + 16 * j);
  });
}

// One scale for many values of one or two bits, or of three states:
//   q1_0    18 bytes, 128 values: f16 d | 16 bytes, bit i % 8 of byte i / 8 for value i     w = bit ? d : -d
//   q2_0    18 bytes, 64 values: f16 d | 16 bytes, bits 2 * (i % 4) and up of byte i / 4     w = (q - 1) * d
//   tq2_0   66 bytes, 256 values: 64 bytes of 2-bit quants as in q2_k | f16 d                w = (q - 1) * d
//   tq1_0   54 bytes, 256 values: 52 bytes of five (the last four: of four) ternary digits | f16 d
//                                                                                            w = (digit - 1) * d
// A byte of tq1_0 is a fraction of 256, its first digit the one after the point: times 3, what goes beyond 256 is the
// digit and the rest goes on. Bytes 0-31 hold the first digits of values 0-31, then the second ones of 32-63, ...;
// bytes 32-47 the same for 80 values from 160 on, bytes 48-51 for the last 16.
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
