// The tables of formats whose nibbles name an entry.
#pragma once
#include <bit>
#include <cstdint>

namespace heddle::quant {

// iq4_nl and iq4_xs
inline constexpr int8_t iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// mxfp4 and nvfp4: twice the value of a 4-bit float (sign, 2 bits of exponent, 1 of fraction)
inline constexpr int8_t mxfp4_table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
// half of 2^(e - 127), for the table holds twice the values; below 2 that is subnormal
inline float mxfp4_half_scale(uint32_t e) { return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23); }
// half of an e4m3 without its sign; 0x7f is 0, while 0xff is a number (480)
inline float nvfp4_half_scale(uint32_t bits) {
  const uint32_t magnitude = bits == 0x7f ? 0 : bits & 0x7f;
  return magnitude < 8 ? float(magnitude) * 0x1p-10f : std::bit_cast<float>((magnitude << 20) + (119u << 23));
}

}  // namespace heddle::quant
