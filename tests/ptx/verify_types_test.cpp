// One instruction at a time: the number, kind and type of operands, the modifiers, and the regions that verify takes.
#include "tests/ptx/single_instruction.h"

namespace heddle::ptx {
namespace {

using namespace single;

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
