// Which function executes a conversion: cvt between types, and the ones that only rename or move bits. The values
// themselves are defined in numbers.h.
#ifdef __clang__  // would warn where a row cannot be done in vectors
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
#include "ptx/machine/bit_numbers.h"
#include "ptx/machine/converted_numbers.h"
#include "ptx/machine/machine.h"
#include "ptx/machine/rows.h"

namespace heddle::ptx::machine {
namespace {

using namespace numbers;

// Some instructions convert to a float, some to a whole number: each set of roundings in one place.
template <class Choose>
Exec by_float_rounding(Round round, Choose choose) {
  return by_value<Round::rn, Round::rz, Round::rm, Round::rp>(round, choose);
}
template <class Choose>
Exec by_whole_rounding(Round round, Choose choose) {
  return by_value<Round::rni, Round::rzi, Round::rmi, Round::rpi>(round, choose);
}

Exec between_integers(const Inst& inst) {
  if (inst.round != Round::none) return nullptr;
  return by_integer(inst.type, [&]<class To>(Tag<To>) {
    return by_integer(inst.from, [&]<class From>(Tag<From>) {
      return inst.sat ? Exec(unary<Saturate<To>, To, From>) : Exec(unary<Resize<To>, To, From>);
    });
  });
}
Exec from_integer(const Inst& inst) {
  return by_type<float, double, heddle::f16>(inst.type, [&]<class To>(Tag<To>) {
    return by_integer(inst.from, [&]<class From>(Tag<From>) {
      return by_float_rounding(inst.round, [](auto r) -> Exec { return unary<FromInteger<To, r()>, To, From>; });
    });
  });
}
Exec to_integer(const Inst& inst) {
  return by_integer(inst.type, [&]<class To>(Tag<To>) {
    return by_type<float, double, heddle::f16>(inst.from, [&]<class From>(Tag<From>) {
      return by_whole_rounding(inst.round, [](auto r) -> Exec { return unary<ToInteger<To, r()>, To, From>; });
    });
  });
}
// The same type: rounded to a whole number.
Exec to_whole(const Inst& inst) {
  return by_type<float, double>(inst.type, [&]<class T>(Tag<T>) {
    return by_whole_rounding(inst.round, [](auto r) -> Exec { return unary<Whole<r()>, T, T>; });
  });
}
Exec widening(const Inst& inst) {
  if (inst.round != Round::none) return nullptr;
  if (inst.from == Type::f16)
    return inst.type == Type::f32   ? Exec(unary<WidenF16, float, heddle::f16>)
           : inst.type == Type::f64 ? Exec(unary<WidenF16ToF64, double, heddle::f16>)
                                    : nullptr;
  if (inst.from == Type::bf16) return inst.type == Type::f32 ? Exec(unary<WidenBf16, float, heddle::bf16>) : nullptr;
  return inst.from == Type::f32 && inst.type == Type::f64 ? Exec(unary<WidenF32, double, float>) : nullptr;
}
Exec narrowing(const Inst& inst) {
  if (inst.type == Type::f32)
    return by_float_rounding(inst.round, [](auto r) -> Exec { return unary<NarrowToF32<r()>, float, double>; });
  if (inst.type == Type::f16)
    return by_type<float, double>(inst.from, [&]<class From>(Tag<From>) {
      return by_float_rounding(inst.round,
                               [](auto r) -> Exec { return unary<NarrowToHalf<heddle::f16, r()>, heddle::f16, From>; });
    });
  if (inst.type == Type::bf16 && inst.from == Type::f32)
    return by_value<Round::rn, Round::rz>(
        inst.round, [](auto r) -> Exec { return unary<NarrowToHalf<heddle::bf16, r()>, heddle::bf16, float>; });
  return nullptr;
}
// Two f32, the upper half first, into one register.
Exec pair(const Inst& inst) {
  if (inst.from != Type::f32 || inst.round != Round::rn) return nullptr;
  const bool fp8 = inst.type == Type::e4m3x2 || inst.type == Type::e5m2x2;
  if (inst.sat != fp8) return nullptr;
  switch (inst.type) {
    case Type::f16x2:
      return binary<PackHalves<heddle::f16>, uint32_t, float, float>;
    case Type::bf16x2:
      return binary<PackHalves<heddle::bf16>, uint32_t, float, float>;
    case Type::e4m3x2:
      return binary<PackFp8<heddle::e4m3>, uint16_t, float, float>;
    case Type::e5m2x2:
      return binary<PackFp8<heddle::e5m2>, uint16_t, float, float>;
    default:
      return nullptr;
  }
}
// Between f16x2 and a pair of fp8.
Exec between_pairs(const Inst& inst) {
  if (inst.round != Round::rn) return nullptr;
  if (inst.from == Type::f16x2 && inst.sat) {
    if (inst.type == Type::e4m3x2) return unary<PackFp8<heddle::e4m3>, uint16_t, uint32_t>;
    if (inst.type == Type::e5m2x2) return unary<PackFp8<heddle::e5m2>, uint16_t, uint32_t>;
  }
  if (inst.type == Type::f16x2 && !inst.sat) {
    if (inst.from == Type::e4m3x2) return unary<UnpackFp8<heddle::e4m3>, uint32_t, uint16_t>;
    if (inst.from == Type::e5m2x2) return unary<UnpackFp8<heddle::e5m2>, uint32_t, uint16_t>;
  }
  return nullptr;
}
Exec cvt(const Inst& inst) {
  const bool to_int = is_integer(inst.type), from_int = is_integer(inst.from);
  if (inst.ftz) return nullptr;
  if (inst.src.size() == 2) return pair(inst);
  if (to_int && from_int) return between_integers(inst);
  if (Exec exec = between_pairs(inst)) return exec;
  if (inst.sat) return nullptr;
  if (from_int) return from_integer(inst);
  if (to_int) return to_integer(inst);
  if (inst.type == inst.from) return to_whole(inst);
  if (inst.type == Type::tf32)
    return inst.from == Type::f32 && inst.round == Round::rna ? Exec(unary<ToTf32, uint32_t, float>) : nullptr;
  return size_of(inst.type) > size_of(inst.from) ? widening(inst) : narrowing(inst);
}

Exec bitcast(const Inst& inst) {
  if (register_bytes(inst.type) != register_bytes(inst.from)) return nullptr;
  return by_size(inst.type, []<class T>(Tag<T>) -> Exec { return unary<Identity, T, T>; });
}

template <class Wide, class Narrow>
void split(Warp& w, const Step& s) {
  const Wide* a = w.read<Wide>(s.src[0]);
  each_element<1, Narrow>(w, s.dst[0], [=](uint32_t i) { return Narrow(a[i]); });
  each_element<1, Narrow>(w, s.dst[1], [=](uint32_t i) { return Narrow(a[i] >> (8 * sizeof(Narrow))); });
}
Exec pack(const Inst& inst) {
  if (size_of(inst.type) != 2 * size_of(inst.from)) return nullptr;
  if (size_of(inst.from) == 2) return binary<Join<uint32_t>, uint32_t, uint16_t, uint16_t>;
  if (size_of(inst.from) == 4) return binary<Join<uint64_t>, uint64_t, uint32_t, uint32_t>;
  return nullptr;
}
Exec unpack(const Inst& inst) {
  if (size_of(inst.type) != 2 * size_of(inst.from)) return nullptr;
  if (size_of(inst.from) == 2) return split<uint32_t, uint16_t>;
  if (size_of(inst.from) == 4) return split<uint64_t, uint32_t>;
  return nullptr;
}

}  // namespace

Exec conversion(const Inst& inst) {
  switch (inst.op) {
    case Op::cvt:
      return cvt(inst);
    case Op::bitcast:
      return bitcast(inst);
    case Op::pack:
      return pack(inst);
    case Op::unpack:
      return unpack(inst);
    default:
      return nullptr;
  }
}

}  // namespace heddle::ptx::machine
