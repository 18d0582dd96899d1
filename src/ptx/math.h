// Arithmetic: everything that only turns register values into register values.
// Floating operators round to nearest even; add/sub/mul/fma/div take another rounding as a named call.
#pragma once
#include <array>
#include <bit>

#include "ptx/val.h"

namespace heddle::ptx {

namespace detail {
template <class T>
constexpr Round rn() {
  return is_float(type_of<T>) ? Round::rn : Round::none;
}
template <class R, class T>
Val<R> unary(Val<T> a, Inst inst, Loc loc) {
  inst.src = {a.op};
  return {a.rec, a.rec->emit(std::move(inst), type_of<R>, loc)};
}
template <class R, class T>
Val<R> binary(Val<T> a, const Arg<T>& b, Inst inst) {
  inst.src = {a.op, b.op};
  return {a.rec, a.rec->emit(std::move(inst), type_of<R>, b.loc)};
}
// The exponent where b is a constant power of two of an unsigned type, else -1: ptxas divides by a constant as by any
// other number, in 20 instructions.
template <class T>
int power_of_two(const Arg<T>& b) {
  if constexpr (std::unsigned_integral<T>)
    if (b.op.kind == Operand::Kind::imm && std::has_single_bit(b.op.bits)) return std::countr_zero(b.op.bits);
  return -1;
}
template <class T>
Val<T> constant(Recorder* rec, T v, Loc loc) {
  return {rec, rec->emit({.op = Op::mov, .type = type_of<T>, .src = {immediate(v)}}, type_of<T>, loc)};
}
}  // namespace detail

// --- operators ---------------------------------------------------------------------------------------------------
template <Number T>
Val<T> operator+(Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::add, .type = type_of<T>, .round = detail::rn<T>()});
}
template <Number T>
Val<T> operator-(Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::sub, .type = type_of<T>, .round = detail::rn<T>()});
}
template <Number T>
Val<T> operator*(Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::mul, .type = type_of<T>, .round = detail::rn<T>()});
}
template <Number T>
requires(AnyInt<T> || std::same_as<T, float> || std::same_as<T, double>) Val<T>
operator/(Val<T> a, C<T> b) {
  if (const int n = detail::power_of_two(b); n >= 0)
    return {a.rec,
            a.rec->emit({.op = Op::shr, .type = type_of<T>, .src = {a.op, immediate(uint32_t(n))}}, type_of<T>, b.loc)};
  return detail::binary<T>(a, b, {.op = Op::div, .type = type_of<T>, .round = detail::rn<T>()});
}
template <AnyInt T>
Val<T> operator%(Val<T> a, C<T> b) {
  if (const int n = detail::power_of_two(b); n >= 0)
    return detail::binary<T>(a, Arg<T>(T((T(1) << n) - 1), b.loc), {.op = Op::bit_and, .type = type_of<T>});
  return detail::binary<T>(a, b, {.op = Op::rem, .type = type_of<T>});
}
template <Bits T>
Val<T> operator&(Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::bit_and, .type = type_of<T>});
}
template <Bits T>
Val<T> operator|(Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::bit_or, .type = type_of<T>});
}
template <Bits T>
Val<T> operator^(Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::bit_xor, .type = type_of<T>});
}
template <Bits T>
Val<T> operator~(Val<T> a) {
  return detail::unary<T>(a, {.op = Op::bit_not, .type = type_of<T>}, {});
}
// On predicates && and || are & and |: both sides are computed.
inline Pred operator&&(Pred a, C<bool> b) { return a & b; }
inline Pred operator||(Pred a, C<bool> b) { return a | b; }
inline Pred operator!(Pred a) { return detail::unary<bool>(a, {.op = Op::bit_not, .type = Type::pred}, {}); }
// Shift amounts are u32 and clamp at the width; >> is arithmetic for signed types.
template <AnyInt T>
Val<T> operator<<(Val<T> a, Arg<uint32_t> n) {
  return {a.rec, a.rec->emit({.op = Op::shl, .type = type_of<T>, .src = {a.op, n.op}}, type_of<T>, n.loc)};
}
template <AnyInt T>
Val<T> operator>>(Val<T> a, Arg<uint32_t> n) {
  return {a.rec, a.rec->emit({.op = Op::shr, .type = type_of<T>, .src = {a.op, n.op}}, type_of<T>, n.loc)};
}
template <Number T>
Val<T> operator-(Val<T> a) {
  return detail::unary<T>(a, {.op = Op::neg, .type = type_of<T>}, {});
}
// A constant on the left.
template <Number T>
Val<T> operator+(std::type_identity_t<T> a, Val<T> b) {
  return b + a;
}
template <Number T>
Val<T> operator*(std::type_identity_t<T> a, Val<T> b) {
  return b * a;
}
template <Number T>
Val<T> operator-(std::type_identity_t<T> a, Val<T> b) {
  return detail::constant<T>(b.rec, a, {}) - b;
}
template <Number T>
Val<T> operator/(std::type_identity_t<T> a, Val<T> b) {
  return detail::constant<T>(b.rec, a, {}) / b;
}

// Compare: the ordered forms are false for NaN (but != is true), as in C++.
template <class T>
concept Comparable = AnyInt<T> ||(AnyFloat<T> && !AnyPacked<T>);
template <Comparable T>
Pred compare(Compare how, Val<T> a, C<T> b) {
  return detail::binary<bool>(a, b, {.op = Op::set, .type = type_of<T>, .compare = how});
}
template <Comparable T>
Pred operator<(Val<T> a, C<T> b) {
  return compare(Compare::lt, a, b);
}
template <Comparable T>
Pred operator<=(Val<T> a, C<T> b) {
  return compare(Compare::le, a, b);
}
template <Comparable T>
Pred operator>(Val<T> a, C<T> b) {
  return compare(Compare::gt, a, b);
}
template <Comparable T>
Pred operator>=(Val<T> a, C<T> b) {
  return compare(Compare::ge, a, b);
}
// Two values: exact overloads, because the reversed form of the one below would be as good a match.
template <Comparable T>
Pred operator==(Val<T> a, Val<T> b) {
  return compare(Compare::eq, a, Arg<T>(b, {}));
}
template <Comparable T>
Pred operator!=(Val<T> a, Val<T> b) {
  return compare(is_float(type_of<T>) ? Compare::neu : Compare::ne, a, Arg<T>(b, {}));
}
template <Comparable T>
Pred operator==(Val<T> a, C<T> b) {
  return compare(Compare::eq, a, b);
}
template <Comparable T>
Pred operator!=(Val<T> a, C<T> b) {
  return compare(is_float(type_of<T>) ? Compare::neu : Compare::ne, a, b);
}

// --- named arithmetic --------------------------------------------------------------------------------------------
template <class T>
concept Rounded = std::same_as<T, float> || std::same_as<T, double>;  // types with a choice of rounding
template <Rounded T>
Val<T> add(Round r, Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::add, .type = type_of<T>, .round = r});
}
template <Rounded T>
Val<T> sub(Round r, Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::sub, .type = type_of<T>, .round = r});
}
template <Rounded T>
Val<T> mul(Round r, Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::mul, .type = type_of<T>, .round = r});
}
template <Rounded T>
Val<T> div(Round r, Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::div, .type = type_of<T>, .round = r});
}
inline F32 div_approx(F32 a, C<float> b) {
  return detail::binary<float>(a, b, {.op = Op::div, .type = Type::f32, .approx = true});
}
template <AnyFloat T>
Val<T> fma(Val<T> a, C<T> b, C<T> c) {
  return {a.rec, a.rec->emit({.op = Op::fma, .type = type_of<T>, .src = {a.op, b.op, c.op}, .round = Round::rn},
                             type_of<T>, b.loc)};
}
template <Rounded T>
Val<T> fma(Round r, Val<T> a, C<T> b, C<T> c) {
  return {a.rec,
          a.rec->emit({.op = Op::fma, .type = type_of<T>, .src = {a.op, b.op, c.op}, .round = r}, type_of<T>, b.loc)};
}
template <AnyInt T>
Val<T> mad(Val<T> a, C<T> b, C<T> c) {
  return {a.rec, a.rec->emit({.op = Op::mad, .type = type_of<T>, .src = {a.op, b.op, c.op}}, type_of<T>, b.loc)};
}
template <AnyInt T>
Val<T> mul_hi(Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::mul_hi, .type = type_of<T>});
}
template <class T>
struct Wider;
template <>
struct Wider<uint16_t> {
  using type = uint32_t;
};
template <>
struct Wider<int16_t> {
  using type = int32_t;
};
template <>
struct Wider<uint32_t> {
  using type = uint64_t;
};
template <>
struct Wider<int32_t> {
  using type = int64_t;
};
template <class T>
using WiderT = typename Wider<T>::type;
// The whole product, twice as wide as the factors.
template <AnyInt T>
Val<WiderT<T>> mul_wide(Val<T> a, C<T> b) {
  return detail::binary<WiderT<T>>(a, b, {.op = Op::mul_wide, .type = type_of<WiderT<T>>, .from = type_of<T>});
}
template <AnyInt T>
Val<WiderT<T>> mad_wide(Val<T> a, C<T> b, C<WiderT<T>> c) {
  return {a.rec,
          a.rec->emit({.op = Op::mad_wide, .type = type_of<WiderT<T>>, .from = type_of<T>, .src = {a.op, b.op, c.op}},
                      type_of<WiderT<T>>, b.loc)};
}
// The other operand if one is NaN.
template <Number T>
Val<T> min(Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::min, .type = type_of<T>});
}
template <Number T>
Val<T> max(Val<T> a, C<T> b) {
  return detail::binary<T>(a, b, {.op = Op::max, .type = type_of<T>});
}
// NaN if either is (sm_80).
inline F32 min_nan(F32 a, C<float> b) {
  return detail::binary<float>(a, b, {.op = Op::min, .type = Type::f32, .nan = true});
}
inline F32 max_nan(F32 a, C<float> b) {
  return detail::binary<float>(a, b, {.op = Op::max, .type = Type::f32, .nan = true});
}
template <Number T>
requires(!std::unsigned_integral<T>) Val<T> abs(Val<T> a, Loc loc = Loc::current()) {
  return detail::unary<T>(a, {.op = Op::abs, .type = type_of<T>}, loc);
}
template <class T>
Val<T> select(Pred p, Val<T> yes, C<T> no) {
  return {p.rec, p.rec->emit({.op = Op::select, .type = type_of<T>, .src = {yes.op, no.op, p.op}}, type_of<T>, no.loc)};
}

// --- bits --------------------------------------------------------------------------------------------------------
// The upper (left) or lower (right) 32 bits of hi:lo shifted by n modulo 32.
inline U32 funnel_left(U32 lo, C<uint32_t> hi, C<uint32_t> n) {
  return {lo.rec,
          lo.rec->emit({.op = Op::funnel_left, .type = Type::u32, .src = {lo.op, hi.op, n.op}}, Type::u32, n.loc)};
}
inline U32 funnel_right(U32 lo, C<uint32_t> hi, C<uint32_t> n) {
  return {lo.rec,
          lo.rec->emit({.op = Op::funnel_right, .type = Type::u32, .src = {lo.op, hi.op, n.op}}, Type::u32, n.loc)};
}
// `len` bits of a from bit `pos` (each 0 to 255), sign-extended for signed types.
template <WideInt T>
Val<T> bit_field(Val<T> a, Arg<uint32_t> pos, Arg<uint32_t> len) {
  return {a.rec, a.rec->emit({.op = Op::bfe, .type = type_of<T>, .src = {a.op, pos.op, len.op}}, type_of<T>, pos.loc)};
}
// `base` with `len` bits from bit `pos` replaced by the low bits of `field`.
template <WideInt T>
Val<T> insert_bits(Val<T> base, C<T> field, Arg<uint32_t> pos, Arg<uint32_t> len) {
  return {base.rec, base.rec->emit({.op = Op::bfi, .type = type_of<T>, .src = {field.op, base.op, pos.op, len.op}},
                                   type_of<T>, field.loc)};
}
// Four bytes chosen from the eight of b:a; nibble i of the selector names byte i of the result.
inline U32 permute_bytes(U32 a, C<uint32_t> b, C<uint32_t> selector) {
  return {a.rec, a.rec->emit({.op = Op::prmt, .type = Type::u32, .src = {a.op, b.op, selector.op}}, Type::u32, b.loc)};
}
// Any bitwise function of three words: the table is f(0xF0, 0xCC, 0xAA).
inline U32 lop3(U32 a, C<uint32_t> b, C<uint32_t> c, uint8_t table) {
  return {a.rec, a.rec->emit({.op = Op::lop3, .type = Type::u32, .src = {a.op, b.op, c.op, immediate(uint32_t(table))}},
                             Type::u32, b.loc)};
}
template <WideInt T>
requires std::unsigned_integral<T> U32 popcount(Val<T> a, Loc loc = Loc::current()) {
  return detail::unary<uint32_t>(a, {.op = Op::popc, .type = Type::u32, .from = type_of<T>}, loc);
}
template <WideInt T>
requires std::unsigned_integral<T> U32 leading_zeros(Val<T> a, Loc loc = Loc::current()) {
  return detail::unary<uint32_t>(a, {.op = Op::clz, .type = Type::u32, .from = type_of<T>}, loc);
}
template <WideInt T>
requires std::unsigned_integral<T> Val<T> reverse_bits(Val<T> a, Loc loc = Loc::current()) {
  return detail::unary<T>(a, {.op = Op::brev, .type = type_of<T>}, loc);
}

// --- integer dot products ----------------------------------------------------------------------------------------
// c + the sum of four products of the bytes of a and b; A and B say how each is signed.
template <class A = int8_t, class B = int8_t>
auto dp4a(U32 a, Arg<uint32_t> b,
          Arg<std::conditional_t<std::is_signed_v<A> || std::is_signed_v<B>, int32_t, uint32_t>> c) {
  using R = std::conditional_t<std::is_signed_v<A> || std::is_signed_v<B>, int32_t, uint32_t>;
  return Val<R>{
      a.rec,
      a.rec->emit(
          {.op = Op::dp4a, .type = type_of<R>, .from = type_of<A>, .from_b = type_of<B>, .src = {a.op, b.op, c.op}},
          type_of<R>, b.loc)};
}
// c + a's two 16-bit halves times the low (or high) two bytes of b.
template <class A = int16_t, class B = int8_t>
auto dp2a(U32 a, Arg<uint32_t> b,
          Arg<std::conditional_t<std::is_signed_v<A> || std::is_signed_v<B>, int32_t, uint32_t>> c, bool high = false) {
  using R = std::conditional_t<std::is_signed_v<A> || std::is_signed_v<B>, int32_t, uint32_t>;
  return Val<R>{a.rec, a.rec->emit({.op = Op::dp2a,
                                    .type = type_of<R>,
                                    .from = type_of<A>,
                                    .from_b = type_of<B>,
                                    .src = {a.op, b.op, c.op},
                                    .high = high},
                                   type_of<R>, b.loc)};
}

// --- approximate functions: the interpreter is within the bound of the PTX manual, not bit for bit -----------------
inline F32 rcp_approx(F32 a, Loc loc = Loc::current()) {
  return detail::unary<float>(a, {.op = Op::rcp, .type = Type::f32, .approx = true}, loc);
}
inline F32 rsqrt_approx(F32 a, Loc loc = Loc::current()) {
  return detail::unary<float>(a, {.op = Op::rsqrt, .type = Type::f32, .approx = true}, loc);
}
inline F32 sqrt_approx(F32 a, Loc loc = Loc::current()) {
  return detail::unary<float>(a, {.op = Op::sqrt, .type = Type::f32, .approx = true}, loc);
}
template <class T>
concept HasEx2 = std::same_as<T, float> || std::same_as<T, heddle::f16> || std::same_as<T, f16x2>;
template <HasEx2 T>
Val<T> ex2_approx(Val<T> a, Loc loc = Loc::current()) {
  return detail::unary<T>(a, {.op = Op::ex2, .type = type_of<T>, .approx = true}, loc);
}
// Subnormal inputs and results are zero: one instruction where the plain form takes four.
inline F32 ex2_approx_ftz(F32 a, Loc loc = Loc::current()) {
  return detail::unary<float>(a, {.op = Op::ex2, .type = Type::f32, .approx = true, .ftz = true}, loc);
}
inline F32 rcp_approx_ftz(F32 a, Loc loc = Loc::current()) {
  return detail::unary<float>(a, {.op = Op::rcp, .type = Type::f32, .approx = true, .ftz = true}, loc);
}
inline F32 lg2_approx(F32 a, Loc loc = Loc::current()) {
  return detail::unary<float>(a, {.op = Op::lg2, .type = Type::f32, .approx = true}, loc);
}
inline F32 sin_approx(F32 a, Loc loc = Loc::current()) {
  return detail::unary<float>(a, {.op = Op::sin, .type = Type::f32, .approx = true}, loc);
}
inline F32 cos_approx(F32 a, Loc loc = Loc::current()) {
  return detail::unary<float>(a, {.op = Op::cos, .type = Type::f32, .approx = true}, loc);
}
template <class T>
concept HasTanh = HasEx2<T> || std::same_as<T, heddle::bf16> || std::same_as<T, bf16x2>;
template <HasTanh T>
Val<T> tanh_approx(Val<T> a, Loc loc = Loc::current()) {
  return detail::unary<T>(a, {.op = Op::tanh, .type = type_of<T>, .approx = true}, loc);
}
// Correctly rounded.
template <Rounded T>
Val<T> rcp(Val<T> a, Round r = Round::rn, Loc loc = Loc::current()) {
  return detail::unary<T>(a, {.op = Op::rcp, .type = type_of<T>, .round = r}, loc);
}
template <Rounded T>
Val<T> sqrt(Val<T> a, Round r = Round::rn, Loc loc = Loc::current()) {
  return detail::unary<T>(a, {.op = Op::sqrt, .type = type_of<T>, .round = r}, loc);
}

}  // namespace heddle::ptx
