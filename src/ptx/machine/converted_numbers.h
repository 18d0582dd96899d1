// What a conversion computes for one lane.
#pragma once
#include "ptx/machine/numbers.h"

namespace heddle::ptx::machine::numbers {

// Integers: extends by the source type, drops the upper bits.
template <Integer To>
struct Resize {
  template <Integer From>
  To operator()(From a) const {
    return To(a);
  }
};
template <Integer To>
struct Saturate {
  template <Integer From>
  To operator()(From a) const {
    using Limits = std::numeric_limits<To>;
    if (std::cmp_less(a, Limits::min())) return Limits::min();
    if (std::cmp_greater(a, Limits::max())) return Limits::max();
    return To(a);
  }
};
// A 64-bit integer rounded to odd, which a second rounding does not see. (clang 14 rounds a row of 64-bit integers to
// f32 twice, through f64.)
template <Integer From>
inline double to_odd_f64(From a) {
  const From coarse = From((a >> 11) | ((a & 0x7ff) != 0));  // 53 bits
  constexpr uint64_t largest = uint64_t(1) << 53;
  const bool exact = std::is_signed_v<From> ? uint64_t(a) + largest <= 2 * largest : uint64_t(a) <= largest;
  return exact ? double(a) : double(coarse) * 2048;
}
// The f64 nearest to a 64-bit integer, or its neighbour where R asks for that one.
template <Round R, Integer From>
inline double to_f64(From a) {
  const double rounded = double(a);
  const int128 error = int128(a) - int128(rounded);
  const uint64_t bits = std::bit_cast<uint64_t>(rounded);
  return nearest<R> ? rounded : std::bit_cast<double>(other_side<direction<R>>(bits, double(error)));
}
template <class To, Round R>
struct FromInteger {
  template <Integer From>
  To operator()(From a) const {
    if constexpr (Half<To>)
      return to_half<To, R>(double(a));  // an integer that is not exact here is beyond f16 anyway
    else if constexpr (std::same_as<To, double>)
      return to_f64<R>(a);
    else if constexpr (sizeof(From) == 8)
      return to_f32<R>(to_odd_f64(a));
    else if constexpr (nearest<R>)
      return float(a);
    else
      return to_f32<R>(double(a));
  }
};

template <Round R, std::floating_point T>
inline T whole(T x) {
  switch (R) {
    case Round::rzi:
      return std::trunc(x);
    case Round::rmi:
      return std::floor(x);
    case Round::rpi:
      return std::ceil(x);
    default:
      return std::rint(x);
  }
}
template <Round R>
struct Whole {
  template <std::floating_point T>
  T operator()(T a) const {
    return canonical(whole<R>(a));
  }
};
// Clamps to the range of To. NaN gives 0, or only the top bit where an f64 or a 64-bit integer is involved.
template <Integer To, Round R>
struct ToInteger {
  template <class From>
  To operator()(From a) const {
    using Limits = std::numeric_limits<To>;
    constexpr bool wide = sizeof(To) == 8 || std::same_as<From, double>;
    constexpr To of_nan = wide ? To(Unsigned<To>(1) << (8 * sizeof(To) - 1)) : To(0);
    const auto x = whole<R>(value(a));
    if constexpr (sizeof(To) <= 4) {  // both limits are f64 values
      using Cast = std::conditional_t<std::same_as<To, uint32_t>, int64_t, int32_t>;
      const double clamped = std::min(std::max(double(x), double(Limits::min())), double(Limits::max()));
      const To result = To(Cast(x == x ? clamped : 0));
      return x == x ? result : of_nan;
    } else {
      constexpr double beyond = std::is_signed_v<To> ? 0x1p63 : 0x1p64;  // first value too large
      if (x != x) return of_nan;
      if (double(x) >= beyond) return Limits::max();
      if (double(x) <= double(Limits::min())) return Limits::min();
      return To(x);
    }
  }
};

struct WidenF16 {  // f32 or f64
  float operator()(heddle::f16 a) const { return canonical(widen(a)); }
};
struct WidenF16ToF64 {
  double operator()(heddle::f16 a) const { return canonical(double(widen(a))); }
};
struct WidenBf16 {
  float operator()(heddle::bf16 a) const { return widen(a); }
};
struct WidenF32 {
  double operator()(float a) const { return canonical(double(a)); }
};
template <Round R>
struct NarrowToF32 {
  float operator()(double a) const { return canonical(to_f32<R>(a)); }
};
template <Half To, Round R>
struct NarrowToHalf {
  To operator()(float a) const {
    if constexpr (nearest<R>) return narrow<To>(a);
    return to_half<To, R>(a);
  }
  To operator()(double a) const { return to_half<To, R>(a); }
};
// To nearest, ties away from zero, in the 10 upper bits of the fraction; the rest is zero. A NaN is cut, as on a GPU:
// one whose payload lies in the lower bits becomes an infinity.
struct ToTf32 {
  uint32_t operator()(float a) const {
    const uint32_t bits = std::bit_cast<uint32_t>(a);
    return (a == a ? bits + 0x1000 : bits) & 0xffffe000;
  }
};
template <Half T>
struct PackHalves {
  uint32_t operator()(float hi, float lo) const { return uint32_t(narrow<T>(hi).bits) << 16 | narrow<T>(lo).bits; }
};

// fp8, saturating to the largest finite value.
inline uint8_t to_fp8(double x, heddle::e4m3) { return heddle::to_e4m3(x).bits; }
inline uint8_t to_fp8(double x, heddle::e5m2) { return heddle::to_e5m2(x).bits; }
template <class Fp8>
struct PackFp8 {
  uint16_t operator()(float hi, float lo) const { return uint16_t(to_fp8(hi, Fp8()) << 8 | to_fp8(lo, Fp8())); }
  uint16_t operator()(uint32_t pair) const {  // of f16
    return (*this)(widen(heddle::f16{uint16_t(pair >> 16)}), widen(heddle::f16{uint16_t(pair)}));
  }
};
template <class Fp8>
struct UnpackFp8 {  // to a pair of f16: exact
  static constexpr std::array<uint16_t, 256> table = [] {
    std::array<uint16_t, 256> t{};
    for (uint32_t code = 0; code < 256; ++code) {
      Fp8 x;
      x.bits = uint8_t(code);
      t[code] = heddle::to_f16(heddle::to_f32(x)).bits;
    }
    return t;
  }();
  uint32_t operator()(uint16_t pair) const { return uint32_t(table[pair >> 8]) << 16 | table[pair & 0xff]; }
};

}  // namespace heddle::ptx::machine::numbers
