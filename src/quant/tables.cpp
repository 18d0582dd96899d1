// Formats whose nibbles name an entry of a table. Within 32 values, byte i holds value i (low) and i + 16 (high).
//   iq4_nl   18 bytes, 32 values: f16 d | 16 nibbles                            w = d * table[q]
//   iq4_xs  136 bytes, 256 values: f16 d | u16 high bits of the scales | 4 bytes of their low nibbles | 128 bytes of
//           nibbles, 16 for each 32 values                                      w = d * (scale - 32) * table[q]
//   mxfp4    17 bytes, 32 values: u8 e | 16 nibbles                             w = 2^(e - 128) * table[q]
#include "quant/tables.h"

#include "quant/blocks.h"

namespace heddle::quant {
namespace {

void decode_32(const uint8_t* nibbles, const int8_t* table, float scale, float* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * float(table[nibbles[i] & 15]);
    out[i + 16] = scale * float(table[nibbles[i] >> 4]);
  }
}

}  // namespace

void decode_iq4_nl(const uint8_t* block, float* out) { decode_32(block + 2, iq4_table, f16_at(block), out); }

void decode_iq4_xs(const uint8_t* block, float* out) {
  const float d = f16_at(block);
  const int high = u16_at(block + 2);
  for (int j = 0; j < 8; ++j) {
    const int scale = (block[4 + j / 2] >> 4 * (j % 2) & 15) | (high >> 2 * j & 3) << 4;
    decode_32(block + 8 + 16 * j, iq4_table, d * float(scale - 32), out + 32 * j);
  }
}

void decode_mxfp4(const uint8_t* block, float* out) {
  // half of 2^(e - 127), for the table holds twice the values; below 2 that is subnormal
  const uint32_t e = block[0];
  const float scale = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  decode_32(block + 1, mxfp4_table, scale, out);
}

}  // namespace heddle::quant
