// Arithmetic written out with integers, for the cases to compare against: numbers are an integer times a power of two,
// and the one rounding at the end counts the bits it drops. Shares nothing with the interpreter.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "ptx/ir.h"

namespace heddle::ptx::cases {

__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;

// --- formats --------------------------------------------------------------------------------------------------------
struct Format {
  int exponent_bits, fraction_bits;
  bool infinities = true;  // e4m3 has none: only its all-ones code is no number
  int bits() const { return 1 + exponent_bits + fraction_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t sign() const { return uint64_t(1) << (bits() - 1); }
  uint64_t infinity() const { return ((uint64_t(1) << exponent_bits) - 1) << fraction_bits; }
  uint64_t nan() const { return fraction_bits == 52 ? 0xfff8000000000000u : sign() - 1; }
  uint64_t largest() const { return infinities ? infinity() - 1 : sign() - 2; }
  bool is_nan(uint64_t code) const { return (code & (sign() - 1)) > (infinities ? infinity() : largest()); }
};
inline constexpr Format f16_format{5, 10}, bf16_format{8, 7}, f32_format{8, 23}, f64_format{11, 52}, tf32_format{8, 10},
    e4m3_format{4, 3, false}, e5m2_format{5, 2};

// Of a number or, for a packed type, of its parts.
inline Format format_of(Type t) {
  switch (t) {
    case Type::f16:
    case Type::f16x2:
      return f16_format;
    case Type::bf16:
    case Type::bf16x2:
      return bf16_format;
    case Type::f32:
    case Type::tf32:
      return f32_format;
    case Type::e4m3:
    case Type::e4m3x2:
      return e4m3_format;
    case Type::e5m2:
    case Type::e5m2x2:
      return e5m2_format;
    default:
      return f64_format;
  }
}

// --- numbers --------------------------------------------------------------------------------------------------------
struct Real {
  enum Kind { number, infinite, nan } kind = number;
  bool negative = false;
  uint128 significand = 0;  // the number is significand * 2^exponent; 0 keeps its sign
  int exponent = 0;
  bool more = false;  // and something on top, less than 1 in the last place
};

inline Real decode(const Format& f, uint64_t code) {
  Real r{.negative = (code & f.sign()) != 0};
  const uint64_t field = (code & (f.sign() - 1)) >> f.fraction_bits,
                 fraction = code & ((uint64_t(1) << f.fraction_bits) - 1);
  if (f.is_nan(code))
    r.kind = Real::nan;
  else if (f.infinities && (code & (f.sign() - 1)) == f.infinity())
    r.kind = Real::infinite;
  else
    r.significand = field ? fraction + (uint64_t(1) << f.fraction_bits) : fraction;
  r.exponent = int(field ? field : 1) - f.bias() - f.fraction_bits;
  return r;
}
inline int top_bit(uint128 x) {  // of a number that is not 0
  return x >> 64 ? 127 - std::countl_zero(uint64_t(x >> 64)) : 63 - std::countl_zero(uint64_t(x));
}
// |r| as a whole multiple of 2^unit, rounded as if r had its sign.
inline uint128 round_to(const Real& r, int unit, Round how) {
  const int drop = unit - r.exponent;
  uint128 kept = 0, half = 0;
  bool below_half = r.more;
  if (drop <= 0) {
    kept = r.significand << -drop;
  } else {
    kept = drop < 128 ? r.significand >> drop : 0;
    half = drop <= 128 ? r.significand >> (drop - 1) & 1 : 0;
    for (int i = 0; i < drop - 1 && i < 128; ++i) below_half |= (r.significand >> i & 1) != 0;
  }
  const bool inexact = half || below_half;
  switch (how) {
    case Round::rz:
    case Round::rzi:
      return kept;
    case Round::rm:
    case Round::rmi:
      return kept + (r.negative && inexact);
    case Round::rp:
    case Round::rpi:
      return kept + (!r.negative && inexact);
    case Round::rna:
      return kept + (half != 0);
    default:
      return kept + (half && (below_half || (kept & 1)));
  }
}
// `saturate`: the largest number in place of infinity.
inline uint64_t encode(const Format& f, const Real& r, Round how, bool saturate = false) {
  if (r.kind == Real::nan) return f.nan();
  const uint64_t sign = r.negative ? f.sign() : 0, infinity = saturate ? f.largest() : f.infinity();
  if (r.kind == Real::infinite) return sign | infinity;
  if (!r.significand) return sign;
  const int lowest = 1 - f.bias();
  const int exponent = std::max(r.exponent + top_bit(r.significand), lowest);
  const uint128 kept = round_to(r, exponent - f.fraction_bits, how);
  const uint128 implicit = uint128(1) << f.fraction_bits;
  if (kept < implicit) return sign | uint64_t(kept);
  const uint128 code =
      (uint128(exponent + f.bias()) << f.fraction_bits) + (kept - implicit);  // a carry moves up the exponent
  if (code <= f.largest()) return sign | uint64_t(code);
  const bool stays = how == Round::rz || (how == Round::rm && !r.negative) || (how == Round::rp && r.negative);
  return sign | (stays ? f.largest() : infinity);
}
inline Real integer(int128 v) { return {.negative = v < 0, .significand = v < 0 ? uint128(-v) : uint128(v)}; }
// All of a format's numbers are doubles.
inline double value_of(const Format& f, uint64_t code) {
  const Real r = decode(f, code);
  const double magnitude = r.kind == Real::nan        ? std::nan("")
                           : r.kind == Real::infinite ? HUGE_VAL
                                                      : std::ldexp(double(uint64_t(r.significand)), r.exponent);
  return r.negative ? -magnitude : magnitude;
}
inline Real real(long double v) {
  if (std::isnan(v)) return {.kind = Real::nan};
  if (std::isinf(v)) return {.kind = Real::infinite, .negative = v < 0};
  int exponent = 0;
  long double m = std::frexp(std::fabs(v), &exponent);
  uint128 bits = 0;  // 120 of them: every long double has fewer
  for (int i = 0; i < 4; ++i) {
    m = std::ldexp(m, 30);
    const uint32_t digit = uint32_t(m);
    bits = bits << 30 | digit;
    m -= digit;
  }
  return {.negative = std::signbit(v), .significand = bits, .exponent = exponent - 120};
}

// --- operations -----------------------------------------------------------------------------------------------------
inline Real product(const Real& a, const Real& b) {
  Real r{.negative = a.negative != b.negative};
  const bool zero = (a.kind == Real::number && !a.significand) || (b.kind == Real::number && !b.significand);
  if (a.kind == Real::nan || b.kind == Real::nan)
    r.kind = Real::nan;
  else if (a.kind == Real::infinite || b.kind == Real::infinite)
    r.kind = zero ? Real::nan : Real::infinite;
  r.significand = a.significand * b.significand;  // 53 + 53 bits
  r.exponent = a.exponent + b.exponent;
  return r;
}
// A fixed-point number with all bits from 2^-2240 to 2^2300: room for any product of two f64 and their sums.
struct Fixed {
  static constexpr int words = 71, lowest = -2240;
  std::array<uint64_t, words> word{};

  explicit Fixed(const Real& r) {
    const int at = r.exponent - lowest;
    for (int half = 0; half < 2; ++half) {
      const uint128 part = uint128(uint64_t(r.significand >> 64 * half)) << at % 64;
      add(at / 64 + half, uint64_t(part));
      add(at / 64 + half + 1, uint64_t(part >> 64));
    }
  }
  void add(int i, uint64_t v) {
    for (; v; ++i) {
      word[size_t(i)] += v;
      v = word[size_t(i)] < v;
    }
  }
  bool operator<(const Fixed& o) const {
    for (int i = words; i-- > 0;)
      if (word[size_t(i)] != o.word[size_t(i)]) return word[size_t(i)] < o.word[size_t(i)];
    return false;
  }
  void add(const Fixed& o) {
    for (int i = 0; i < words; ++i) add(i, o.word[size_t(i)]);
  }
  void subtract(const Fixed& o) {  // not larger
    uint64_t borrow = 0;
    for (size_t i = 0; i < words; ++i) {
      const uint128 d = uint128(word[i]) - o.word[i] - borrow;
      word[i] = uint64_t(d);
      borrow = d >> 64 ? 1 : 0;
    }
  }
  Real real(bool negative) const {
    int top = words - 1;
    while (top > 1 && !word[size_t(top)]) --top;
    Real r{.negative = negative,
           .significand = uint128(word[size_t(top)]) << 64 | word[size_t(top - 1)],
           .exponent = lowest + 64 * (top - 1)};
    for (int i = 0; i < top - 1; ++i) r.more |= word[size_t(i)] != 0;
    return r;
  }
};
inline Real sum(const Real& a, const Real& b, Round how) {
  if (a.kind == Real::nan || b.kind == Real::nan) return {.kind = Real::nan};
  if (a.kind == Real::infinite && b.kind == Real::infinite && a.negative != b.negative) return {.kind = Real::nan};
  if (a.kind == Real::infinite) return a;
  if (b.kind == Real::infinite) return b;
  Fixed x(a), y(b);
  Real r;
  if (a.negative == b.negative) {
    x.add(y);
    r = x.real(a.negative);
  } else if (x < y) {
    y.subtract(x);
    r = y.real(b.negative);
  } else {
    x.subtract(y);
    r = x.real(a.negative);
  }
  if (!r.significand) r.negative = a.negative == b.negative ? a.negative : how == Round::rm;
  return r;
}
inline Real quotient(const Real& a, const Real& b) {
  Real r{.negative = a.negative != b.negative};
  const bool a_zero = a.kind == Real::number && !a.significand, b_zero = b.kind == Real::number && !b.significand;
  const bool a_infinite = a.kind == Real::infinite, b_infinite = b.kind == Real::infinite;
  if (a.kind == Real::nan || b.kind == Real::nan || (a_zero && b_zero) || (a_infinite && b_infinite)) {
    r.kind = Real::nan;
  } else if (a_infinite || b_zero) {
    r.kind = Real::infinite;
  } else if (!a_zero && !b_infinite) {
    const int shift = 127 - top_bit(a.significand);
    const uint128 from = a.significand << shift;
    r.significand = from / b.significand;  // at least 74 bits
    r.more = from % b.significand != 0;
    r.exponent = a.exponent - shift - b.exponent;
  }
  return r;
}
inline Real root(const Real& a) {
  if (a.kind == Real::nan || (a.negative && (a.significand || a.kind == Real::infinite))) return {.kind = Real::nan};
  if (a.kind == Real::infinite || !a.significand) return a;
  int shift = 125 - top_bit(a.significand);
  if ((a.exponent - shift) % 2) --shift;
  const uint128 from = a.significand << shift;
  uint128 result = 0;  // at least 62 bits
  for (uint128 bit = uint128(1) << 63; bit; bit >>= 1)
    if ((result | bit) * (result | bit) <= from) result |= bit;
  return {.significand = result, .exponent = (a.exponent - shift) / 2, .more = result * result != from};
}

// --- integers -------------------------------------------------------------------------------------------------------
// The number that the low bits of `bits` mean in type t.
inline int128 integer_value(Type t, uint64_t bits) {
  const uint32_t width = 8 * size_of(t);
  if (width < 64) bits &= (uint64_t(1) << width) - 1;
  const bool negative = is_signed(t) && bits >> (width - 1) & 1;
  return int128(bits) - (negative ? int128(1) << width : 0);
}
inline int128 lowest(Type t) { return is_signed(t) ? -(int128(1) << (8 * size_of(t) - 1)) : 0; }
inline int128 highest(Type t) { return (int128(1) << (8 * size_of(t) - is_signed(t))) - 1; }
// The value modulo 2^width.
inline uint64_t wrapped(Type t, int128 v) {
  const uint128 all = uint128(v);
  return size_of(t) == 8 ? uint64_t(all) : uint64_t(all) & ((uint64_t(1) << 8 * size_of(t)) - 1);
}

}  // namespace heddle::ptx::cases
