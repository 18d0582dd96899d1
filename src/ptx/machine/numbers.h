// What an instruction computes for one lane, free of rows and warps: the GPU's arithmetic on each scalar type.
// A NaN result is the GPU's one NaN (f32 0x7fffffff, f16 and bf16 0x7fff); subnormals are kept; the floating-point
// environment is expected in its default state (round to nearest) and is left so.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/f16.h"
#include "ptx/ir.h"

namespace heddle::ptx::machine::numbers {

__extension__ using int128 = __int128;  // -Wpedantic: not ISO C++
__extension__ using uint128 = unsigned __int128;

template <class T>
concept Half = std::same_as<T, heddle::f16> || std::same_as<T, heddle::bf16>;
template <class T>
concept Integer = std::integral<T>;

template <Round R>
inline constexpr bool nearest = R == Round::none || R == Round::rn;

// --- NaN ----------------------------------------------------------------------------------------------------------
inline float canonical(float x) { return x == x ? x : std::bit_cast<float>(0x7fffffffu); }
// f64 instructions may keep a payload that the manual does not pin down; the interpreter has one NaN here too.
inline double canonical(double x) { return x == x ? x : std::bit_cast<double>(0xfff8000000000000u); }

// --- between the 16-bit types and f32, without branches, so that a row is done in vectors ---------------------------
inline float widen(heddle::f16 h) {
  const uint32_t sign = uint32_t(h.bits & 0x8000) << 16, magnitude = h.bits & 0x7fff;
  // the exponent moves from one bias to the other by a multiplication, which also normalises subnormals
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign | (magnitude >= 0x7c00 ? 0x7f800000 : 0));
}
inline float widen(heddle::bf16 h) { return std::bit_cast<float>(uint32_t(h.bits) << 16); }

// To nearest even.
template <Half T>
inline T narrow(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffff;
  uint32_t result;
  if constexpr (std::same_as<T, heddle::f16>) {
    // below 2^-14: 0.5f has the subnormals' spacing, 2^-24, so the addition rounds
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
    const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    result = magnitude < 0x38800000 ? subnormal : magnitude < 0x47800000 ? normal : 0x7c00;
  } else {
    result = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;
  }
  return {uint16_t(magnitude > 0x7f800000 ? 0x7fff : (bits >> 16 & 0x8000) | result)};
}

// --- every rounding but to nearest, from the rounding to nearest ----------------------------------------------------
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
template <class T>
inline constexpr BitsOf<T> sign_bit = BitsOf<T>(1) << (8 * sizeof(T) - 1);

// Rounded to odd, an inexact result ends in a 1. A second rounding, to a type at least two bits narrower, then gives
// what one rounding of the exact value would give, whatever its direction.
enum class Toward { odd, zero, below, above };
// `bits` encode the number nearest to an exact value that is `error` more (NaN: an error of none). Gives the number on
// the other side of the value where the first is not the one in that direction.
template <Toward where, class Bits, std::floating_point Error>
inline Bits other_side(Bits bits, Error error) {
  using ErrorBits = BitsOf<Error>;
  constexpr ErrorBits infinity = sizeof(Error) == 4 ? ErrorBits(0x7f800000) : ErrorBits(0x7ff0000000000000);
  const ErrorBits by = std::bit_cast<ErrorBits>(error);
  // masks rather than conditions: g++ 12 then does rows in vectors
  const Bits sign = bits >> (8 * sizeof(Bits) - 1), error_sign = Bits(by >> (8 * sizeof(Error) - 1));
  const Bits inward = Bits(0) - (sign ^ error_sign);  // the value is nearer to zero than the bits
  const ErrorBits size = by & ~sign_bit<Error>;
  const Bits inexact = ErrorBits(size - 1) < infinity ? ~Bits(0) : Bits(0);  // neither 0 nor NaN
  const Bits asked = where == Toward::odd     ? (bits & 1) - 1
                     : where == Toward::zero  ? inward
                     : where == Toward::below ? Bits(0) - error_sign
                                              : error_sign - 1;
  return Bits(bits + ((inward | 1) & inexact & asked));
}
template <Round R>
inline constexpr Toward direction = R == Round::rz   ? Toward::zero
                                    : R == Round::rm ? Toward::below
                                                     : Toward::above;

template <Round R>
inline float to_f32(double x) {
  const float f = float(x);
  if constexpr (nearest<R>) return f;
  return std::bit_cast<float>(other_side<direction<R>>(std::bit_cast<uint32_t>(f), x - double(f)));
}
inline float to_odd(double x) {
  const float f = float(x);
  return std::bit_cast<float>(other_side<Toward::odd>(std::bit_cast<uint32_t>(f), x - double(f)));
}
template <Half T, Round R>
inline T to_half(double x) {
  T h = narrow<T>(to_odd(x));
  if constexpr (!nearest<R>) h.bits = other_side<direction<R>>(h.bits, x - double(widen(h)));
  return h;
}
// a + b rounded to odd, where no intermediate can overflow: T has room to spare above both.
template <std::floating_point T>
inline T sum_to_odd(T a, T b) {
  const T sum = a + b, b_seen = sum - a, error = (a - (sum - b_seen)) + (b - b_seen);  // a + b == sum + error
  return std::bit_cast<T>(other_side<Toward::odd>(std::bit_cast<BitsOf<T>>(sum), error));
}
// The sign of a sum that is exactly zero: rounding down, -0 unless both are +0.
template <Round R>
inline double zero_sign(double sum, double a, double b) {
  if constexpr (R != Round::rm) return sum;
  const uint64_t signs = (std::bit_cast<uint64_t>(a) | std::bit_cast<uint64_t>(b)) & sign_bit<double>;
  return sum == 0 ? std::bit_cast<double>(signs) : sum;
}
// f(a, b, c) with the processor rounding as R asks, for f64. The volatile accesses keep f between the two calls.
template <Round R, class F>
inline double in_mode(F f, double a, double b = 0, double c = 0) {
  constexpr int mode = R == Round::rz ? FE_TOWARDZERO : R == Round::rm ? FE_DOWNWARD : FE_UPWARD;
  volatile double x = a, y = b, z = c, result;
  std::fesetround(mode);
  result = f(x, y, z);
  std::fesetround(FE_TONEAREST);
  return result;
}

// --- arithmetic -----------------------------------------------------------------------------------------------------
template <Integer T>
using Unsigned = std::make_unsigned_t<T>;
// Wide enough that no product of two T overflows.
template <Integer T>
using Twice = std::conditional_t<
    std::is_signed_v<T>,
    std::conditional_t<sizeof(T) == 2, int32_t, std::conditional_t<sizeof(T) == 4, int64_t, int128>>,
    std::conditional_t<sizeof(T) == 2, uint32_t, std::conditional_t<sizeof(T) == 4, uint64_t, uint128>>>;
// Wraps around; at least 32 bits wide, so that 16-bit factors are not promoted to a signed int.
template <Integer T>
using Wrapping = std::conditional_t<sizeof(T) == 2, uint32_t, Unsigned<T>>;

template <Round R>
struct Add {
  template <Integer T>
  T operator()(T a, T b) const {
    return T(Wrapping<T>(a) + Wrapping<T>(b));
  }
  float operator()(float a, float b) const {
    if constexpr (nearest<R>) return canonical(a + b);
    return canonical(to_f32<R>(zero_sign<R>(sum_to_odd<double>(a, b), a, b)));
  }
  double operator()(double a, double b) const {
    if constexpr (nearest<R>) return canonical(a + b);
    return canonical(in_mode<R>([](double x, double y, double) { return x + y; }, a, b));
  }
  // Twice rounded but right: f32 has 2 * 11 + 2 bits.
  template <Half T>
  T operator()(T a, T b) const {
    return narrow<T>(widen(a) + widen(b));
  }
};
template <Round R>
struct Sub {
  template <Integer T>
  T operator()(T a, T b) const {
    return T(Wrapping<T>(a) - Wrapping<T>(b));
  }
  template <std::floating_point T>
  T operator()(T a, T b) const {
    return Add<R>()(a, -b);
  }
  template <Half T>
  T operator()(T a, T b) const {
    return narrow<T>(widen(a) - widen(b));
  }
};
template <Round R>
struct Mul {
  template <Integer T>
  T operator()(T a, T b) const {
    return T(Wrapping<T>(a) * Wrapping<T>(b));
  }
  float operator()(float a, float b) const {
    if constexpr (nearest<R>) return canonical(a * b);
    return canonical(to_f32<R>(double(a) * double(b)));
  }
  double operator()(double a, double b) const {
    if constexpr (nearest<R>) return canonical(a * b);
    return canonical(in_mode<R>([](double x, double y, double) { return x * y; }, a, b));
  }
  // Once rounded: an f16 product is exact in f32, and of a bf16 product, 16 bits, f32 drops only what lies below half
  // of the smallest bf16.
  template <Half T>
  T operator()(T a, T b) const {
    return narrow<T>(widen(a) * widen(b));
  }
};
template <Round R>
struct Fma {
  float operator()(float a, float b, float c) const {
#ifdef __FP_FAST_FMAF
    if constexpr (nearest<R>) return canonical(__builtin_fmaf(a, b, c));
#endif
    const double product = double(a) * double(b);  // exact
    return canonical(to_f32<R>(zero_sign<R>(sum_to_odd<double>(product, c), product, c)));
  }
  double operator()(double a, double b, double c) const {
    if constexpr (nearest<R>) return canonical(std::fma(a, b, c));
    return canonical(in_mode<R>([](double x, double y, double z) { return std::fma(x, y, z); }, a, b, c));
  }
  heddle::f16 operator()(heddle::f16 a, heddle::f16 b, heddle::f16 c) const {
    return narrow<heddle::f16>(sum_to_odd<float>(widen(a) * widen(b), widen(c)));
  }
  heddle::bf16 operator()(heddle::bf16 a, heddle::bf16 b, heddle::bf16 c) const {
    return narrow<heddle::bf16>(to_odd(sum_to_odd<double>(double(widen(a)) * double(widen(b)), widen(c))));
  }
};
// A quotient or root of 24-bit numbers is never so close to a 25-bit one that rounding to 53 bits first could hide on
// which side it lies; so f32 goes through f64 for every direction.
template <Round R>
struct Div {
  float operator()(float a, float b) const {
    if constexpr (nearest<R>) return canonical(a / b);
    return canonical(to_f32<R>(double(a) / double(b)));
  }
  double operator()(double a, double b) const {
    if constexpr (nearest<R>) return canonical(a / b);
    return canonical(in_mode<R>([](double x, double y, double) { return x / y; }, a, b));
  }
};
template <Round R>
struct Rcp {
  template <std::floating_point T>
  T operator()(T a) const {
    return Div<R>()(T(1), a);
  }
};
template <Round R>
struct Sqrt {
  float operator()(float a) const {
    if constexpr (nearest<R>) return canonical(std::sqrt(a));
    return canonical(to_f32<R>(std::sqrt(double(a))));
  }
  double operator()(double a) const {
    if constexpr (nearest<R>) return canonical(std::sqrt(a));
    return canonical(in_mode<R>([](double x, double, double) { return std::sqrt(x); }, a));
  }
};

struct MulHi {
  template <Integer T>
  T operator()(T a, T b) const {
    return T(Twice<T>(a) * Twice<T>(b) >> 8 * sizeof(T));
  }
};
struct MulWide {
  template <Integer T>
  Twice<T> operator()(T a, T b) const {
    return Twice<T>(a) * Twice<T>(b);
  }
};
struct Mad {
  template <Integer T>
  T operator()(T a, T b, T c) const {
    return T(Wrapping<T>(a) * Wrapping<T>(b) + Wrapping<T>(c));
  }
};
struct MadWide {
  template <Integer T>
  Twice<T> operator()(T a, T b, Twice<T> c) const {
    using U = Unsigned<Twice<T>>;
    return Twice<T>(U(Twice<T>(a) * Twice<T>(b)) + U(c));
  }
};
// b is not 0; the most negative number divided by -1 wraps around to itself.
struct IntDiv {
  template <Integer T>
  T operator()(T a, T b) const {
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return T(0 - Wrapping<T>(a));
    return T(a / b);
  }
};
struct IntRem {
  template <Integer T>
  T operator()(T a, T b) const {
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return T(a % b);
  }
};

// --- sign, order ----------------------------------------------------------------------------------------------------
inline float value(float x) { return x; }
inline double value(double x) { return x; }
template <Half T>
float value(T x) {
  return widen(x);
}

struct Abs {
  template <class T>
  T operator()(T a) const {
    if constexpr (Integer<T>)
      return T(a < 0 ? 0 - Wrapping<T>(a) : Wrapping<T>(a));
    else
      return std::bit_cast<T>(BitsOf<T>(std::bit_cast<BitsOf<T>>(a) & ~sign_bit<T>));
  }
};
struct Neg {
  template <class T>
  T operator()(T a) const {
    if constexpr (Integer<T>)
      return T(0 - Wrapping<T>(a));
    else
      return std::bit_cast<T>(BitsOf<T>(std::bit_cast<BitsOf<T>>(a) ^ sign_bit<T>));
  }
};
// The other operand where one is NaN; -0 lies below +0.
template <bool greater>
struct Extreme {
  template <Integer T>
  T operator()(T a, T b) const {
    return greater ? std::max(a, b) : std::min(a, b);
  }
  template <std::floating_point T>
  T operator()(T a, T b) const {
    using Bits = BitsOf<T>;
    const T chosen = (greater ? a > b : a < b) || b != b ? a : b;
    // equal numbers differ in their sign at most
    const Bits x = std::bit_cast<Bits>(a), y = std::bit_cast<Bits>(b), joined = greater ? x & y : x | y;
    return canonical(a == b ? std::bit_cast<T>(joined) : chosen);
  }
  template <Half T>
  T operator()(T a, T b) const {
    constexpr uint16_t infinity = std::same_as<T, heddle::bf16> ? 0x7f80 : 0x7c00;
    // as signed integers, with the magnitude of negative ones inverted, the bits are in order
    auto key = [](uint16_t x) { return int16_t(x ^ (uint16_t(int16_t(x) >> 15) >> 1)); };
    const bool a_nan = (a.bits & 0x7fff) > infinity, b_nan = (b.bits & 0x7fff) > infinity;
    const uint16_t chosen = (key(a.bits) < key(b.bits)) != greater ? a.bits : b.bits;
    const uint16_t number = a_nan ? b.bits : b_nan ? a.bits : chosen;
    return {a_nan && b_nan ? uint16_t(0x7fff) : number};
  }
};
using Min = Extreme<false>;
using Max = Extreme<true>;
// NaN where one operand is.
template <class Least>
struct OrNan {
  float operator()(float a, float b) const { return a == a && b == b ? Least()(a, b) : canonical(a + b); }
};

template <Compare how>
struct Test {
  template <class T>
  uint32_t operator()(T a, T b) const {
    if constexpr (Integer<T>) {
      switch (how) {
        case Compare::eq:
          return a == b;
        case Compare::ne:
          return a != b;
        case Compare::lt:
          return a < b;
        case Compare::le:
          return a <= b;
        case Compare::gt:
          return a > b;
        default:
          return a >= b;
      }
    } else {
      const auto x = value(a), y = value(b);
      const bool ordered = !(x != x) & !(y != y);
      switch (how) {
        case Compare::eq:
          return x == y;
        case Compare::ne:
          return ordered & (x != y);
        case Compare::lt:
          return x < y;
        case Compare::le:
          return x <= y;
        case Compare::gt:
          return x > y;
        case Compare::ge:
          return x >= y;
        case Compare::equ:
          return (x == y) | !ordered;
        case Compare::neu:
          return x != y;
        case Compare::ltu:
          return (x < y) | !ordered;
        case Compare::leu:
          return (x <= y) | !ordered;
        case Compare::gtu:
          return (x > y) | !ordered;
        case Compare::geu:
          return (x >= y) | !ordered;
        case Compare::num:
          return ordered;
        case Compare::nan:
          return !ordered;
      }
      return 0;
    }
  }
};

// --- approximate functions ------------------------------------------------------------------------------------------
// Computed in f64 and rounded once, so inside every bound the manual states.
inline float flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

template <class F, bool ftz = false>
struct Approx {
  float operator()(float a) const {
    if constexpr (ftz) return flush(canonical(float(F()(double(flush(a))))));
    return canonical(float(F()(double(a))));
  }
  template <Half T>
  T operator()(T a) const {
    return to_half<T, Round::rn>(F()(double(widen(a))));
  }
};
struct RcpValue {
  double operator()(double a) const { return 1 / a; }
};
struct RsqrtValue {
  double operator()(double a) const { return 1 / std::sqrt(a); }
};
struct SqrtValue {
  double operator()(double a) const { return std::sqrt(a); }
};
struct Ex2Value {
  double operator()(double a) const { return std::exp2(a); }
};
struct Lg2Value {
  double operator()(double a) const { return std::log2(a); }
};
// The GPU takes the angle as a fraction of a turn in f32: far from zero that fraction has few bits left, and so has the
// result. A kernel that relies on it there must be seen to be wrong here too.
inline double turns(double a) {
  const float t = float(a) * 0.15915494f;
  const double rest = double(t) - std::nearbyint(double(t));
  return 6.283185307179586 * (rest == 0 ? std::copysign(rest, a) : rest);  // the sine of -0 is -0
}
struct SinValue {
  double operator()(double a) const { return std::sin(turns(a)); }
};
struct CosValue {
  double operator()(double a) const { return std::cos(turns(a)); }
};
struct TanhValue {
  double operator()(double a) const { return std::tanh(a); }
};
// a * (1 / b), where 1 / b is flushed to zero above 2^126.
struct DivApprox {
  float operator()(float a, float b) const {
    const bool large = std::fabs(b) > 0x1p126f && std::fabs(b) <= std::numeric_limits<float>::max();
    return canonical(large ? a * std::copysign(0.0f, b) : a / b);
  }
};

}  // namespace heddle::ptx::machine::numbers
