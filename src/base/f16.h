// The small floats (f16, bf16, and the 8-bit e4m3 and e5m2) as bits, with exact decoding and single-rounding encoding.
// Rounding is to nearest, ties to even. A NaN is encoded as the one the GPU's cvt gives: all bits set but the sign.
#pragma once
#include <bit>
#include <cstdint>

namespace heddle {

struct f16 {
  uint16_t bits = 0;
  bool operator==(const f16&) const = default;  // of bits: a NaN equals itself, +0 differs from -0
};
struct bf16 {
  uint16_t bits = 0;
  bool operator==(const bf16&) const = default;
};
struct e4m3 {  // the "fn" variant: no infinities, NaN is 0x7f and 0xff
  uint8_t bits = 0;
  bool operator==(const e4m3&) const = default;
};
struct e5m2 {
  uint8_t bits = 0;
  bool operator==(const e5m2&) const = default;
};

namespace small_float {

struct Format {
  int exponent_bits, mantissa_bits;
  uint32_t largest;   // bits of the largest finite value
  uint32_t overflow;  // bits of any value beyond it: infinity, or the largest where the conversion saturates

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  constexpr uint32_t nan() const { return sign() - 1; }
};
inline constexpr Format f16_format{5, 10, 0x7bff, 0x7c00};
inline constexpr Format bf16_format{8, 7, 0x7f7f, 0x7f80};
inline constexpr Format e4m3_format{4, 3, 0x7e, 0x7e};
inline constexpr Format e5m2_format{5, 2, 0x7b, 0x7b};

// One rounding from 53 bits. An f32 is a double exactly, so this serves both.
constexpr uint32_t encode(double value, const Format& format) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t fraction = bits & ((1ull << 52) - 1);
  const int field = static_cast<int>(bits >> 52) & 0x7ff;
  const uint32_t sign = bits >> 63 ? format.sign() : 0;
  if (field == 0x7ff) return fraction ? format.nan() : sign | format.overflow;

  const uint64_t significand = fraction | (field ? 1ull << 52 : 0);
  const int exponent = (field ? field : 1) - 1023 + format.bias();  // biased in the target; < 1 is subnormal there
  const int dropped = 52 - format.mantissa_bits + (exponent < 1 ? 1 - exponent : 0);
  if (dropped > 53) return sign;  // below half of the smallest subnormal

  uint64_t kept = significand >> dropped;
  const uint64_t rest = significand & ((1ull << dropped) - 1), half = 1ull << (dropped - 1);
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  // `kept` carries its implicit bit, and a carry out of it, into the exponent field
  const uint64_t magnitude = (static_cast<uint64_t>(exponent > 1 ? exponent - 1 : 0) << format.mantissa_bits) + kept;
  return sign | (magnitude > format.largest ? format.overflow : static_cast<uint32_t>(magnitude));
}

// Exact: every value of every format here is an f32.
constexpr float decode(uint32_t bits, const Format& format) {
  const uint32_t sign = bits & format.sign() ? 1u << 31 : 0;
  const uint32_t magnitude = bits & format.nan();
  const uint32_t fraction = magnitude & ((1u << format.mantissa_bits) - 1);
  const uint32_t field = magnitude >> format.mantissa_bits;
  const bool has_infinity = format.largest < format.nan() - 1;  // true of all but e4m3

  uint32_t result;
  if (has_infinity ? field == (1u << format.exponent_bits) - 1 : magnitude == format.nan())
    result = 0x7f800000 | fraction << (23 - format.mantissa_bits);
  else if (field || format.exponent_bits == 8)
    result = (magnitude << (23 - format.mantissa_bits)) + (static_cast<uint32_t>(127 - format.bias()) << 23);
  else  // subnormal: fraction * 2^(1 - bias - mantissa_bits), a normal f32, and the product is exact
    result = std::bit_cast<uint32_t>(
        static_cast<float>(fraction) *
        std::bit_cast<float>(static_cast<uint32_t>(128 - format.bias() - format.mantissa_bits) << 23));
  return std::bit_cast<float>(sign | result);
}

}  // namespace small_float

constexpr float to_f32(f16 x) { return small_float::decode(x.bits, small_float::f16_format); }
constexpr float to_f32(bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
constexpr float to_f32(e4m3 x) { return small_float::decode(x.bits, small_float::e4m3_format); }
constexpr float to_f32(e5m2 x) { return small_float::decode(x.bits, small_float::e5m2_format); }

// From float or double, with one rounding. Beyond the largest value: infinity.
constexpr f16 to_f16(double x) { return {static_cast<uint16_t>(small_float::encode(x, small_float::f16_format))}; }
constexpr bf16 to_bf16(double x) { return {static_cast<uint16_t>(small_float::encode(x, small_float::bf16_format))}; }
// Saturating (cvt.rn.satfinite): beyond the largest value, infinity included, the largest value.
constexpr e4m3 to_e4m3(double x) { return {static_cast<uint8_t>(small_float::encode(x, small_float::e4m3_format))}; }
constexpr e5m2 to_e5m2(double x) { return {static_cast<uint8_t>(small_float::encode(x, small_float::e5m2_format))}; }

}  // namespace heddle
