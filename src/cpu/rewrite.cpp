// iq2_xxs, iq2_xs and iq3_xxs with all signs written out and each field by itself: see quant/grids.cpp for the files'
// blocks. Four bytes of 70, 78 and 102 are what that costs.
#include "cpu/rewrite.h"

#include <cstring>

#include "base/error.h"
#include "quant/blocks.h"

namespace heddle::cpu {
namespace {

using quant::Format;

uint8_t eight_signs(uint32_t seven) { return uint8_t((seven & 127) | (std::popcount(seven & 127) & 1) << 7); }

// The u32 of 32 values of the _xxs formats, number j: four times 7 signs and a scale.
void signs_and_scale(uint32_t word, uint32_t j, uint8_t* signs, uint8_t* scales) {
  for (uint32_t e = 0; e < 4; ++e) signs[4 * j + e] = eight_signs(word >> 7 * e);
  scales[j / 2] = uint8_t(scales[j / 2] | word >> 28 << j % 2 * 4);
}

}  // namespace

uint32_t rewritten_bytes(Format format) {
  switch (format) {
    case Format::iq2_xxs:
      return 70;
    case Format::iq2_xs:
      return 78;
    case Format::iq3_xxs:
      return 102;
    default:
      return 0;
  }
}

void rewrite(Format format, const uint8_t* block, uint8_t* to) {
  std::memset(to, 0, rewritten_bytes(format));
  std::memcpy(to, block, 2);  // d
  if (format == Format::iq2_xs) {
    std::memcpy(to + 2, block + 66, 8);  // scales
    for (uint32_t e = 0; e < 32; ++e) {
      const uint32_t q = quant::u16_at(block + 2 + 2 * e);
      to[10 + e / 8] = uint8_t(to[10 + e / 8] | (q >> 8 & 1) << e % 8);
      to[14 + e] = eight_signs(q >> 9);
      to[46 + e] = uint8_t(q);
    }
    return;
  }
  check(format == Format::iq2_xxs || format == Format::iq3_xxs, "a format that is written anew");
  for (uint32_t j = 0; j < 8; ++j) {
    const bool eights = format == Format::iq2_xxs;
    signs_and_scale(quant::u32_at(block + (eights ? 6 + 8 * j : 66 + 4 * j)), j, to + 6, to + 2);
    if (eights)
      std::memcpy(to + 38 + 4 * j, block + 2 + 8 * j, 4);
    else
      std::memcpy(to + 38 + 8 * j, block + 2 + 8 * j, 8);
  }
}

}  // namespace heddle::cpu
