// f16 and bf16 without branches, so that the compiler vectorises it. The same results as base/f16.h.
#pragma once
#include <bit>
#include <cstdint>

namespace heddle::quant {

// All bits where `condition`. A choice between results must not become a branch: one around a sum or a product of
// floats prevents vectors.
inline uint32_t ones_if(bool condition) { return 0u - uint32_t(condition); }

inline float f32_of_f16(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffu, sign = uint32_t(half & 0x8000u) << 16;
  // infinity and NaN keep an exponent of ones
  const uint32_t normal = (magnitude << 13) + (112u << 23) + (ones_if(magnitude >= 0x7c00) & 112u << 23);
  const uint32_t subnormal = std::bit_cast<uint32_t>(float(int(magnitude)) * 0x1p-24f),
                 is_subnormal = ones_if(magnitude < 0x0400);
  return std::bit_cast<float>((subnormal & is_subnormal) | (normal & ~is_subnormal) | sign);
}

inline uint16_t f16_of_f32(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v), magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
  // to nearest even: half a step less one, and one more where the last bit that stays is odd
  const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  // the last place of 0.5f is that of a subnormal f16, so the sum is rounded as it should be
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t is_subnormal = ones_if(magnitude < 113u << 23), is_beyond = ones_if(magnitude >= 0x477ff000);
  const uint32_t finite = (subnormal & is_subnormal) | (normal & ~is_subnormal);
  const uint32_t nan = ones_if(magnitude > 0x7f800000);
  return uint16_t((finite & ~is_beyond) | (0x7c00 & is_beyond) | (0x7fff & nan) | (sign & ~nan));
}

inline uint16_t bf16_of_f32(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v), nan = ones_if((bits & 0x7fffffff) > 0x7f800000);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;  // to nearest even
  return uint16_t((rounded & ~nan) | (0x7fff & nan));
}

}  // namespace heddle::quant
