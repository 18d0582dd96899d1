// Super-blocks of 256 values whose quants name entries of a codebook. In eights of values:
//   iq2_xxs  66 bytes: f16 d | for each 32 values 4 bytes of entries, then a u32: four times 7 bits of signs, 4 bits of
//            scale                                                            w = d * (scale + 1/2) / 4 * entry
//   iq2_xs   74 bytes: f16 d | 32 u16: 9 bits of entry, 7 of signs | 8 bytes of 4-bit scales, one for each 16 values
//   iq2_s    82 bytes: f16 d | 32 bytes of entries | 32 bytes of 8 signs | 8 bytes of 2 high bits of entries each |
//            8 bytes of 4-bit scales
//   iq1_s    50 bytes: f16 d | 32 bytes of entries | 8 u16, one for each 32 values: four times 3 high bits of entries,
//            3 bits of scale, the sign of the shift                    w = d * (2 * scale + 1) * (entry +- 1/8)
//   iq1_m    56 bytes: 32 bytes of entries | 16 bytes: 3 high bits and the sign of the shift in each nibble | 4 u16:
//            four times 3 bits of scale, one for each 16 values; their high nibbles together are the f16 d
// In fours of values:
//   iq3_xxs  98 bytes: f16 d | 64 bytes of entries | 8 u32, one for each 32 values: four times 7 bits of signs, 4 bits
//            of scale                                                         w = d * (scale + 1/2) / 2 * entry
//   iq3_s   110 bytes: f16 d | 64 bytes of entries | 8 bytes of high bits | 32 bytes of 8 signs | 4 bytes of 4-bit
//            scales, one for each 32 values                                   w = d * (2 * scale + 1) * entry
// 7 bits of signs stand for 8: the last one makes their number even. All products are exact in f32.
#include <array>

#include "quant/codecs.h"
#include "quant/grid_codes.h"

namespace heddle::quant {
namespace {

template <int values, size_t entries, size_t levels>
constexpr auto expand(const uint16_t (&codes)[entries], const int8_t (&level)[levels]) {
  constexpr int bits = values == 8 ? 2 : 3;
  std::array<std::array<int8_t, values>, entries> grid{};
  for (size_t e = 0; e < entries; ++e)
    for (int i = 0; i < values; ++i) grid[e][size_t(i)] = level[codes[e] >> bits * i & ((1 << bits) - 1)];
  return grid;
}
constexpr int8_t iq2_levels[] = {8, 25, 43}, iq1_levels[] = {-1, 0, 1};
constexpr auto iq2_xxs_grid = expand<8>(iq2_xxs_codes, iq2_levels);
constexpr auto iq2_xs_grid = expand<8>(iq2_xs_codes, iq2_levels);
constexpr auto iq2_s_grid = expand<8>(iq2_s_codes, iq2_levels);
constexpr auto iq1_grid = expand<8>(iq1_codes, iq1_levels);
constexpr auto iq3_xxs_grid = expand<4>(iq3_xxs_codes, {4, 12, 20, 28, 36, 44, 52, 62});
constexpr auto iq3_s_grid = expand<4>(iq3_s_codes, {1, 3, 5, 7, 9, 11, 13, 15});

int eight_signs(uint32_t seven) { return int(seven & 127) | (std::popcount(seven & 127) & 1) << 7; }

template <size_t values>
void put(const std::array<int8_t, values>& entry, int signs, float scale, float* out) {
  for (size_t i = 0; i < values; ++i) out[i] = (signs >> i & 1 ? -scale : scale) * float(entry[i]);
}
void put_shifted(int index, bool negative, float scale, float* out) {
  const float shift = negative ? -0.125f : 0.125f;
  for (size_t i = 0; i < 8; ++i) out[i] = scale * (float(iq1_grid[size_t(index)][i]) + shift);
}

// The 4-bit scale of eight number e where a byte has those of 32 values, 16 each.
int scale_of_16(const uint8_t* scales, int e) { return scales[e / 4] >> (e % 4 < 2 ? 0 : 4) & 15; }

}  // namespace

void decode_iq2_xxs(const uint8_t* blocks, size_t count, float* out) {
  each_block<66, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block) * 0.25f;
    for (int j = 0; j < 8; ++j) {
      const uint8_t* entries = block + 2 + 8 * j;
      const uint32_t rest = u32_at(entries + 4);
      const float scale = d * (float(rest >> 28) + 0.5f);
      for (int e = 0; e < 4; ++e) put(iq2_xxs_grid[entries[e]], eight_signs(rest >> 7 * e), scale, y + 32 * j + 8 * e);
    }
  });
}

void decode_iq2_xs(const uint8_t* blocks, size_t count, float* out) {
  each_block<74, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block) * 0.25f;
    for (int e = 0; e < 32; ++e) {
      const uint32_t q = u16_at(block + 2 + 2 * e);
      const float scale = d * (float(scale_of_16(block + 66, e)) + 0.5f);
      put(iq2_xs_grid[q & 511], eight_signs(q >> 9), scale, y + 8 * e);
    }
  });
}

void decode_iq2_s(const uint8_t* blocks, size_t count, float* out) {
  each_block<82, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block) * 0.25f;
    for (int e = 0; e < 32; ++e) {
      const int high = block[66 + e / 4] >> 2 * (e % 4) & 3;
      const float scale = d * (float(scale_of_16(block + 74, e)) + 0.5f);
      put(iq2_s_grid[size_t(block[2 + e] | high << 8)], block[34 + e], scale, y + 8 * e);
    }
  });
}

void decode_iq3_xxs(const uint8_t* blocks, size_t count, float* out) {
  each_block<98, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block) * 0.5f;
    for (int j = 0; j < 8; ++j) {
      const uint32_t rest = u32_at(block + 66 + 4 * j);
      const float scale = d * (float(rest >> 28) + 0.5f);
      for (int e = 0; e < 8; ++e)
        put(iq3_xxs_grid[block[2 + 8 * j + e]], eight_signs(rest >> 7 * (e / 2)) >> 4 * (e % 2), scale,
            y + 32 * j + 4 * e);
    }
  });
}

void decode_iq3_s(const uint8_t* blocks, size_t count, float* out) {
  each_block<110, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block);
    for (int e = 0; e < 64; ++e) {
      const int high = block[66 + e / 8] >> e % 8 & 1, signs = block[74 + e / 2] >> 4 * (e % 2);
      const float scale = d * float(2 * (block[106 + e / 16] >> (e % 16 < 8 ? 0 : 4) & 15) + 1);
      put(iq3_s_grid[size_t(block[2 + e] | high << 8)], signs, scale, y + 4 * e);
    }
  });
}

void decode_iq1_s(const uint8_t* blocks, size_t count, float* out) {
  each_block<50, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const float d = f16_at(block);
    for (int e = 0; e < 32; ++e) {
      const int rest = u16_at(block + 34 + 2 * (e / 4));
      const float scale = d * float(2 * (rest >> 12 & 7) + 1);
      put_shifted(block[2 + e] | (rest >> 3 * (e % 4) & 7) << 8, rest >> 15, scale, y + 8 * e);
    }
  });
}

void decode_iq1_m(const uint8_t* blocks, size_t count, float* out) {
  each_block<56, 256>(blocks, count, out, [](const uint8_t* block, float* y) {
    const uint8_t *high = block + 32, *scales = block + 48;
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits |= uint32_t(scales[2 * i + 1] >> 4) << 4 * i;
    const float d = to_f32(f16{uint16_t(bits)});
    for (int e = 0; e < 32; ++e) {
      const int nibble = high[e / 2] >> 4 * (e % 2) & 15;
      const float scale = d * float(2 * (u16_at(scales + 2 * (e / 8)) >> 3 * (e % 8 / 2) & 7) + 1);
      put_shifted(block[e] | (nibble & 7) << 8, nibble >> 3, scale, y + 8 * e);
    }
  });
}

}  // namespace heddle::quant
