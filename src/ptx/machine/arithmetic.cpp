// Which function executes an arithmetic instruction: registers in, registers out, nothing else. The values themselves
// are defined in numbers.h.
#ifdef __clang__  // would warn where a row cannot be done in vectors
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
#include <string>

#include "ptx/machine/bit_numbers.h"
#include "ptx/machine/machine.h"
#include "ptx/machine/numbers.h"
#include "ptx/machine/rows.h"

namespace heddle::ptx::machine {
namespace {

using namespace numbers;

// The forms most functors come in.
template <class F, class T>
constexpr Exec unary_of = unary<F, T, T>;
template <class F, class T>
constexpr Exec binary_of = binary<F, T, T, T>;
template <class F, class T>
constexpr Exec ternary_of = ternary<F, T, T, T, T>;

// f32 and f64 in all four roundings.
template <class Choose>
Exec by_rounding(const Inst& inst, Choose choose) {
  return by_type<float, double>(inst.type, [&](auto t) {
    return by_value<Round::none, Round::rn, Round::rz, Round::rm, Round::rp>(inst.round,
                                                                             [&](auto r) { return choose(t, r); });
  });
}
// The 16-bit types, alone and in pairs, which only round to nearest.
template <class Choose>
Exec by_half(const Inst& inst, Choose choose) {
  if (inst.round != Round::none && inst.round != Round::rn) return nullptr;
  return by_type<heddle::f16, heddle::bf16, f16x2, bf16x2>(inst.type, choose);
}
template <class Choose>
Exec by_number(Type type, Choose choose) {
  return by_type<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, float, double, heddle::f16, heddle::bf16,
                 f16x2, bf16x2>(type, choose);
}

template <template <Round> class F>
Exec number_operation(const Inst& inst) {
  if (is_integer(inst.type)) return by_integer(inst.type, []<class T>(Tag<T>) { return binary_of<F<Round::none>, T>; });
  if (inst.type == Type::f32 || inst.type == Type::f64)
    return by_rounding(inst, []<class T>(Tag<T>, auto r) { return binary_of<F<r()>, T>; });
  return by_half(inst, []<class T>(Tag<T>) { return binary_of<F<Round::rn>, T>; });
}
template <class F>
Exec any_number_binary(const Inst& inst) {
  return by_number(inst.type, []<class T>(Tag<T>) { return binary_of<F, T>; });
}
template <class F>
Exec f32_binary(const Inst& inst) {
  return inst.type == Type::f32 ? Exec(binary_of<F, float>) : nullptr;
}
template <class F>
Exec any_number_unary(const Inst& inst) {
  return by_number(inst.type, []<class T>(Tag<T>) { return unary_of<F, T>; });
}
template <class F>
Exec integer_binary(const Inst& inst) {
  return by_integer(inst.type, []<class T>(Tag<T>) { return binary_of<F, T>; });
}

// --- integer division ---------------------------------------------------------------------------------------------
// Only in active lanes: elsewhere the divisor may be anything, and dividing by 0 stops the process.
template <class F, class T>
void divide(Warp& w, const Step& s) {
  const T* a = w.read<T>(s.src[0]);
  const T* b = w.read<T>(s.src[1]);
  T* d = w.write<T>(s.dst[0]);
  for (uint32_t i = 0; i < 32; ++i) {
    if (!w.active(i)) continue;
    if (!b[i]) w.fail(Report::Kind::bad_operand, i, "division of " + std::to_string(a[i]) + " by zero");
    d[i] = F()(a[i], b[i]);
  }
}
Exec division(const Inst& inst) {
  if (is_integer(inst.type)) return by_integer(inst.type, []<class T>(Tag<T>) -> Exec { return divide<IntDiv, T>; });
  if (inst.approx) return inst.type == Type::f32 ? Exec(binary_of<DivApprox, float>) : nullptr;
  return by_rounding(inst, []<class T>(Tag<T>, auto r) { return binary_of<Div<r()>, T>; });
}

// --- products -----------------------------------------------------------------------------------------------------
Exec wide_product(const Inst& inst) {
  return by_type<uint16_t, int16_t, uint32_t, int32_t>(inst.from, [&]<class Narrow>(Tag<Narrow>) -> Exec {
    using Wide = Twice<Narrow>;
    if (inst.type != type_of<Wide>) return nullptr;
    return inst.op == Op::mul_wide ? Exec(binary<MulWide, Wide, Narrow, Narrow>)
                                   : Exec(ternary<MadWide, Wide, Narrow, Narrow, Wide>);
  });
}
Exec fused_product(const Inst& inst) {
  if (inst.type == Type::f32 || inst.type == Type::f64)
    return by_rounding(inst, []<class T>(Tag<T>, auto r) { return ternary_of<Fma<r()>, T>; });
  return by_half(inst, []<class T>(Tag<T>) { return ternary_of<Fma<Round::rn>, T>; });
}
template <class A, class B, uint32_t parts, uint32_t skip>
constexpr Exec dot_of = ternary_of<Dot<A, B, parts, skip>, uint32_t>;

Exec dot_product(const Inst& inst) {
  if (inst.type != Type::u32 && inst.type != Type::s32) return nullptr;
  return by_type<uint8_t, int8_t>(inst.from_b, [&]<class B>(Tag<B>) {
    if (inst.op == Op::dp4a)
      return by_type<uint8_t, int8_t>(inst.from, []<class A>(Tag<A>) { return dot_of<A, B, 4, 0>; });
    return by_type<uint16_t, int16_t>(
        inst.from, [&]<class A>(Tag<A>) { return inst.high ? dot_of<A, B, 2, 2> : dot_of<A, B, 2, 0>; });
  });
}

// --- bits ---------------------------------------------------------------------------------------------------------
template <class F>
Exec logic_binary(const Inst& inst) {
  return inst.type == Type::pred ? Exec(binary_of<F, bool>) : integer_binary<F>(inst);
}
Exec bit_not(const Inst& inst) {
  if (inst.type == Type::pred) return unary_of<NotPred, bool>;
  return by_integer(inst.type, []<class T>(Tag<T>) { return unary_of<Not, T>; });
}
template <class F>
Exec shift(const Inst& inst) {
  return by_integer(inst.type, []<class T>(Tag<T>) -> Exec { return binary<F, T, T, uint32_t>; });
}
Exec bit_field(const Inst& inst) {
  return by_type<uint32_t, int32_t, uint64_t, int64_t>(inst.type, [&]<class T>(Tag<T>) -> Exec {
    return inst.op == Op::bfe ? Exec(ternary<Bfe, T, T, uint32_t, uint32_t>)
                              : Exec(quaternary<Bfi, T, T, T, uint32_t, uint32_t>);
  });
}
template <class F>
Exec count(const Inst& inst) {
  return by_type<uint32_t, uint64_t>(inst.from, []<class T>(Tag<T>) -> Exec { return unary<F, uint32_t, T>; });
}
template <class F>
Exec word_ternary(const Inst& inst) {
  return inst.type == Type::u32 ? ternary_of<F, uint32_t> : nullptr;
}

// The table is the same for all lanes: its rows become masks once.
void lop3(Warp& w, const Step& s) {
  const auto a = w.read<uint32_t>(s.src[0]), b = w.read<uint32_t>(s.src[1]), c = w.read<uint32_t>(s.src[2]);
  const Lop3 f(uint8_t(s.inst->src[3].bits));
  store_row<uint32_t>(w, s, [=](uint32_t i) { return f(a[i], b[i], c[i]); });
}

// --- comparing and choosing ---------------------------------------------------------------------------------------
Exec set(const Inst& inst) {
  using enum Compare;
  if (is_integer(inst.type))
    return by_integer(inst.type, [&]<class T>(Tag<T>) {
      return by_value<eq, ne, lt, le, gt, ge>(inst.compare,
                                              [](auto how) -> Exec { return binary<Test<how()>, bool, T, T>; });
    });
  return by_type<float, double, heddle::f16, heddle::bf16>(inst.type, [&]<class T>(Tag<T>) {
    return by_value<eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan>(
        inst.compare, [](auto how) -> Exec { return binary<Test<how()>, bool, T, T>; });
  });
}

// --- functions ----------------------------------------------------------------------------------------------------
// approx.f32, with .ftz where the builder offers it.
template <class Value, bool has_ftz = false>
Exec approximate(const Inst& inst) {
  if (inst.type != Type::f32 || !inst.approx || (inst.ftz && !has_ftz)) return nullptr;
  if constexpr (has_ftz)
    if (inst.ftz) return unary_by_lane<Approx<Value, true>, float, float>;
  return unary_by_lane<Approx<Value>, float, float>;
}
template <class Value, class... Ts>
Exec approximate_half(const Inst& inst) {
  if (!inst.approx || inst.ftz) return nullptr;
  return by_type<Ts...>(inst.type, []<class T>(Tag<T>) -> Exec { return unary_by_lane<Approx<Value>, T, T>; });
}
template <template <Round> class Exact>
Exec exact_function(const Inst& inst) {
  return by_rounding(inst, []<class T>(Tag<T>, auto r) { return unary_of<Exact<r()>, T>; });
}

}  // namespace

Exec arithmetic(const Inst& inst) {
  const bool function_with_ftz = inst.op == Op::ex2 || inst.op == Op::rcp;
  if (inst.sat || (inst.ftz && !function_with_ftz)) return nullptr;
  switch (inst.op) {
    case Op::mov:
      return by_size(inst.type, []<class T>(Tag<T>) { return unary_of<Identity, T>; });
    case Op::add:
      return number_operation<Add>(inst);
    case Op::sub:
      return number_operation<Sub>(inst);
    case Op::mul:
      return number_operation<Mul>(inst);
    case Op::mul_hi:
      return integer_binary<MulHi>(inst);
    case Op::mul_wide:
    case Op::mad_wide:
      return wide_product(inst);
    case Op::mad:
      return by_integer(inst.type, []<class T>(Tag<T>) { return ternary_of<Mad, T>; });
    case Op::fma:
      return fused_product(inst);
    case Op::div:
      return division(inst);
    case Op::rem:
      return by_integer(inst.type, []<class T>(Tag<T>) -> Exec { return divide<IntRem, T>; });
    case Op::min:
      return inst.nan ? f32_binary<OrNan<Min>>(inst) : any_number_binary<Min>(inst);
    case Op::max:
      return inst.nan ? f32_binary<OrNan<Max>>(inst) : any_number_binary<Max>(inst);
    case Op::abs:
      return any_number_unary<Abs>(inst);
    case Op::neg:
      return any_number_unary<Neg>(inst);
    case Op::bit_and:
      return logic_binary<And>(inst);
    case Op::bit_or:
      return logic_binary<Or>(inst);
    case Op::bit_xor:
      return logic_binary<Xor>(inst);
    case Op::bit_not:
      return bit_not(inst);
    case Op::shl:
      return shift<Shl>(inst);
    case Op::shr:
      return shift<Shr>(inst);
    case Op::funnel_left:
      return word_ternary<FunnelLeft>(inst);
    case Op::funnel_right:
      return word_ternary<FunnelRight>(inst);
    case Op::bfe:
    case Op::bfi:
      return bit_field(inst);
    case Op::prmt:
      return word_ternary<Prmt>(inst);
    case Op::lop3:
      return inst.type == Type::u32 && inst.src[3].kind == Operand::Kind::imm ? Exec(lop3) : nullptr;
    case Op::popc:
      return count<Popc>(inst);
    case Op::clz:
      return count<Clz>(inst);
    case Op::brev:
      return by_type<uint32_t, uint64_t>(inst.type, []<class T>(Tag<T>) { return unary_of<Brev, T>; });
    case Op::dp4a:
    case Op::dp2a:
      return dot_product(inst);
    case Op::set:
      return set(inst);
    case Op::select:
      return by_size(inst.type, []<class T>(Tag<T>) -> Exec { return ternary<Select, T, T, T, bool>; });
    case Op::rcp:
      return inst.approx ? approximate<RcpValue, true>(inst) : inst.ftz ? nullptr : exact_function<Rcp>(inst);
    case Op::sqrt:
      return inst.approx ? approximate<SqrtValue>(inst) : exact_function<Sqrt>(inst);
    case Op::rsqrt:
      return approximate<RsqrtValue>(inst);
    case Op::ex2:
      if (inst.type == Type::f32) return approximate<Ex2Value, true>(inst);
      return approximate_half<Ex2Value, heddle::f16, f16x2>(inst);
    case Op::lg2:
      return approximate<Lg2Value>(inst);
    case Op::sin:
      return approximate<SinValue>(inst);
    case Op::cos:
      return approximate<CosValue>(inst);
    case Op::tanh:
      if (inst.type == Type::f32) return approximate<TanhValue>(inst);
      return approximate_half<TanhValue, heddle::f16, heddle::bf16, f16x2, bf16x2>(inst);
    default:
      return nullptr;
  }
}

}  // namespace heddle::ptx::machine
