// What an instruction computes for one lane, free of rows and warps: the GPU's arithmetic on each scalar type.
// A NaN result is the GPU's one NaN (f32 0x7fffffff, f16 and bf16 0x7fff); subnormals are kept; the floating-point
// environment is expected in its default state (round to nearest) and is left so.
#pragma once
#include <algorithm>
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
  const uint32_t subnormal = std::bit_cast<uint32_t>(float(int32_t(magnitude)) * 0x1p-24f);
  const uint32_t normal = (magnitude << 13) + (112u << 23), special = (magnitude << 13) + (224u << 23);
  return std::bit_cast<float>(sign | (magnitude < 0x400 ? subnormal : magnitude < 0x7c00 ? normal : special));
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

// --- directed rounding without touching the rounding mode -----------------------------------------------------------
// `bits` encode `rounded`, the value nearest to `exact`; where R asks for the neighbour on the other side, that one.
template <Round R, class Bits>
inline Bits toward(Bits bits, double rounded, double exact) {
  const bool negative = bits >> (8 * sizeof(Bits) - 1);
  if constexpr (R == Round::rz) return std::fabs(rounded) > std::fabs(exact) ? bits - 1 : bits;
  if constexpr (R == Round::rm) return rounded > exact ? (negative ? bits + 1 : bits - 1) : bits;
  if constexpr (R == Round::rp) return rounded < exact ? (negative ? bits - 1 : bits + 1) : bits;
  return bits;
}
template <Round R>
inline float to_f32(double x) {
  const float f = float(x);
  return nearest<R> ? f : std::bit_cast<float>(toward<R>(std::bit_cast<uint32_t>(f), double(f), x));
}
template <Half T, Round R>
inline T to_half(double x) {
  T h;
  if constexpr (std::same_as<T, heddle::f16>) h = heddle::to_f16(x);
  if constexpr (std::same_as<T, heddle::bf16>) h = heddle::to_bf16(x);
  if constexpr (!nearest<R>) h.bits = toward<R>(h.bits, double(widen(h)), x);
  return h;
}

// Rounded to odd: where inexact, the neighbour whose last bit is 1. A second rounding, to a type at least two bits
// narrower, then gives what one rounding of the exact value would give, whatever its direction.
inline float to_odd(double x) {
  const float f = float(x);
  const uint32_t bits = std::bit_cast<uint32_t>(f), step = std::fabs(double(f)) < std::fabs(x) ? 1 : ~0u;
  const bool inexact = (double(f) < x) | (double(f) > x);
  return std::bit_cast<float>(bits + (inexact & !(bits & 1) ? step : 0));
}
// a + b rounded to odd, where no intermediate can overflow: T has room to spare above both.
template <std::floating_point T>
inline T sum_to_odd(T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const T sum = a + b, b_seen = sum - a, error = (a - (sum - b_seen)) + (b - b_seen);  // a + b == sum + error
  const bool inexact = (error > 0) | (error < 0);
  const Bits bits = std::bit_cast<Bits>(sum), step = (error > 0) == (sum > 0) ? 1 : ~Bits(0);
  return std::bit_cast<T>(bits + (inexact & !(bits & 1) ? step : 0));
}
// The sign of a sum that is exactly zero: rounding down, -0 unless both are +0.
template <Round R>
inline double zero_sign(double sum, double a, double b) {
  return R == Round::rm && (sum == 0) & (std::signbit(a) | std::signbit(b)) ? -0.0 : sum;
}
// f(a, b, c) with the processor rounding as R asks, for f64. The volatile accesses keep the operation between the
// calls.
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
  heddle::f16 operator()(heddle::f16 a, heddle::f16 b) const { return narrow<heddle::f16>(widen(a) * widen(b)); }
  // bf16 reaches as low as f32: a small product would be rounded to a subnormal f32 first.
  heddle::bf16 operator()(heddle::bf16 a, heddle::bf16 b) const {
    return narrow<heddle::bf16>(to_odd(double(widen(a)) * double(widen(b))));
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
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
template <class T>
inline constexpr BitsOf<T> sign_bit = BitsOf<T>(1) << (8 * sizeof(T) - 1);

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
template <bool greater>
struct Extreme {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (Integer<T>) {
      return greater ? std::max(a, b) : std::min(a, b);
    } else {
      using Bits = BitsOf<T>;
      using Key = std::make_signed_t<Bits>;
      // as signed integers, with the magnitude of negative ones inverted, the bits are in order, -0 below +0
      auto key = [](Bits x) { return Key(x & sign_bit<T> ? x ^ Bits(~sign_bit<T>) : x); };
      constexpr Bits infinity = sizeof(T) == 8                  ? Bits(0x7ff0000000000000)
                                : std::same_as<T, float>        ? Bits(0x7f800000)
                                : std::same_as<T, heddle::bf16> ? Bits(0x7f80)
                                                                : Bits(0x7c00);
      constexpr Bits nan = sizeof(T) == 8 ? Bits(0xfff8000000000000) : Bits(~sign_bit<T>);
      const Bits x = std::bit_cast<Bits>(a), y = std::bit_cast<Bits>(b);
      const bool x_nan = Bits(x & ~sign_bit<T>) > infinity, y_nan = Bits(y & ~sign_bit<T>) > infinity;
      const Bits chosen = (key(x) < key(y)) != greater ? x : y;
      return std::bit_cast<T>(x_nan ? (y_nan ? nan : y) : y_nan ? x : chosen);
    }
  }
};
using Min = Extreme<false>;
using Max = Extreme<true>;

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

// --- bits -----------------------------------------------------------------------------------------------------------
struct And {
  template <Integer T>
  T operator()(T a, T b) const {
    return T(a & b);
  }
};
struct Or {
  template <Integer T>
  T operator()(T a, T b) const {
    return T(a | b);
  }
};
struct Xor {
  template <Integer T>
  T operator()(T a, T b) const {
    return T(a ^ b);
  }
};
struct Not {
  template <Integer T>
  T operator()(T a) const {
    return T(~a);
  }
};
struct NotPred {
  uint32_t operator()(uint32_t a) const { return a ^ 1; }
};
struct Shl {
  template <Integer T>
  T operator()(T a, uint32_t n) const {
    constexpr uint32_t width = 8 * sizeof(T);
    return T(n < width ? Wrapping<T>(a) << (n & (width - 1)) : 0);
  }
};
struct Shr {
  template <Integer T>
  T operator()(T a, uint32_t n) const {
    constexpr uint32_t width = 8 * sizeof(T);
    if constexpr (std::is_signed_v<T>) return T(a >> std::min(n, width - 1));
    return T(n < width ? a >> (n & (width - 1)) : 0);
  }
};
struct FunnelLeft {
  uint32_t operator()(uint32_t lo, uint32_t hi, uint32_t n) const {
    return uint32_t((uint64_t(hi) << 32 | lo) << (n & 31) >> 32);
  }
};
struct FunnelRight {
  uint32_t operator()(uint32_t lo, uint32_t hi, uint32_t n) const {
    return uint32_t((uint64_t(hi) << 32 | lo) >> (n & 31));
  }
};
// Position and length are taken from their low 8 bits.
struct Bfe {
  template <Integer T>
  T operator()(T a, uint32_t position, uint32_t length) const {
    constexpr uint32_t width = 8 * sizeof(T);
    const uint32_t pos = position & 255, len = length & 255;
    const T shifted = Shr()(a, pos);  // all zeros, or all signs, if pos is beyond the top
    const uint32_t unused = width - std::min(len, width);
    const T field = T(T(Unsigned<T>(shifted) << (unused & (width - 1))) >> (unused & (width - 1)));
    return len ? field : T(0);
  }
};
struct Bfi {
  template <Integer T>
  T operator()(T field, T base, uint32_t position, uint32_t length) const {
    using U = Unsigned<T>;
    constexpr uint32_t width = 8 * sizeof(T);
    const uint32_t pos = position & 255, len = length & 255;
    const U ones = len < width ? U(U(1) << (len & (width - 1))) - 1 : ~U(0);
    const U mask = Shl()(ones, pos);
    return T((U(base) & ~mask) | (Shl()(U(field), pos) & mask));
  }
};
struct Prmt {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t selector) const {
    const uint64_t source = uint64_t(b) << 32 | a;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t choice = selector >> 4 * i;
      const uint32_t byte = uint32_t(source >> 8 * (choice & 7)) & 0xff;
      const uint32_t sign = (0u - (byte >> 7)) & 0xff;
      result |= (choice & 8 ? sign : byte) << 8 * i;
    }
    return result;
  }
};
// Bit abc of the table is the result where the three inputs have the bits a, b, c.
struct Lop3 {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c, uint32_t table) const {
    auto choose = [](uint32_t which, uint32_t one, uint32_t zero) { return zero ^ ((one ^ zero) & which); };
    auto entry = [&](uint32_t i) { return 0u - (table >> i & 1); };
    auto of_c = [&](uint32_t i) { return choose(c, entry(i + 1), entry(i)); };
    return choose(a, choose(b, of_c(6), of_c(4)), choose(b, of_c(2), of_c(0)));
  }
};
struct Popc {
  template <Integer T>
  uint32_t operator()(T a) const {
    return uint32_t(std::popcount(a));
  }
};
struct Clz {
  template <Integer T>
  uint32_t operator()(T a) const {
    return uint32_t(std::countl_zero(a));
  }
};
struct Brev {
  template <Integer T>
  T operator()(T a) const {
    constexpr uint32_t width = 8 * sizeof(T);
    constexpr T all = T(~T(0));
    for (uint32_t step = width / 2; step; step /= 2) {
      const T low = T(all / ((T(1) << step) + 1));  // groups of `step` ones and `step` zeros, ones lowest
      a = T((a & low) << step | (a >> step & low));
    }
    return a;
  }
};
// Products of the parts of a and b (A and B: one part of each), summed onto c with wrap-around. `skip` parts of b are
// left out.
template <class A, class B, uint32_t parts, uint32_t skip = 0>
struct Dot {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    for (uint32_t i = 0; i < parts; ++i)
      c += uint32_t(int32_t(A(a >> 8 * sizeof(A) * i))) * uint32_t(int32_t(B(b >> 8 * sizeof(B) * (i + skip))));
    return c;
  }
};
struct Select {
  template <Integer T>
  T operator()(T yes, T no, uint32_t choice) const {
    return choice ? yes : no;
  }
};

struct Identity {
  template <Integer T>
  T operator()(T a) const {
    return a;
  }
};
template <Integer Wide>
struct Join {
  template <Integer Part>
  Wide operator()(Part lo, Part hi) const {
    return Wide(hi) << (8 * sizeof(Part)) | lo;
  }
};

// --- approximate functions ------------------------------------------------------------------------------------------
// Computed in f64 and rounded once: within half an ulp, so inside every bound the manual states.
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
  return 6.283185307179586 * (double(t) - std::nearbyint(double(t)));
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
    const bool large = (std::fabs(b) > 0x1p126f) & (std::fabs(b) <= std::numeric_limits<float>::max());
    return canonical(large ? a * std::copysign(0.0f, b) : a / b);
  }
};

// --- conversions ----------------------------------------------------------------------------------------------------
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
// The nearest To of a 64-bit integer, stepped to the other side where R asks for it.
template <std::floating_point To, Round R, Integer From>
inline To from_wide_integer(From a) {
  const To nearest_one = To(a);
  const int128 rounded = int128(nearest_one), exact = a;
  const bool away = rounded < 0 ? rounded < exact : rounded > exact, above = rounded > exact, below = rounded < exact;
  BitsOf<To> bits = std::bit_cast<BitsOf<To>>(nearest_one);
  const bool negative = rounded < 0;
  if constexpr (R == Round::rz) bits -= away;
  if constexpr (R == Round::rm) bits += above ? (negative ? 1 : -1) : 0;
  if constexpr (R == Round::rp) bits += below ? (negative ? -1 : 1) : 0;
  return std::bit_cast<To>(bits);
}
template <class To, Round R>
struct FromInteger {
  template <Integer From>
  To operator()(From a) const {
    if constexpr (Half<To>)
      return to_half<To, R>(double(a));  // a 64-bit integer that is not exact here is beyond f16 anyway
    else if constexpr (nearest<R> || (std::same_as<To, double> && sizeof(From) <= 4))
      return To(a);
    else if constexpr (sizeof(From) <= 4)
      return to_f32<R>(double(a));
    else
      return from_wide_integer<To, R>(a);
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
// To nearest, ties away from zero, in the 10 upper bits of the fraction; the rest is zero.
struct ToTf32 {
  uint32_t operator()(float a) const {
    const uint32_t bits = std::bit_cast<uint32_t>(a);
    return a == a ? (bits + 0x1000) & 0xffffe000 : 0x7fffffff;
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
  uint32_t operator()(uint16_t pair) const { return uint32_t(one(pair >> 8)) << 16 | one(pair & 0xff); }
  static uint16_t one(uint32_t code) {
    Fp8 x;
    x.bits = uint8_t(code);
    return narrow<heddle::f16>(heddle::to_f32(x)).bits;
  }
};

}  // namespace heddle::ptx::machine::numbers
