// Formats whose nibbles name an entry of a table. Within 32 values (for nvfp4 16), byte i holds value i (low) and
// i + 16 (i + 8) (high).
//   iq4_nl   18 bytes, 32 values: f16 d | 16 nibbles                            w = d * table[q]
//   iq4_xs  136 bytes, 256 values: f16 d | u16 high bits of the scales | 4 bytes of their low nibbles | 128 bytes of
//           nibbles, 16 for each 32 values                                      w = d * (scale - 32) * table[q]
//   mxfp4    17 bytes, 32 values: u8 e | 16 nibbles                             w = 2^(e - 128) * table[q]
//   nvfp4    36 bytes, 64 values: 4 e4m3 scales, one for each 16 values | 32 bytes of nibbles, 8 for each 16 values
//                                                                               w = scale / 2 * table[q]
#include "quant/tables.h"

#include "quant/blocks.h"

namespace heddle::quant {
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

}  // namespace heddle::quant
