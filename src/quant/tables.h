// The tables that the nibbles of some formats name an entry of.
#pragma once
#include <cstdint>

namespace heddle::quant {

// iq4_nl and iq4_xs
inline constexpr int8_t iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// mxfp4: twice the value of a 4-bit float (sign, 2 bits of exponent, 1 of fraction)
inline constexpr int8_t mxfp4_table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace heddle::quant
