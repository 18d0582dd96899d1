// One instruction at a time: which operands, types and modifiers verify takes and which it refuses.
#include "tests/ptx/refused.h"

namespace heddle::ptx {
namespace {

using T = Type;

// A kernel with one written register of every type, to set a single instruction into. Two blocks in a cluster, all
// kinds of memory, whole groups of warps.
Kernel frame() {
  Kernel k;
  k.name = "single";
  k.threads_x = 128;
  k.cluster_x = 2;
  k.args_bytes = 256, k.args_align = 64;
  k.shared_bytes = 1024, k.shared_align = 128, k.dynamic_shared = true;
  k.constants.resize(64);
  for (unsigned t = 0; t <= unsigned(T::e5m2x2); ++t) {
    const T type = T(t) == T::none || T(t) == T::u8 || T(t) == T::s8 ? T::u32 : T(t);
    k.regs.push_back(type);
    k.body.push_back({.op = Op::mov,
                      .type = type,
                      .dst = {{.kind = Operand::Kind::reg, .type = type, .reg = t}},
                      .src = {{.kind = Operand::Kind::imm, .type = type}},
                      .file = "table.cpp",
                      .line = t + 1});
  }
  return k;
}
Operand reg(T t) { return {.kind = Operand::Kind::reg, .type = t, .reg = unsigned(t)}; }
Operand imm(T t, uint64_t bits) { return {.kind = Operand::Kind::imm, .type = t, .bits = bits}; }
Kernel with(Inst i, uint32_t threads = 128, uint32_t cluster = 2) {
  Kernel k = frame();
  k.threads_x = threads;
  k.cluster_x = cluster;
  i.file = "table.cpp";
  i.line = 77;
  k.body.push_back(std::move(i));
  // What must be waited for, is.
  for (Op op : {Op::cp_async_commit, Op::bulk_commit}) k.body.push_back({.op = op});
  for (Op op : {Op::cp_async_wait, Op::bulk_wait}) k.body.push_back({.op = op, .src = {imm(T::u32, 0)}});
  k.regs.push_back(T::pred);
  const Operand done{.kind = Operand::Kind::reg, .type = T::pred, .reg = unsigned(k.regs.size() - 1)};
  k.body.push_back({.op = Op::mbarrier_test, .dst = {done}, .src = {reg(T::u32), imm(T::u32, 0)}});
  if (threads % 128 == 0) {
    k.body.push_back({.op = Op::wgmma_commit});
    k.body.push_back({.op = Op::wgmma_wait, .src = {imm(T::u32, 0)}});
  }
  return k;
}
::testing::AssertionResult takes(const Inst& i) { return accepted(with(i)); }
::testing::AssertionResult refuses(const Inst& i, std::initializer_list<std::string> words) {
  auto r = refused(with(i), words);
  if (!r) return r;
  return refused(with(i), {"table.cpp:77: ", name(i.op)});
}

Inst unary(Op op, T t) { return {.op = op, .type = t, .dst = {reg(t)}, .src = {reg(t)}}; }
Inst binary(Op op, T t) { return {.op = op, .type = t, .dst = {reg(t)}, .src = {reg(t), reg(t)}}; }
Inst rounded(Inst i, Round r) {
  i.round = r;
  return i;
}
Inst approx(Inst i) {
  i.approx = true;
  return i;
}

TEST(VerifyTypes, OperandsAreCounted) {
  EXPECT_TRUE(takes(binary(Op::add, T::u32)));
  Inst i = binary(Op::add, T::u32);
  i.src.pop_back();
  EXPECT_TRUE(refuses(i, {"add.u32", "has 1 sources, expected more"}));
  i = binary(Op::add, T::u32);
  i.src.push_back(reg(T::u32));
  EXPECT_TRUE(refuses(i, {"has 3 sources, expected 2"}));
  i = binary(Op::add, T::u32);
  i.dst.clear();
  EXPECT_TRUE(refuses(i, {"has 0 results"}));
  i.dst = {reg(T::u32), reg(T::u32)};
  EXPECT_TRUE(refuses(i, {"has 2 results, expected 1"}));
}

TEST(VerifyTypes, OperandsHaveTheTypeOfTheInstruction) {
  Inst i = binary(Op::add, T::u32);
  i.src[1] = reg(T::s32);
  EXPECT_TRUE(refuses(i, {"source 1 is s32, expected u32"}));
  i = binary(Op::add, T::u32);
  i.dst[0] = reg(T::f32);
  EXPECT_TRUE(refuses(i, {"result 0 is f32, expected u32"}));
  i = binary(Op::add, T::u32);
  i.src[0].reg = unsigned(T::f32);  // the operand says u32, the register is not
  EXPECT_TRUE(refuses(i, {"source 0 is register", "of type f32, expected u32"}));
}

TEST(VerifyTypes, RegistersExist) {
  Inst i = binary(Op::add, T::u32);
  i.src[0].reg = 1000;
  EXPECT_TRUE(refuses(i, {"register 1000, the kernel has"}));
}

TEST(VerifyTypes, ResultsAreRegistersAndImmediatesFit) {
  Inst i = binary(Op::add, T::u32);
  i.dst[0] = imm(T::u32, 1);
  EXPECT_TRUE(refuses(i, {"result 0 is not a register"}));
  i = binary(Op::add, T::u32);
  i.src[1] = imm(T::u32, 0xffffffff);
  EXPECT_TRUE(takes(i));
  i.src[1] = imm(T::u32, 0x1ffffffff);
  EXPECT_TRUE(refuses(i, {"0x1ffffffff", "does not fit u32"}));
  i.src[1] = {.kind = Operand::Kind::special, .type = T::u32, .special = Special::lane};
  EXPECT_TRUE(refuses(i, {"neither a register nor an immediate"}));
  i.src[1] = {};
  EXPECT_TRUE(refuses(i, {"source 1"}));
}

TEST(VerifyTypes, SpecialRegistersHaveTheirWidth) {
  auto special = [](Special s, T t) {
    return Inst{
        .op = Op::mov, .type = t, .dst = {reg(t)}, .src = {{.kind = Operand::Kind::special, .type = t, .special = s}}};
  };
  EXPECT_TRUE(takes(special(Special::lane, T::u32)));
  EXPECT_TRUE(takes(special(Special::clock, T::u64)));
  EXPECT_TRUE(refuses(special(Special::lane, T::u64), {"%laneid is not a u64"}));
  EXPECT_TRUE(takes(special(Special::clock, T::u32)));  // the low half
  EXPECT_TRUE(refuses(special(Special::globaltimer, T::f32), {"%globaltimer is not a f32"}));
}

TEST(VerifyTypes, ModifiersOnlyWhereTheyMeanSomething) {
  Inst i = binary(Op::add, T::u32);
  i.sat = true;
  EXPECT_TRUE(refuses(i, {"takes no sat"}));
  i = binary(Op::add, T::u32);
  i.offset = 4;
  EXPECT_TRUE(refuses(i, {"takes no offset"}));
  i = rounded(binary(Op::add, T::bf16), Round::rn);
  EXPECT_TRUE(takes(i));
  i.ftz = true;
  EXPECT_TRUE(refuses(i, {"takes no ftz"}));
  i = binary(Op::add, T::u32);
  i.body.push_back({.op = Op::trap});
  EXPECT_TRUE(refuses(i, {"takes no region"}));
  EXPECT_TRUE(refuses({.op = Op::warp_sync, .order = Order::acquire}, {"takes no order"}));
  EXPECT_TRUE(refuses({.op = Op::warp_sync, .vec = 2}, {"takes no vec"}));
}

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
  popc.from = T::u16, popc.src[0] = reg(T::u16);
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

// --- memory --------------------------------------------------------------------------------------------------------
Inst load(T t, Space s, uint8_t vec = 1) {
  const T held = t == T::u8 ? T::u32 : t == T::s8 ? T::s32 : t;
  const Operand address =
      s == Space::param ? imm(T::u64, 0) : reg(s == Space::shared || s == Space::cluster ? T::u32 : T::u64);
  return {.op = Op::load, .type = t, .dst = {vec, reg(held)}, .src = {address}, .space = s, .vec = vec};
}
Inst store(T t, Space s, uint8_t vec = 1) {
  Inst i = load(t, s, vec);
  i.op = Op::store;
  i.src.insert(i.src.end(), i.dst.begin(), i.dst.end());
  i.dst.clear();
  return i;
}
Inst ordered(Inst i, Order o, Scope s) {
  i.order = o;
  i.scope = s;
  return i;
}

TEST(VerifyMemory, WidthsOfAnAccess) {
  EXPECT_TRUE(takes(load(T::u8, Space::global, 4)));
  EXPECT_TRUE(takes(load(T::f32, Space::shared, 4)));
  EXPECT_TRUE(takes(load(T::f64, Space::cluster, 2)));
  EXPECT_TRUE(refuses(load(T::f64, Space::global, 4), {"4 values of 8 bytes; an access has at most 16"}));
  EXPECT_TRUE(refuses(load(T::f32, Space::global, 3), {"3 values at once"}));
  EXPECT_TRUE(refuses(load(T::pred, Space::global), {"the type is pred"}));
  EXPECT_TRUE(refuses(load(T::e4m3, Space::global), {"the type is e4m3"}));
  Inst i = load(T::f32, Space::global, 2);
  i.dst.pop_back();
  EXPECT_TRUE(refuses(i, {"has 1 results"}));
  i = load(T::u8, Space::global);
  i.dst[0] = reg(T::u16);  // a register holds bytes widened to 32 bits
  EXPECT_TRUE(refuses(i, {"result 0 is u16, expected u32"}));
}

TEST(VerifyMemory, AddressesBySpace) {
  Inst i = load(T::f32, Space::shared);
  i.src[0] = reg(T::u64);
  EXPECT_TRUE(refuses(i, {"source 0 is u64, expected u32"}));
  i = load(T::f32, Space::global);
  i.src[0] = reg(T::u32);
  EXPECT_TRUE(refuses(i, {"source 0 is u32, expected u64"}));
  i.src[0] = imm(T::u64, 64);
  EXPECT_TRUE(refuses(i, {"source 0 is not a register"}));
  EXPECT_TRUE(takes(load(T::u64, Space::param)));
  i = load(T::u64, Space::param);
  i.src[0] = reg(T::u64);
  EXPECT_TRUE(refuses(i, {"source 0 is not an immediate"}));
}

TEST(VerifyMemory, OffsetsFit32Bits) {
  Inst i = load(T::f32, Space::global);
  i.offset = (int64_t(1) << 31) - 4;
  EXPECT_TRUE(takes(i));
  i.offset = int64_t(1) << 31;
  EXPECT_TRUE(refuses(i, {"the offset 2147483648 does not fit 32 bits"}));
  i.offset = -(int64_t(1) << 31);
  EXPECT_TRUE(takes(i));
}

TEST(VerifyMemory, ConstantsAndArgumentsAreNotWritten) {
  EXPECT_TRUE(takes(store(T::f32, Space::global)));
  EXPECT_TRUE(refuses(store(T::f32, Space::constant), {"const space cannot be written"}));
  EXPECT_TRUE(refuses(store(T::f32, Space::param), {"param space cannot be written"}));
  Inst i{.op = Op::atom,
         .type = T::u32,
         .dst = {reg(T::u32)},
         .src = {reg(T::u64), reg(T::u32)},
         .space = Space::constant,
         .order = Order::relaxed,
         .scope = Scope::gpu};
  EXPECT_TRUE(refuses(i, {"const space has no atomics"}));
}

TEST(VerifyMemory, OrdersAndScopes) {
  EXPECT_TRUE(takes(ordered(load(T::u32, Space::global), Order::acquire, Scope::gpu)));
  EXPECT_TRUE(takes(ordered(store(T::u32, Space::global), Order::release, Scope::sys)));
  EXPECT_TRUE(takes(ordered(load(T::u32, Space::shared), Order::is_volatile, Scope::none)));
  EXPECT_TRUE(refuses(ordered(load(T::u32, Space::global), Order::release, Scope::gpu), {"the order is release"}));
  EXPECT_TRUE(refuses(ordered(store(T::u32, Space::global), Order::acquire, Scope::gpu), {"the order is acquire"}));
  EXPECT_TRUE(refuses(ordered(load(T::u32, Space::global), Order::acquire, Scope::none), {"acquire needs a scope"}));
  EXPECT_TRUE(refuses(ordered(load(T::u32, Space::global), Order::weak, Scope::gpu), {"weak takes no scope"}));
  EXPECT_TRUE(
      refuses(ordered(load(T::u32, Space::global), Order::is_volatile, Scope::gpu), {"volatile takes no scope"}));
  EXPECT_TRUE(
      refuses(ordered(load(T::u32, Space::constant), Order::relaxed, Scope::gpu), {"const space has no orders"}));
  Inst fence{.op = Op::fence, .order = Order::acq_rel, .scope = Scope::cluster};
  EXPECT_TRUE(takes(fence));
  EXPECT_TRUE(takes(ordered(fence, Order::seq_cst, Scope::cta)));
  EXPECT_TRUE(refuses(ordered(fence, Order::relaxed, Scope::cta), {"the order is relaxed"}));
  EXPECT_TRUE(refuses(ordered(fence, Order::acq_rel, Scope::none), {"needs a scope"}));
}

TEST(VerifyMemory, CacheHints) {
  Inst i = load(T::u32, Space::global);
  i.nc = true;
  i.l1 = L1::no_allocate;
  i.l2_prefetch = 128;
  i.policy = true;
  i.src.push_back(reg(T::u64));
  EXPECT_TRUE(takes(i));
  EXPECT_TRUE(refuses(ordered(i, Order::relaxed, Scope::gpu), {"nc is for weak loads from global memory"}));
  i = load(T::u32, Space::shared);
  i.nc = true;
  EXPECT_TRUE(refuses(i, {"nc is for weak loads from global memory"}));
  i = store(T::u32, Space::global);
  i.nc = true;
  EXPECT_TRUE(refuses(i, {"nc is for weak loads"}));
  i = load(T::u32, Space::shared);
  i.l1 = L1::evict_last;
  EXPECT_TRUE(refuses(i, {"L1 hints"}));
  i = ordered(load(T::u32, Space::global), Order::is_volatile, Scope::none);
  i.l1 = L1::evict_last;
  EXPECT_TRUE(refuses(i, {"not volatile"}));
  i = load(T::u32, Space::global);
  i.l2_prefetch = 32;
  EXPECT_TRUE(refuses(i, {"L2 prefetch of 32 bytes"}));
  i = store(T::u32, Space::global);
  i.l2_prefetch = 64;
  EXPECT_TRUE(refuses(i, {"L2 prefetch is for loads"}));
  i = load(T::u32, Space::global);
  i.policy = true;
  EXPECT_TRUE(refuses(i, {"has 1 sources"}));
  Inst prefetch{.op = Op::prefetch, .src = {reg(T::u64)}, .space = Space::global, .level = 2};
  EXPECT_TRUE(takes(prefetch));
  prefetch.level = 3;
  EXPECT_TRUE(refuses(prefetch, {"cache level 3"}));
}

TEST(VerifyMemory, AtomicsByTypeAndOperation) {
  auto atom = [](Op op, Atomic a, T t) {
    Inst i{.op = op,
           .type = t,
           .src = {reg(T::u64), reg(t)},
           .space = Space::global,
           .order = Order::relaxed,
           .scope = Scope::gpu,
           .atomic = a};
    if (op == Op::atom) i.dst = {reg(t)};
    if (a == Atomic::cas) i.src.push_back(reg(t));
    return i;
  };
  for (T t : {T::u32, T::s32, T::u64, T::f32, T::f64, T::f16x2}) EXPECT_TRUE(takes(atom(Op::atom, Atomic::add, t)));
  for (T t : {T::u16, T::pred, T::tf32}) EXPECT_TRUE(refuses(atom(Op::atom, Atomic::add, t), {"no atomic add on"}));
  EXPECT_TRUE(takes(atom(Op::red, Atomic::max, T::s64)));
  EXPECT_TRUE(refuses(atom(Op::red, Atomic::max, T::f32), {"no atomic max on f32"}));
  EXPECT_TRUE(takes(atom(Op::atom, Atomic::bit_xor, T::u64)));
  EXPECT_TRUE(refuses(atom(Op::atom, Atomic::bit_xor, T::f32), {"no atomic xor on f32"}));
  EXPECT_TRUE(takes(atom(Op::atom, Atomic::exch, T::f32)));
  EXPECT_TRUE(takes(atom(Op::atom, Atomic::cas, T::u64)));
  EXPECT_TRUE(refuses(atom(Op::atom, Atomic::cas, T::u16), {"no atomic cas on u16"}));
  EXPECT_TRUE(takes(atom(Op::atom, Atomic::inc, T::u32)));
  EXPECT_TRUE(refuses(atom(Op::atom, Atomic::dec, T::u64), {"no atomic dec on u64"}));
  EXPECT_TRUE(refuses(atom(Op::red, Atomic::exch, T::u32), {"exch without its old value"}));
  Inst cas = atom(Op::atom, Atomic::cas, T::u32);
  cas.src.pop_back();
  EXPECT_TRUE(refuses(cas, {"has 2 sources"}));
  EXPECT_TRUE(takes(ordered(atom(Op::atom, Atomic::add, T::u32), Order::acq_rel, Scope::gpu)));
  EXPECT_TRUE(
      refuses(ordered(atom(Op::red, Atomic::add, T::u32), Order::acq_rel, Scope::gpu), {"the order is acq_rel"}));
  EXPECT_TRUE(refuses(ordered(atom(Op::atom, Atomic::add, T::u32), Order::weak, Scope::none), {"the order is weak"}));
}

TEST(VerifyMemory, AddressesOfMemoryExist) {
  auto make = [](Op op, T t, uint64_t at) { return Inst{.op = op, .type = t, .dst = {reg(t)}, .src = {imm(t, at)}}; };
  EXPECT_TRUE(takes(make(Op::shared_address, T::u32, 1024)));
  EXPECT_TRUE(refuses(make(Op::shared_address, T::u32, 1025), {"byte 1025 of shared memory; the kernel has 1024"}));
  EXPECT_TRUE(takes(make(Op::constant_address, T::u64, 48)));
  EXPECT_TRUE(refuses(make(Op::constant_address, T::u64, 65), {"byte 65 of the constants"}));
  EXPECT_TRUE(takes(make(Op::param_address, T::u64, 128)));
  EXPECT_TRUE(refuses(make(Op::param_address, T::u64, 192), {"a tensor map at byte 192 ends outside the 256 bytes"}));
  EXPECT_TRUE(refuses(make(Op::param_address, T::u64, 32), {"expected 64"}));
  const Inst dynamic{.op = Op::dynamic_shared_address, .type = T::u32, .dst = {reg(T::u32)}};
  EXPECT_TRUE(takes(dynamic));
  Kernel k = with(dynamic);
  k.dynamic_shared = false;
  EXPECT_TRUE(refused(k, {"no run-time sized shared memory"}));
}

TEST(VerifyMemory, ClusterInstructionsNeedACluster) {
  const Inst insts[] = {
      load(T::f32, Space::cluster),
      {.op = Op::map_shared, .type = T::u32, .dst = {reg(T::u32)}, .src = {reg(T::u32), imm(T::u32, 1)}},
      {.op = Op::cluster_arrive, .order = Order::release},
      {.op = Op::cluster_wait, .order = Order::acquire},
      {.op = Op::mbarrier_arrive, .src = {reg(T::u32)}, .space = Space::cluster},
      {.op = Op::bulk_shared, .src = {reg(T::u32), reg(T::u32), imm(T::u32, 16), reg(T::u32)}},
  };
  for (const Inst& i : insts) {
    EXPECT_TRUE(takes(i));
    EXPECT_TRUE(refused(with(i, 128, 1), {"table.cpp:77: ", "in a kernel without a cluster"}));
  }
}

// --- across threads ------------------------------------------------------------------------------------------------
TEST(VerifyAcross, Shuffles) {
  auto shuffle = [](T t) {
    return Inst{.op = Op::shuffle, .type = t, .dst = {reg(t)}, .src = {reg(t), imm(T::u32, 16), imm(T::u32, 31)}};
  };
  EXPECT_TRUE(takes(shuffle(T::f32)));
  EXPECT_TRUE(takes(shuffle(T::bf16x2)));
  EXPECT_TRUE(refuses(shuffle(T::f64), {"4-byte values, not f64"}));
  EXPECT_TRUE(refuses(shuffle(T::u16), {"4-byte values, not u16"}));
  Inst i = shuffle(T::f32);
  i.dst.push_back(reg(T::pred));
  EXPECT_TRUE(takes(i));
  i = shuffle(T::f32);
  i.src[1] = imm(T::u32, 32);  // PTX takes it modulo 32: each lane would get its own value
  EXPECT_TRUE(refuses(i, {"lane 32 of a warp of 32"}));
  i = shuffle(T::f32);
  i.src[2] = imm(T::u32, 0x2000);
  EXPECT_TRUE(refuses(i, {"the clamp is 0x2000"}));
}

TEST(VerifyAcross, VotesMatchesReductions) {
  EXPECT_TRUE(takes({.op = Op::vote, .dst = {reg(T::u32)}, .src = {reg(T::pred)}, .vote = VoteMode::ballot}));
  EXPECT_TRUE(refuses({.op = Op::vote, .dst = {reg(T::u32)}, .src = {reg(T::pred)}, .vote = VoteMode::any},
                      {"result 0 is u32, expected pred"}));
  EXPECT_TRUE(takes(
      {.op = Op::match, .type = T::u64, .dst = {reg(T::u32), reg(T::pred)}, .src = {reg(T::u64)}, .match_all = true}));
  EXPECT_TRUE(refuses({.op = Op::match, .type = T::u64, .dst = {reg(T::u32), reg(T::pred)}, .src = {reg(T::u64)}},
                      {"has 2 results, expected 1"}));
  EXPECT_TRUE(
      refuses({.op = Op::match, .type = T::f32, .dst = {reg(T::u32)}, .src = {reg(T::f32)}}, {"the type is f32"}));
  auto redux = [](Atomic a, T t) {
    return Inst{.op = Op::redux, .type = t, .dst = {reg(t)}, .src = {reg(t)}, .atomic = a};
  };
  EXPECT_TRUE(takes(redux(Atomic::min, T::s32)));
  EXPECT_TRUE(takes(redux(Atomic::bit_or, T::u32)));
  EXPECT_TRUE(refuses(redux(Atomic::bit_or, T::s32), {"or is for u32"}));
  EXPECT_TRUE(refuses(redux(Atomic::exch, T::u32), {"exch is not a reduction"}));
  EXPECT_TRUE(refuses(redux(Atomic::add, T::f32), {"the type is f32"}));
}

TEST(VerifyAcross, Barriers) {
  auto barrier = [](Op op, uint32_t id, uint32_t threads) {
    return Inst{.op = op, .src = {imm(T::u32, id), imm(T::u32, threads)}};
  };
  EXPECT_TRUE(takes(barrier(Op::barrier, 15, 64)));
  EXPECT_TRUE(takes(barrier(Op::barrier_arrive, 1, 128)));
  EXPECT_TRUE(refuses(barrier(Op::barrier, 16, 64), {"barrier 16, a block has 0 to 15"}));
  EXPECT_TRUE(refuses(barrier(Op::barrier, 1, 48), {"48 threads, expected whole warps of a block of 128"}));
  EXPECT_TRUE(refuses(barrier(Op::barrier, 1, 0), {"0 threads"}));
  EXPECT_TRUE(refuses(barrier(Op::barrier, 1, 160), {"160 threads, expected whole warps of a block of 128"}));
  EXPECT_TRUE(refuses({.op = Op::barrier_arrive, .src = {imm(T::u32, 1)}}, {"has 1 sources"}));
  EXPECT_TRUE(refuses({.op = Op::barrier, .src = {reg(T::u32)}}, {"not an immediate"}));
  EXPECT_TRUE(
      refuses({.op = Op::barrier_reduce, .dst = {reg(T::pred)}, .src = {reg(T::pred)}, .reduce = ReduceMode::popc},
              {"result 0 is pred, expected u32"}));
  EXPECT_TRUE(refuses({.op = Op::cluster_arrive, .order = Order::acquire}, {"an arrival is release or relaxed"}));
  EXPECT_TRUE(refuses({.op = Op::cluster_wait}, {"a wait is acquire"}));
}

TEST(VerifyAsync, Copies) {
  Inst i{.op = Op::cp_async, .src = {reg(T::u32), reg(T::u64)}, .bytes = 16};
  EXPECT_TRUE(takes(i));
  i.src.push_back(reg(T::u32));
  EXPECT_TRUE(takes(i));
  i.src[2] = imm(T::u32, 17);
  EXPECT_TRUE(refuses(i, {"17 bytes valid of 16"}));
  i.src.pop_back();
  i.bytes = 8;
  EXPECT_TRUE(refuses(i, {"8 bytes past L1, which copies 16"}));
  i.through_l1 = true;
  EXPECT_TRUE(takes(i));
  i.bytes = 12;
  EXPECT_TRUE(refuses(i, {"12 bytes, expected 4, 8 or 16"}));
}

TEST(VerifyAsync, BulkCopies) {
  Inst load{.op = Op::bulk_load, .src = {reg(T::u32), reg(T::u64), imm(T::u32, 64), reg(T::u32)}};
  EXPECT_TRUE(takes(load));
  load.src[2] = imm(T::u32, 24);
  EXPECT_TRUE(refuses(load, {"24 bytes, expected a multiple of 16"}));
  load.src[2] = reg(T::u32);
  EXPECT_TRUE(takes(load));
  load.policy = true;
  EXPECT_TRUE(refuses(load, {"has 4 sources"}));
  load.src.push_back(reg(T::u64));
  EXPECT_TRUE(takes(load));
  EXPECT_TRUE(refuses({.op = Op::bulk_store, .src = {reg(T::u64), reg(T::u32), imm(T::u32, 8)}}, {"8 bytes"}));
  Inst tensor{.op = Op::tensor_load, .src = {reg(T::u32), reg(T::u64), reg(T::u32), reg(T::s32), reg(T::s32)}};
  EXPECT_TRUE(takes(tensor));
  tensor.src[4] = reg(T::u32);
  EXPECT_TRUE(refuses(tensor, {"source 4 is u32, expected s32"}));
  tensor.src.resize(3);
  EXPECT_TRUE(refuses(tensor, {"0 coordinates, expected 1 to 5"}));
  tensor.src.resize(9, reg(T::s32));
  EXPECT_TRUE(refuses(tensor, {"6 coordinates, expected 1 to 5"}));
}

TEST(VerifyAsync, Mbarriers) {
  EXPECT_TRUE(takes({.op = Op::mbarrier_init, .src = {reg(T::u32), imm(T::u32, 128)}}));
  EXPECT_TRUE(
      refuses({.op = Op::mbarrier_init, .src = {reg(T::u32), imm(T::u32, 0)}}, {"counts 0, expected 1 to 1048575"}));
  EXPECT_TRUE(refuses({.op = Op::mbarrier_expect, .src = {reg(T::u32), imm(T::u32, 1 << 20)}}, {"counts 1048576"}));
  EXPECT_TRUE(takes(
      {.op = Op::mbarrier_arrive, .dst = {reg(T::u64)}, .src = {reg(T::u32), imm(T::u32, 2)}, .space = Space::shared}));
  EXPECT_TRUE(refuses({.op = Op::mbarrier_arrive, .dst = {reg(T::u64)}, .src = {reg(T::u32)}, .space = Space::cluster},
                      {"returns no state"}));
  EXPECT_TRUE(
      refuses({.op = Op::mbarrier_arrive, .src = {reg(T::u32)}, .space = Space::global}, {"not in global space"}));
  EXPECT_TRUE(takes({.op = Op::mbarrier_try, .dst = {reg(T::pred)}, .src = {reg(T::u32), reg(T::u32)}}));
  EXPECT_TRUE(
      refuses({.op = Op::mbarrier_try, .dst = {reg(T::pred)}, .src = {reg(T::u32), imm(T::u32, 2)}}, {"parity 2"}));
}

// --- matrix units --------------------------------------------------------------------------------------------------
Inst mma(uint16_t m, uint16_t n, uint16_t k, T sum, T a, T b) {
  const T held = sum == T::f16 ? T::f16x2 : sum;
  const size_t sums = m * n / 32 / (sum == T::f16 ? 2 : 1), words = (m * k * size_of(a) + k * n * size_of(b)) / 128;
  Inst i{.op = Op::mma,
         .type = sum,
         .dst = {sums, reg(held)},
         .src = {words, reg(T::u32)},
         .m = m,
         .n = n,
         .k = k,
         .a_type = a,
         .b_type = b};
  i.src.insert(i.src.end(), sums, reg(held));
  return i;
}

TEST(VerifyMatrix, MmaShapesAndTypes) {
  EXPECT_TRUE(takes(mma(16, 8, 16, T::f32, T::f16, T::f16)));
  EXPECT_TRUE(takes(mma(16, 8, 8, T::f16, T::f16, T::f16)));
  EXPECT_TRUE(takes(mma(16, 8, 16, T::f32, T::bf16, T::bf16)));
  EXPECT_TRUE(takes(mma(16, 8, 4, T::f32, T::tf32, T::tf32)));
  EXPECT_TRUE(takes(mma(16, 8, 32, T::s32, T::s8, T::u8)));
  EXPECT_TRUE(takes(mma(8, 8, 16, T::s32, T::u8, T::u8)));
  EXPECT_TRUE(takes(mma(16, 8, 32, T::f32, T::e4m3, T::e5m2)));
  EXPECT_TRUE(refuses(mma(16, 8, 16, T::f16, T::bf16, T::bf16), {"f16 += bf16 * bf16 does not exist"}));
  EXPECT_TRUE(refuses(mma(16, 8, 16, T::f32, T::f16, T::bf16), {"f32 += f16 * bf16"}));
  EXPECT_TRUE(refuses(mma(16, 8, 32, T::f32, T::s8, T::s8), {"f32 += s8 * s8"}));
  EXPECT_TRUE(refuses(mma(16, 8, 32, T::f32, T::f16, T::f16), {"m16n8k32 of f16 does not exist"}));
  EXPECT_TRUE(refuses(mma(16, 16, 16, T::f32, T::f16, T::f16), {"m16n16k16 of f16"}));
  EXPECT_TRUE(refuses(mma(8, 8, 16, T::f32, T::e4m3, T::e4m3), {"m8n8k16 of e4m3"}));
  Inst i = mma(16, 8, 16, T::f32, T::f16, T::f16);
  i.src.pop_back();
  EXPECT_TRUE(refuses(i, {"has 9 sources"}));
  i = mma(16, 8, 16, T::f32, T::f16, T::f16);
  i.src[0] = reg(T::f16x2);
  EXPECT_TRUE(refuses(i, {"source 0 is f16x2, expected u32"}));
}

TEST(VerifyMatrix, MatricesInSharedMemory) {
  Inst i{.op = Op::ldmatrix, .type = T::u32, .dst = {4, reg(T::u32)}, .src = {reg(T::u32)}, .vec = 4};
  EXPECT_TRUE(takes(i));
  i.vec = 3;
  EXPECT_TRUE(refuses(i, {"3 matrices"}));
  i.vec = 2;
  EXPECT_TRUE(refuses(i, {"has 4 results, expected 2"}));
  Inst st{.op = Op::stmatrix, .type = T::u32, .src = {3, reg(T::u32)}, .vec = 2};
  EXPECT_TRUE(takes(st));
}

Inst wgmma(uint16_t n, T sum, T a, T b) {
  const T held = sum == T::f16 ? T::f16x2 : sum;
  const size_t sums = 64 * n / 128 / (sum == T::f16 ? 2 : 1);
  return {.op = Op::wgmma,
          .type = sum,
          .dst = {sums, reg(held)},
          .src = {reg(T::u64), reg(T::u64), imm(T::pred, 1)},
          .m = 64,
          .n = n,
          .k = uint16_t(32 / size_of(a)),
          .a_type = a,
          .b_type = b,
          .a_shared = true};
}

TEST(VerifyMatrix, WgmmaShapesAndTypes) {
  EXPECT_TRUE(takes(wgmma(256, T::f32, T::bf16, T::bf16)));
  EXPECT_TRUE(takes(wgmma(40, T::f16, T::f16, T::f16)));
  EXPECT_TRUE(takes(wgmma(8, T::f32, T::tf32, T::tf32)));
  EXPECT_TRUE(takes(wgmma(24, T::s32, T::s8, T::u8)));
  EXPECT_TRUE(refuses(wgmma(40, T::s32, T::s8, T::s8), {"n40"}));  // above 32, integers go by 16
  EXPECT_TRUE(refuses(wgmma(12, T::f32, T::f16, T::f16), {"n12"}));
  EXPECT_TRUE(refuses(wgmma(264, T::f32, T::f16, T::f16), {"n264"}));
  EXPECT_TRUE(refuses(wgmma(64, T::f16, T::bf16, T::bf16), {"f16 += bf16 * bf16 does not exist"}));
  Inst i = wgmma(64, T::f32, T::f16, T::f16);
  i.k = 32;
  EXPECT_TRUE(refuses(i, {"expected m64 and k16"}));
  i = wgmma(64, T::f32, T::f16, T::f16);
  i.transpose_a = i.negate_b = true;
  EXPECT_TRUE(takes(i));
  i.a_shared = false;
  i.src = {reg(T::u32), reg(T::u32), reg(T::u32), reg(T::u32), reg(T::u64), reg(T::pred)};
  EXPECT_TRUE(refuses(i, {"A in registers cannot be transposed"}));
  i.transpose_a = false;
  EXPECT_TRUE(takes(i));
  i = wgmma(64, T::f32, T::e4m3, T::e4m3);
  i.transpose_b = true;
  EXPECT_TRUE(refuses(i, {"only 16-bit operands can be transposed"}));
  i = wgmma(64, T::s32, T::s8, T::s8);
  i.negate_a = true;
  EXPECT_TRUE(refuses(i, {"integer operands cannot be negated"}));
  i = wgmma(64, T::f32, T::f16, T::f16);
  i.dst.pop_back();
  EXPECT_TRUE(refuses(i, {"has 31 results"}));
}

TEST(VerifyMatrix, GroupInstructionsNeedWholeGroups) {
  const Inst reg_count{.op = Op::setmaxnreg, .src = {imm(T::u32, 40)}};
  EXPECT_TRUE(takes(reg_count));
  EXPECT_TRUE(refused(with(reg_count, 160), {"table.cpp:77: ", "groups of 128 threads, the block has 160"}));
  EXPECT_TRUE(refused(with(wgmma(64, T::f32, T::f16, T::f16), 96), {"groups of 128 threads, the block has 96"}));
  for (uint32_t n : {16u, 44u, 264u})
    EXPECT_TRUE(refuses({.op = Op::setmaxnreg, .src = {imm(T::u32, n)}}, {"expected a multiple of 8 from 24 to 256"}));
}

TEST(VerifyTypes, StructureHasItsParts) {
  EXPECT_TRUE(refuses({.op = Op::when, .src = {reg(T::u32)}}, {"source 0 is u32, expected pred"}));
  EXPECT_TRUE(refuses({.op = Op::when, .src = {imm(T::pred, 1)}}, {"source 0 is not a register"}));
  EXPECT_TRUE(refuses({.op = Op::when, .src = {reg(T::pred)}, .head = {{.op = Op::trap}}}, {"a when has no head"}));
  EXPECT_TRUE(
      refuses({.op = Op::loop, .src = {reg(T::pred)}, .otherwise = {{.op = Op::trap}}}, {"a loop has no else"}));
  EXPECT_TRUE(takes({.op = Op::loop, .src = {reg(T::pred)}, .body = {{.op = Op::trap}}}));
}

}  // namespace
}  // namespace heddle::ptx
