// Conversions between types. Where a conversion can lose something, the rounding is in the call.
#pragma once
#include "ptx/math.h"

namespace heddle::ptx {

namespace detail {
template <class R, class T>
Val<R> cvt(Val<T> a, Round round, bool sat, Loc loc) {
  return unary<R>(a, {.op = Op::cvt, .type = type_of<R>, .from = type_of<T>, .round = round, .sat = sat}, loc);
}
template <class R>
Val<R> cvt_pair(F32 lo, F32 hi, bool sat, Loc loc) {  // PTX wants the upper half first
  return {
      lo.rec,
      lo.rec->emit(
          {.op = Op::cvt, .type = type_of<R>, .from = Type::f32, .src = {hi.op, lo.op}, .round = Round::rn, .sat = sat},
          type_of<R>, loc)};
}
}  // namespace detail

// Integer -> integer: sign- or zero-extends by the source type, or drops the upper bits.
template <AnyInt R, AnyInt T>
Val<R> to(Val<T> a, Loc loc = Loc::current()) {
  return detail::cvt<R>(a, Round::none, false, loc);
}
// Integer -> integer, clamped to the range of R.
template <AnyInt R, AnyInt T>
Val<R> to_saturated(Val<T> a, Loc loc = Loc::current()) {
  return detail::cvt<R>(a, Round::none, true, loc);
}
inline U64 widen(U32 a, Loc loc = Loc::current()) { return to<uint64_t>(a, loc); }

// Integer -> float.
template <class R, AnyInt T>
requires(std::same_as<R, float> || std::same_as<R, double> ||
         std::same_as<R, heddle::f16>) Val<R> to(Val<T> a, Round round = Round::rn, Loc loc = Loc::current()) {
  return detail::cvt<R>(a, round, false, loc);
}
template <AnyInt T>
F32 to_f32(Val<T> a, Loc loc = Loc::current()) {
  return detail::cvt<float>(a, Round::rn, false, loc);
}

// Float -> integer with rni, rzi, rmi or rpi; out of range clamps, NaN gives what the PTX manual says.
template <AnyInt R, class T>
requires(std::same_as<T, float> || std::same_as<T, double> ||
         std::same_as<T, heddle::f16>) Val<R> to(Val<T> a, Round round, Loc loc = Loc::current()) {
  return detail::cvt<R>(a, round, false, loc);
}
// Float -> float of the same type, rounded to a whole number (rni, rzi, rmi, rpi).
template <Rounded T>
Val<T> round_to_whole(Val<T> a, Round round, Loc loc = Loc::current()) {
  return detail::cvt<T>(a, round, false, loc);
}

// Exact widenings.
inline F32 to_f32(F16 a, Loc loc = Loc::current()) { return detail::cvt<float>(a, Round::none, false, loc); }
inline F32 to_f32(BF16 a, Loc loc = Loc::current()) { return detail::cvt<float>(a, Round::none, false, loc); }
inline F64 to_f64(F32 a, Loc loc = Loc::current()) { return detail::cvt<double>(a, Round::none, false, loc); }
inline F64 to_f64(F16 a, Loc loc = Loc::current()) { return detail::cvt<double>(a, Round::none, false, loc); }

// Narrowings.
inline F32 to_f32(F64 a, Round round = Round::rn, Loc loc = Loc::current()) {
  return detail::cvt<float>(a, round, false, loc);
}
inline F16 to_f16(F32 a, Round round = Round::rn, Loc loc = Loc::current()) {
  return detail::cvt<heddle::f16>(a, round, false, loc);
}
inline F16 to_f16(F64 a, Round round = Round::rn, Loc loc = Loc::current()) {
  return detail::cvt<heddle::f16>(a, round, false, loc);
}
inline BF16 to_bf16(F32 a, Round round = Round::rn, Loc loc = Loc::current()) {  // rn or rz
  return detail::cvt<heddle::bf16>(a, round, false, loc);
}
inline TF32 to_tf32(F32 a, Loc loc = Loc::current()) { return detail::cvt<tf32>(a, Round::rna, false, loc); }

// Two f32 into one register.
inline F16x2 to_f16x2(F32 lo, F32 hi, Loc loc = Loc::current()) { return detail::cvt_pair<f16x2>(lo, hi, false, loc); }
inline BF16x2 to_bf16x2(F32 lo, F32 hi, Loc loc = Loc::current()) {
  return detail::cvt_pair<bf16x2>(lo, hi, false, loc);
}
// fp8 clamps to the largest finite value.
inline E4M3x2 to_e4m3x2(F32 lo, F32 hi, Loc loc = Loc::current()) {
  return detail::cvt_pair<e4m3x2>(lo, hi, true, loc);
}
inline E5M2x2 to_e5m2x2(F32 lo, F32 hi, Loc loc = Loc::current()) {
  return detail::cvt_pair<e5m2x2>(lo, hi, true, loc);
}
inline E4M3x2 to_e4m3x2(F16x2 a, Loc loc = Loc::current()) { return detail::cvt<e4m3x2>(a, Round::rn, true, loc); }
inline E5M2x2 to_e5m2x2(F16x2 a, Loc loc = Loc::current()) { return detail::cvt<e5m2x2>(a, Round::rn, true, loc); }
inline F16x2 to_f16x2(E4M3x2 a, Loc loc = Loc::current()) { return detail::cvt<f16x2>(a, Round::rn, false, loc); }
inline F16x2 to_f16x2(E5M2x2 a, Loc loc = Loc::current()) { return detail::cvt<f16x2>(a, Round::rn, false, loc); }

// The same bits as another type of the same size.
template <class R, class T>
requires(sizeof(R) == sizeof(T)) Val<R> bitcast(Val<T> a, Loc loc = Loc::current()) {
  return detail::unary<R>(a, {.op = Op::bitcast, .type = type_of<R>, .from = type_of<T>}, loc);
}

// Packs N values, lowest first, into one register of N times the size, and unpacks it.
template <class R, class T>
requires(sizeof(R) == 2 * sizeof(T)) Val<R> pack(Val<T> lo, C<T> hi) {
  return {lo.rec, lo.rec->emit({.op = Op::pack, .type = type_of<R>, .from = type_of<T>, .src = {lo.op, hi.op}},
                               type_of<R>, hi.loc)};
}
template <class T, class R>
requires(sizeof(R) == 2 * sizeof(T)) std::array < Val<T>,
2 > unpack(Val<R> a, Loc loc = Loc::current()) {
  Operand lo = a.rec->reg(type_of<T>), hi = a.rec->reg(type_of<T>);
  a.rec->append({.op = Op::unpack, .type = type_of<R>, .from = type_of<T>, .dst = {lo, hi}, .src = {a.op}}, loc);
  return {Val<T>{a.rec, lo}, Val<T>{a.rec, hi}};
}

}  // namespace heddle::ptx
