// Arithmetic and conversions through the public interpreter: each instruction against its reference in integer
// arithmetic, first on the cross product of special operands, then on 10 000 random ones.
#include <gtest/gtest.h>

#include <array>
#include <cfenv>
#include <cstring>
#include <map>

#include "base/error.h"
#include "ptx/machine/machine.h"
#include "ptx/verify.h"
#include "tests/ptx/cases/run.h"

namespace heddle::ptx::cases {
namespace {

const std::map<std::string, Case>& cases_by_name() {
  static const std::map<std::string, Case> by_name = [] {
    std::vector<Case> all;
    add_arithmetic(all);
    add_bits(all);
    add_conversions(all);
    std::map<std::string, Case> m;
    for (Case& c : all) m.emplace(c.name, c);
    if (m.size() != all.size()) throw Error("two cases have the same name");
    return m;
  }();
  return by_name;
}
std::vector<std::string> names() {
  std::vector<std::string> v;
  for (auto& [name, c] : cases_by_name()) v.push_back(name);
  return v;
}
// Names of tests are letters, digits and underscores.
std::string name_of_arithmetic(const testing::TestParamInfo<std::string>& info) {
  std::string s = info.param;
  for (char& c : s)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return s;
}

class Arithmetic : public testing::TestWithParam<std::string> {};

TEST_P(Arithmetic, GivesWhatItsReferenceGives) {
  const Case& c = cases_by_name().at(GetParam());
  const uint32_t items = c.fewest_items | 1;  // the last block is not full
  const Kernel kernel = c.build();
  ASSERT_NO_THROW(verify(kernel));
  const std::vector<uint8_t> in = make_inputs(c, items, 1);
  const Difference d = compare(c, in, interpret_case(c, kernel, in, items), reference(c, in, items), items);
  EXPECT_EQ(d.mismatches, 0u) << "of " << items << "; " << d.first;
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

// --- partial warps ------------------------------------------------------------------------------------------------
constexpr uint32_t row_bytes = 8 * 32, rows = 8;  // rows 0 and 1 for results, then the operands

struct Registers {
  std::array<uint8_t, rows * row_bytes> bytes;
  uint8_t* row(uint32_t i) { return bytes.data() + i * row_bytes; }
};
// Executes one instruction under a mask.
void execute(machine::Exec exec, const Inst& inst, Registers& r, uint32_t mask) {
  uint32_t dst[2] = {0, row_bytes}, src[4];
  for (uint32_t i = 0; i < 4; ++i) src[i] = (2 + i) * row_bytes;
  machine::Warp w;
  w.regs = r.bytes.data();
  w.mask = mask;
  machine::Step step{.exec = exec, .inst = &inst, .dst = dst, .src = src};
  exec(w, step);
}
uint32_t width(Type t) { return t == Type::pred ? 4 : register_bytes(t); }

// Active lanes get what they get in a full warp. The others keep their value, and their operands, here all zero, are
// ignored: a division by them must not stop the process.
void expect_lanes_apart(machine::Exec exec, const Inst& inst, std::mt19937& rng) {
  for (const uint32_t mask : {0x1u, 0x80000000u, 0x7fffffffu, 0xaaaaaaaau, uint32_t(rng())}) {
    Registers before, full, partial;
    for (uint8_t& b : before.bytes) b = uint8_t(rng() | 1);
    full = partial = before;
    for (uint32_t i = 0; i < inst.src.size(); ++i) {
      const uint32_t bytes = width(inst.src[i].type);
      for (uint32_t lane = 0; lane < 32; ++lane)
        if (!(mask >> lane & 1)) std::memset(partial.row(2 + i) + lane * bytes, 0, bytes);
    }
    execute(exec, inst, full, ~0u);
    execute(exec, inst, partial, mask);
    for (uint32_t i = 0; i < inst.dst.size(); ++i) {
      const uint32_t bytes = width(inst.dst[i].type);
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint8_t* want = (mask >> lane & 1 ? full : before).row(i) + lane * bytes;
        ASSERT_EQ(std::memcmp(partial.row(i) + lane * bytes, want, bytes), 0)
            << name(inst.op) << ", lane " << lane << " of mask " << mask;
      }
    }
  }
}
void each_instruction(const Block& block, const std::function<void(const Inst&)>& fn) {
  for (const Inst& inst : block) {
    fn(inst);
    for (const Block* inner : {&inst.body, &inst.otherwise, &inst.head}) each_instruction(*inner, fn);
  }
}
TEST_P(Arithmetic, LeavesInactiveLanesAlone) {
  std::mt19937 rng(1);
  uint32_t executed = 0;
  each_instruction(cases_by_name().at(GetParam()).build().body, [&](const Inst& inst) {
    machine::Exec exec = machine::arithmetic(inst);
    if (!exec) exec = machine::conversion(inst);
    if (exec) {
      expect_lanes_apart(exec, inst, rng);
      ++executed;
    }
  });
  EXPECT_GT(executed, 0u);
}

// --- what is refused ----------------------------------------------------------------------------------------------
struct NoArgs {};

TEST(ArithmeticReports, DivisionByZeroOnlyInActiveLanes) {
  auto divide = [](uint32_t first) {
    Builder<NoArgs> k("divide", 32);
    U32 lane = k.lane();
    k.when(lane >= first, [&] { (void)(k.constant(7u) / lane); });
    Memory memory;
    interpret(k.finish(), {}, NoArgs{}, memory);
  };
  EXPECT_NO_THROW(divide(1));
  try {
    divide(0);
    ADD_FAILURE() << "no report";
  } catch (const Report& r) {
    EXPECT_EQ(r.kind, Report::Kind::bad_operand);
    EXPECT_EQ(r.thread, 0u);
  }
}

TEST(ArithmeticReports, WhatPtxDoesNotHaveHasNoFunction) {
  const Operand f32{.kind = Operand::Kind::reg, .type = Type::f32};
  auto none = [](const Inst& inst) { return !machine::arithmetic(inst) && !machine::conversion(inst); };
  EXPECT_TRUE(none({.op = Op::add, .type = Type::e4m3x2}));
  EXPECT_TRUE(none({.op = Op::add, .type = Type::f16, .round = Round::rz}));
  EXPECT_TRUE(none({.op = Op::add, .type = Type::f32, .round = Round::rni}));
  EXPECT_TRUE(none({.op = Op::set, .type = Type::u32, .compare = Compare::ltu}));
  EXPECT_TRUE(none({.op = Op::ex2, .type = Type::bf16, .approx = true}));
  EXPECT_TRUE(none({.op = Op::mul_wide, .type = Type::u64, .from = Type::u16}));
  EXPECT_TRUE(none({.op = Op::cvt, .type = Type::s32, .from = Type::f32, .src = {f32}, .round = Round::rn}));
  EXPECT_TRUE(none({.op = Op::cvt, .type = Type::e4m3x2, .from = Type::f32, .src = {f32, f32}, .round = Round::rn}));
  EXPECT_TRUE(none({.op = Op::pack, .type = Type::u64, .from = Type::u16}));
  EXPECT_TRUE(none({.op = Op::load, .type = Type::u32}));
}

INSTANTIATE_TEST_SUITE_P(All, Arithmetic, testing::ValuesIn(names()), name_of_arithmetic);

}  // namespace
}  // namespace heddle::ptx::cases
