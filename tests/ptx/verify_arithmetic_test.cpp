// Which types, roundings and modifiers verify takes of arithmetic instructions and conversions.
#include "tests/ptx/single_instruction.h"

namespace heddle::ptx {
namespace {

using namespace single;

TEST(VerifyTypes, ArithmeticHasItsTypes) {
  struct Row {
    Op op;
    int sources;
    std::initializer_list<T> yes, no;
  };
  const Row table[] = {
      {Op::mul_hi, 2, {T::u16, T::s32, T::u64}, {T::f32, T::f16, T::pred}},
      {Op::mad, 3, {T::s16, T::u32, T::s64}, {T::f32, T::f16x2}},
      {Op::rem, 2, {T::u32, T::s64}, {T::f32, T::pred}},
      {Op::min, 2, {T::u16, T::s64, T::f32, T::bf16x2}, {T::pred, T::tf32, T::e4m3x2}},
      {Op::abs, 1, {T::s32, T::f32, T::bf16}, {T::u32, T::u64, T::pred}},
      {Op::neg, 1, {T::s32, T::u32, T::f16x2}, {T::pred, T::tf32}},
      {Op::bit_and, 2, {T::u16, T::s32, T::u64, T::pred}, {T::f32, T::f16x2}},
      {Op::bit_not, 1, {T::u32, T::pred}, {T::f32}},
      {Op::brev, 1, {T::u32, T::u64}, {T::u16, T::f32}},
      {Op::prmt, 3, {T::u32}, {T::s32, T::u64}},
      {Op::funnel_left, 3, {T::u32}, {T::u64, T::f32}},
  };
  for (const Row& row : table) {
    auto make = [&](T t) {
      return Inst{.op = row.op, .type = t, .dst = {reg(t)}, .src = {size_t(row.sources), reg(t)}};
    };
    for (T t : row.yes) EXPECT_TRUE(takes(make(t)));
    for (T t : row.no) EXPECT_TRUE(refuses(make(t), {fmt::format("the type is {}, expected one of", name(t))}));
  }
}

TEST(VerifyTypes, OnlyMinimaAndMaximaOfF32KeepNan) {
  for (Op op : {Op::min, Op::max}) {
    Inst i = binary(op, T::f32);
    i.nan = true;
    EXPECT_TRUE(takes(i));
    i = binary(op, T::f64);
    i.nan = true;
    EXPECT_TRUE(refuses(i, {"takes no NaN"}));
  }
  Inst i = rounded(binary(Op::add, T::f32), Round::rn);
  i.nan = true;
  EXPECT_TRUE(refuses(i, {"takes no NaN"}));
}

TEST(VerifyTypes, FloatsNameTheirRounding) {
  for (Op op : {Op::add, Op::sub, Op::mul}) {
    for (Round r : {Round::rn, Round::rz, Round::rm, Round::rp}) EXPECT_TRUE(takes(rounded(binary(op, T::f32), r)));
    EXPECT_TRUE(refuses(binary(op, T::f32), {"rounding is none, expected rn"}));
    EXPECT_TRUE(refuses(rounded(binary(op, T::f32), Round::rzi), {"rounding is rzi"}));
    EXPECT_TRUE(takes(rounded(binary(op, T::f16), Round::rn)));
    EXPECT_TRUE(refuses(rounded(binary(op, T::f16), Round::rz), {"rounding is rz, expected rn"}));
    EXPECT_TRUE(refuses(rounded(binary(op, T::u32), Round::rn), {"takes no rounding"}));
  }
  Inst fma{.op = Op::fma, .type = T::f32, .dst = {reg(T::f32)}, .src = {3, reg(T::f32)}, .round = Round::rm};
  EXPECT_TRUE(takes(fma));
  fma.round = Round::none;
  EXPECT_TRUE(refuses(fma, {"rounding is none"}));
}

TEST(VerifyTypes, DivisionAndRoots) {
  EXPECT_TRUE(takes(binary(Op::div, T::s32)));
  EXPECT_TRUE(takes(rounded(binary(Op::div, T::f64), Round::rz)));
  EXPECT_TRUE(takes(approx(binary(Op::div, T::f32))));
  EXPECT_TRUE(refuses(binary(Op::div, T::f32), {"rounding is none"}));
  EXPECT_TRUE(refuses(rounded(binary(Op::div, T::f16), Round::rn), {"the type is f16"}));
  EXPECT_TRUE(refuses(approx(binary(Op::div, T::f64)), {"only f32 has an approximate form"}));
  EXPECT_TRUE(refuses(rounded(approx(binary(Op::div, T::f32)), Round::rn), {"takes no rounding"}));
  EXPECT_TRUE(refuses(approx(binary(Op::div, T::u32)), {"takes no approx"}));
  for (Op op : {Op::rcp, Op::sqrt}) {
    EXPECT_TRUE(takes(approx(unary(op, T::f32))));
    EXPECT_TRUE(takes(rounded(unary(op, T::f64), Round::rp)));
    EXPECT_TRUE(refuses(unary(op, T::f64), {"rounding is none"}));
    EXPECT_TRUE(refuses(rounded(unary(op, T::f16), Round::rn), {"the type is f16"}));
  }
}

TEST(VerifyTypes, ApproximateFunctions) {
  for (Op op : {Op::rsqrt, Op::ex2, Op::lg2, Op::sin, Op::cos, Op::tanh}) {
    EXPECT_TRUE(takes(approx(unary(op, T::f32))));
    EXPECT_TRUE(refuses(unary(op, T::f32), {"only an approximate form"}));
    EXPECT_TRUE(refuses(approx(unary(op, T::f64)), {"the type is f64"}));
  }
  EXPECT_TRUE(takes(approx(unary(Op::ex2, T::f16x2))));
  EXPECT_TRUE(refuses(approx(unary(Op::ex2, T::bf16)), {"the type is bf16"}));
  EXPECT_TRUE(takes(approx(unary(Op::tanh, T::bf16x2))));
  EXPECT_TRUE(refuses(approx(unary(Op::sin, T::f16)), {"the type is f16"}));
  Inst i = approx(unary(Op::ex2, T::f32));
  i.ftz = true;
  EXPECT_TRUE(takes(i));
  i = approx(unary(Op::tanh, T::f32));
  i.ftz = true;
  EXPECT_TRUE(refuses(i, {"takes no ftz"}));
}

TEST(VerifyTypes, WideProductsDouble) {
  auto wide = [](T from, T to) {
    return Inst{.op = Op::mul_wide, .type = to, .from = from, .dst = {reg(to)}, .src = {reg(from), reg(from)}};
  };
  EXPECT_TRUE(takes(wide(T::u16, T::u32)));
  EXPECT_TRUE(takes(wide(T::s32, T::s64)));
  EXPECT_TRUE(refuses(wide(T::u32, T::s64), {"twice as wide"}));
  EXPECT_TRUE(refuses(wide(T::u64, T::u64), {"twice as wide"}));
  EXPECT_TRUE(refuses(wide(T::f32, T::f64), {"twice as wide"}));
  Inst mad{.op = Op::mad_wide,
           .type = T::u64,
           .from = T::u32,
           .dst = {reg(T::u64)},
           .src = {reg(T::u32), reg(T::u32), reg(T::u64)}};
  EXPECT_TRUE(takes(mad));
  mad.src[2] = reg(T::u32);
  EXPECT_TRUE(refuses(mad, {"source 2 is u32, expected u64"}));
}

TEST(VerifyTypes, BitFieldsAndTables) {
  Inst bfe{.op = Op::bfe, .type = T::s64, .dst = {reg(T::s64)}, .src = {reg(T::s64), imm(T::u32, 4), imm(T::u32, 8)}};
  EXPECT_TRUE(takes(bfe));
  bfe.src[1] = reg(T::s64);
  EXPECT_TRUE(refuses(bfe, {"source 1 is s64, expected u32"}));
  EXPECT_TRUE(refuses(
      {.op = Op::bfe, .type = T::u16, .dst = {reg(T::u16)}, .src = {reg(T::u16), imm(T::u32, 4), imm(T::u32, 8)}},
      {"the type is u16"}));
  Inst bfi{.op = Op::bfi,
           .type = T::u32,
           .dst = {reg(T::u32)},
           .src = {reg(T::u32), reg(T::u32), imm(T::u32, 4), imm(T::u32, 8)}};
  EXPECT_TRUE(takes(bfi));
  Inst lop3{.op = Op::lop3,
            .type = T::u32,
            .dst = {reg(T::u32)},
            .src = {reg(T::u32), reg(T::u32), reg(T::u32), imm(T::u32, 0xe8)}};
  EXPECT_TRUE(takes(lop3));
  lop3.src[3] = imm(T::u32, 256);
  EXPECT_TRUE(refuses(lop3, {"the table is 256"}));
  lop3.src[3] = reg(T::u32);
  EXPECT_TRUE(refuses(lop3, {"source 3 is not an immediate"}));
  Inst shift{.op = Op::shl, .type = T::u64, .dst = {reg(T::u64)}, .src = {reg(T::u64), reg(T::u32)}};
  EXPECT_TRUE(takes(shift));
  shift.src[1] = reg(T::u64);
  EXPECT_TRUE(refuses(shift, {"source 1 is u64, expected u32"}));
  Inst popc{.op = Op::popc, .type = T::u32, .from = T::u64, .dst = {reg(T::u32)}, .src = {reg(T::u64)}};
  EXPECT_TRUE(takes(popc));
  popc.from = T::u16;
  popc.src[0] = reg(T::u16);
  EXPECT_TRUE(refuses(popc, {"the operand is u16"}));
}

TEST(VerifyTypes, DotProducts) {
  auto dot = [](Op op, T a, T b, T sum) {
    return Inst{
        .op = op, .type = sum, .from = a, .from_b = b, .dst = {reg(sum)}, .src = {reg(T::u32), reg(T::u32), reg(sum)}};
  };
  EXPECT_TRUE(takes(dot(Op::dp4a, T::s8, T::u8, T::s32)));
  EXPECT_TRUE(takes(dot(Op::dp4a, T::u8, T::u8, T::u32)));
  EXPECT_TRUE(refuses(dot(Op::dp4a, T::s8, T::s8, T::u32), {"the sum is u32, expected s32"}));
  EXPECT_TRUE(refuses(dot(Op::dp4a, T::s16, T::s8, T::s32), {"parts are s16 and s8"}));
  EXPECT_TRUE(takes(dot(Op::dp2a, T::s16, T::s8, T::s32)));
  EXPECT_TRUE(refuses(dot(Op::dp2a, T::s8, T::s8, T::s32), {"parts are s8 and s8"}));
  Inst i = dot(Op::dp4a, T::s8, T::s8, T::s32);
  i.src[0] = reg(T::s32);
  EXPECT_TRUE(refuses(i, {"source 0 is s32, expected u32"}));
}

TEST(VerifyTypes, Comparisons) {
  auto set = [](Compare c, T t) {
    return Inst{.op = Op::set, .type = t, .dst = {reg(T::pred)}, .src = {reg(t), reg(t)}, .compare = c};
  };
  EXPECT_TRUE(takes(set(Compare::ge, T::s64)));
  EXPECT_TRUE(takes(set(Compare::ltu, T::f32)));
  EXPECT_TRUE(takes(set(Compare::nan, T::bf16)));
  EXPECT_TRUE(refuses(set(Compare::ltu, T::s32), {"unordered"}));
  EXPECT_TRUE(refuses(set(Compare::eq, T::f16x2), {"the type is f16x2"}));
  EXPECT_TRUE(refuses(set(Compare::eq, T::pred), {"the type is pred"}));
  Inst select{.op = Op::select, .type = T::f32, .dst = {reg(T::f32)}, .src = {reg(T::f32), reg(T::f32), reg(T::pred)}};
  EXPECT_TRUE(takes(select));
  select.src[2] = reg(T::u32);
  EXPECT_TRUE(refuses(select, {"source 2 is u32, expected pred"}));
}

TEST(VerifyTypes, Conversions) {
  auto cvt = [](T to, T from, Round r = Round::none, bool sat = false, size_t sources = 1) {
    return Inst{
        .op = Op::cvt, .type = to, .from = from, .dst = {reg(to)}, .src = {sources, reg(from)}, .round = r, .sat = sat};
  };
  using enum Round;
  EXPECT_TRUE(takes(cvt(T::u64, T::s16)));
  EXPECT_TRUE(takes(cvt(T::u64, T::s32, none, true)));
  EXPECT_TRUE(refuses(cvt(T::u64, T::u32, rn), {"takes no rounding"}));
  EXPECT_TRUE(takes(cvt(T::f32, T::u32, rz)));
  EXPECT_TRUE(refuses(cvt(T::f32, T::u32), {"rounding is none, expected rn, rz, rm, rp"}));
  EXPECT_TRUE(refuses(cvt(T::f32, T::u32, rn, true), {"takes no sat"}));
  EXPECT_TRUE(takes(cvt(T::s32, T::f16, rzi)));
  EXPECT_TRUE(refuses(cvt(T::s32, T::f32, rz), {"rounding is rz, expected rni"}));
  EXPECT_TRUE(takes(cvt(T::f32, T::f32, rmi)));
  EXPECT_TRUE(refuses(cvt(T::f32, T::f32, rm), {"rounding is rm, expected rni"}));
  EXPECT_TRUE(takes(cvt(T::f32, T::f16)));
  EXPECT_TRUE(refuses(cvt(T::f32, T::f16, rn), {"takes no rounding"}));
  EXPECT_TRUE(takes(cvt(T::f16, T::f64, rp)));
  EXPECT_TRUE(refuses(cvt(T::f16, T::f32), {"rounding is none"}));
  EXPECT_TRUE(takes(cvt(T::f32, T::bf16)));
  EXPECT_TRUE(takes(cvt(T::bf16, T::f32, rz)));
  EXPECT_TRUE(refuses(cvt(T::bf16, T::f32, rm), {"rounding is rm, expected rn, rz"}));
  EXPECT_TRUE(refuses(cvt(T::bf16, T::f16, rn), {"no conversion from f16 to bf16"}));
  EXPECT_TRUE(takes(cvt(T::tf32, T::f32, rna)));
  EXPECT_TRUE(refuses(cvt(T::tf32, T::f32, rm), {"expected rna"}));
  EXPECT_TRUE(takes(cvt(T::f16x2, T::f32, rn, false, 2)));
  EXPECT_TRUE(refuses(cvt(T::f16x2, T::f32, rn), {"has 1 sources"}));
  EXPECT_TRUE(refuses(cvt(T::f16, T::f32, rn, false, 2), {"has 2 sources, expected 1"}));
  EXPECT_TRUE(takes(cvt(T::e4m3x2, T::f32, rn, true, 2)));
  EXPECT_TRUE(refuses(cvt(T::e4m3x2, T::f32, rn, false, 2), {"sat is not said"}));
  EXPECT_TRUE(takes(cvt(T::e5m2x2, T::f16x2, rn, true)));
  EXPECT_TRUE(takes(cvt(T::f16x2, T::e5m2x2, rn)));
  EXPECT_TRUE(refuses(cvt(T::f16x2, T::e5m2x2), {"rounding is none"}));
  EXPECT_TRUE(refuses(cvt(T::f32, T::e4m3x2, rn), {"no conversion from e4m3x2 to f32"}));
  EXPECT_TRUE(refuses(cvt(T::pred, T::u32), {"no conversion from u32 to pred"}));
}

TEST(VerifyTypes, BitcastsAndHalves) {
  auto cast = [](T to, T from) {
    return Inst{.op = Op::bitcast, .type = to, .from = from, .dst = {reg(to)}, .src = {reg(from)}};
  };
  EXPECT_TRUE(takes(cast(T::u32, T::f16x2)));
  EXPECT_TRUE(refuses(cast(T::u32, T::f64), {"f64 and u32 differ in size"}));
  EXPECT_TRUE(refuses(cast(T::pred, T::u32), {"the type is pred"}));
  auto pack = [](T to, T from) {
    return Inst{.op = Op::pack, .type = to, .from = from, .dst = {reg(to)}, .src = {2, reg(from)}};
  };
  EXPECT_TRUE(takes(pack(T::u64, T::f32)));
  EXPECT_TRUE(refuses(pack(T::u64, T::u16), {"two u16 do not make one u64"}));
  Inst unpack{.op = Op::unpack, .type = T::f16x2, .from = T::f16, .dst = {2, reg(T::f16)}, .src = {reg(T::f16x2)}};
  EXPECT_TRUE(takes(unpack));
  unpack.dst.pop_back();
  EXPECT_TRUE(refuses(unpack, {"has 1 results"}));
}

}  // namespace
}  // namespace heddle::ptx
