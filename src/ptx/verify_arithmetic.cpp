// Which types, roundings and modifiers PTX has each arithmetic instruction and conversion for.
#include "ptx/verify_rules.h"

namespace heddle::ptx {
namespace {

constexpr Types ftz_types = set_of({Type::f32, Type::f16, Type::f16x2});
constexpr Types word32 = set_of({Type::u32});

// dst = f(src...), all of the instruction's type.
void same(Form& f, Types types, int sources) {
  f.type_in(types);
  f.dst(f.inst.type);
  for (int i = 0; i < sources; ++i) f.src(f.inst.type);
}

// Only f32 and f64 have a choice; it is always written.
void expect_rounded(Form& f) {
  f.ftz_for(ftz_types);
  if (in(f.inst.type, wide_floats))
    f.round_in({Round::rn, Round::rz, Round::rm, Round::rp});
  else if (is_float(f.inst.type))
    f.round_in({Round::rn});
}

// div, rcp, sqrt: f32 and f64 with a rounding, or f32 approximate without one.
void rounded_or_approximate(Form& f) {
  f.reads(reads_approx);
  f.ftz_for(set_of({Type::f32}));
  if (f.inst.approx)
    f.expect(f.inst.type == Type::f32, "only f32 has an approximate form");
  else
    expect_rounded(f);
}

void expect_approximate(Form& f, Types types, Types ftz) {
  same(f, types, 1);
  f.reads(reads_approx);
  f.expect(f.inst.approx, "there is only an approximate form");
  f.ftz_for(ftz);
}

Type wider(Type t) {
  switch (t) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    case Type::s32:
      return Type::s64;
    default:
      return Type::none;
  }
}

void expect_wide_product(Form& f, bool add) {
  const Inst& i = f.inst;
  f.expect(wider(i.from) != Type::none && wider(i.from) == i.type,
           "{} factors, expected u16, s16, u32 or s32 and a result twice as wide", name(i.from));
  f.dst(i.type);
  f.src(i.from);
  f.src(i.from);
  if (add) f.src(i.type);
}

void dot(Form& f, Types a_types) {
  const Inst& i = f.inst;
  f.expect(in(i.from, a_types) && (i.from_b == Type::u8 || i.from_b == Type::s8), "parts are {} and {}", name(i.from),
           name(i.from_b));
  const Type sum = is_signed(i.from) || is_signed(i.from_b) ? Type::s32 : Type::u32;
  f.expect(i.type == sum, "the sum is {}, expected {}", name(i.type), name(sum));
  f.dst(sum);
  f.src(Type::u32);
  f.src(Type::u32);
  f.src(sum);
}

void compare(Form& f) {
  const Inst& i = f.inst;
  f.type_in(integers | scalars);
  f.expect(is_float(i.type) || i.compare <= Compare::ge, "an unordered comparison is for floats");
  f.ftz_for(set_of({Type::f32, Type::f16}));
  f.dst(Type::pred);
  f.src(i.type);
  f.src(i.type);
}

void expect_convert(Form& f) {
  const Inst& i = f.inst;
  const Type to = i.type, from = i.from;
  constexpr Types fp8 = set_of({Type::e4m3x2, Type::e5m2x2});
  constexpr Types plain = set_of({Type::f16, Type::f32, Type::f64});
  const bool pair = from == Type::f32 && in(to, packed | fp8);
  auto nearest = [&] { f.round_in({Round::rn, Round::rz, Round::rm, Round::rp}); };
  auto whole = [&] { f.round_in({Round::rni, Round::rzi, Round::rmi, Round::rpi}); };
  auto clamped = [&] {
    f.reads(reads_sat);
    f.expect(i.sat, "a conversion to fp8 clamps: sat is not said");
  };
  const bool has_f32 =
      (from == Type::f32 && in(to, integers | plain)) || (to == Type::f32 && in(from, integers | plain));
  if (has_f32) f.reads(reads_ftz);

  if (in(to, integers) && in(from, integers)) {
    f.reads(reads_sat);
  } else if (in(to, plain) && in(from, integers)) {
    nearest();
  } else if (in(to, integers) && in(from, plain)) {
    whole();
  } else if (in(to, plain) && to == from) {
    whole();
  } else if (in(to, plain) && in(from, plain)) {
    if (size_of(to) < size_of(from)) nearest();
  } else if (to == Type::f32 && from == Type::bf16) {
  } else if (to == Type::bf16 && from == Type::f32) {
    f.round_in({Round::rn, Round::rz});
  } else if (to == Type::tf32 && from == Type::f32) {
    f.round_in({Round::rna});
  } else if (pair && in(to, packed)) {
    f.round_in({Round::rn, Round::rz});
  } else if (in(to, fp8) && (pair || from == Type::f16x2)) {
    f.round_in({Round::rn});
    clamped();
  } else if (to == Type::f16x2 && in(from, fp8)) {
    f.round_in({Round::rn});
  } else {
    f.expect(false, "there is no conversion from {} to {}", name(from), name(to));
  }
  f.dst(to);
  f.src(from);
  if (pair) f.src(from);
}

void halves(Form& f) {
  const Inst& i = f.inst;
  f.expect(in(i.from, held) && in(i.type, held) && size_of(i.type) == 2 * size_of(i.from), "two {} do not make one {}",
           name(i.from), name(i.type));
}

}  // namespace

bool arithmetic_form(Form& f) {
  const Inst& i = f.inst;
  const Type t = i.type;
  switch (i.op) {
    case Op::mov:
      f.type_in(held | set_of({Type::pred}));
      f.dst(t);
      f.src_special(t);
      break;
    case Op::bitcast:
      f.type_in(held);
      f.expect(in(i.from, held) && size_of(i.from) == size_of(t), "{} and {} differ in size", name(i.from), name(t));
      f.dst(t);
      f.src(i.from);
      break;
    case Op::add:
    case Op::sub:
    case Op::mul:
      same(f, integers | floats, 2);
      expect_rounded(f);
      break;
    case Op::mul_hi:
      same(f, integers, 2);
      break;
    case Op::mul_wide:
      expect_wide_product(f, false);
      break;
    case Op::mad:
      same(f, integers, 3);
      break;
    case Op::mad_wide:
      expect_wide_product(f, true);
      break;
    case Op::fma:
      same(f, floats, 3);
      expect_rounded(f);
      break;
    case Op::div:
      same(f, integers | wide_floats, 2);
      if (is_float(t)) rounded_or_approximate(f);
      break;
    case Op::rem:
      same(f, integers, 2);
      break;
    case Op::min:
    case Op::max:
      same(f, integers | floats, 2);
      f.ftz_for(ftz_types);
      if (t == Type::f32) f.reads(reads_nan);
      break;
    case Op::abs:
      same(f, signed_ints | floats, 1);
      f.ftz_for(ftz_types);
      break;
    case Op::neg:
      same(f, integers | floats, 1);
      f.ftz_for(ftz_types);
      break;  // unsigned: modulo 2^n, the same bits
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
      same(f, integers | set_of({Type::pred}), 2);
      break;
    case Op::bit_not:
      same(f, integers | set_of({Type::pred}), 1);
      break;
    case Op::shl:
    case Op::shr:
      f.type_in(integers);
      f.dst(t);
      f.src(t);
      f.src(Type::u32);
      break;
    case Op::funnel_left:
    case Op::funnel_right:
    case Op::prmt:
      same(f, word32, 3);
      break;
    case Op::bfe:
      same(f, words, 1);
      f.src(Type::u32);
      f.src(Type::u32);
      break;
    case Op::bfi:
      same(f, words, 2);
      f.src(Type::u32);
      f.src(Type::u32);
      break;
    case Op::lop3:
      same(f, word32, 3);
      f.expect(f.src_imm(Type::u32).bits <= 255, "the table is {}, expected 0 to 255", i.src[3].bits);
      break;
    case Op::popc:
    case Op::clz:
      f.type_in(word32);
      f.expect(i.from == Type::u32 || i.from == Type::u64, "the operand is {}, expected u32 or u64", name(i.from));
      f.dst(t);
      f.src(i.from);
      break;
    case Op::brev:
      same(f, words, 1);
      break;
    case Op::dp4a:
      dot(f, set_of({Type::u8, Type::s8}));
      break;
    case Op::dp2a:
      dot(f, set_of({Type::u16, Type::s16}));
      break;
    case Op::set:
      compare(f);
      break;
    case Op::select:
      same(f, held | set_of({Type::pred}), 2);
      f.src_reg(Type::pred);
      break;
    case Op::cvt:
      expect_convert(f);
      break;
    case Op::pack:
      halves(f);
      f.dst(t);
      f.src(i.from);
      f.src(i.from);
      break;
    case Op::unpack:
      halves(f);
      f.dst(i.from);
      f.dst(i.from);
      f.src(t);
      break;
    case Op::rcp:
    case Op::sqrt:
      same(f, wide_floats, 1);
      rounded_or_approximate(f);
      break;
    case Op::rsqrt:
    case Op::lg2:
    case Op::sin:
    case Op::cos:
      expect_approximate(f, set_of({Type::f32}), set_of({Type::f32}));
      break;
    case Op::ex2:
      expect_approximate(f, set_of({Type::f32, Type::f16, Type::f16x2}), set_of({Type::f32}));
      break;
    case Op::tanh:
      expect_approximate(f, set_of({Type::f32}) | set_of({Type::f16, Type::bf16}) | packed, 0);
      break;
    default:
      return false;
  }
  return true;
}

}  // namespace heddle::ptx
