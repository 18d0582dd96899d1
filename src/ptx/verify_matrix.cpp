// Shapes and types of the matrix units, and how many registers each operand takes.
#include "ptx/verify_rules.h"

namespace heddle::ptx {
namespace {

constexpr Types fp8 = set_of({Type::e4m3, Type::e5m2});
constexpr Types int8 = set_of({Type::u8, Type::s8});

// Sums in f32 alone, in f32 or f16, or in s32; A and B of one family.
bool types_fit(const Inst& i) {
  const bool same = i.a_type == i.b_type;
  const bool f32 = i.type == Type::f32, f16 = i.type == Type::f16;
  if (i.a_type == Type::f16) return same && (f32 || f16);
  if (i.a_type == Type::bf16 || i.a_type == Type::tf32) return same && f32;
  if (in(i.a_type, fp8)) return in(i.b_type, fp8) && (f32 || f16);
  if (in(i.a_type, int8)) return in(i.b_type, int8) && i.type == Type::s32;
  return false;
}

// A row of the operand is 16 or 32 bytes; only bytes have the square shape (m8n8k16).
bool mma_shape(const Inst& i) {
  const uint32_t row = i.k * size_of(i.a_type);
  if (i.m == 16 && i.n == 8) return row == 16 || row == 32;
  return i.m == 8 && i.n == 8 && row == 16 && in(i.a_type, int8);
}

// What a register of the accumulator holds, and how many values.
Type sum_register(const Inst& i) { return i.type == Type::f16 ? Type::f16x2 : i.type; }
uint32_t sum_registers(const Inst& i, uint32_t threads) {
  return uint32_t(i.m) * i.n / threads / (i.type == Type::f16 ? 2 : 1);
}

void warp_product(Form& f) {
  const Inst& i = f.inst;
  f.expect(types_fit(i), "{} += {} * {} does not exist", name(i.type), name(i.a_type), name(i.b_type));
  f.expect(mma_shape(i), "m{}n{}k{} of {} does not exist", i.m, i.n, i.k, name(i.a_type));
  const uint32_t a = uint32_t(i.m) * i.k * size_of(i.a_type) / 128, b = uint32_t(i.k) * i.n * size_of(i.b_type) / 128;
  for (uint32_t r = 0; r < a + b; ++r) f.src_reg(Type::u32);
  for (uint32_t r = 0; r < sum_registers(i, 32); ++r) {
    f.dst(sum_register(i));
    f.src_reg(sum_register(i));
  }
}

void whole_groups(const Form& f) {
  f.expect(f.kernel.threads() % 128 == 0, "acts on groups of 128 threads, the block has {}", f.kernel.threads());
}

void group_product(Form& f) {
  const Inst& i = f.inst;
  whole_groups(f);
  f.expect(types_fit(i), "{} += {} * {} does not exist", name(i.type), name(i.a_type), name(i.b_type));
  const bool ints = i.type == Type::s32;
  f.expect(i.m == 64 && i.k * size_of(i.a_type) == 32, "m{}n{}k{} of {}: expected m64 and k{}", i.m, i.n, i.k,
           name(i.a_type), 32 / size_of(i.a_type));
  f.expect(i.n >= 8 && i.n <= 256 && i.n % 8 == 0 && (!ints || i.n <= 32 || i.n % 16 == 0),
           "n{}: expected a multiple of {} up to 256", i.n, ints ? "8 up to 32, of 16" : "8");
  const bool halves = size_of(i.a_type) == 2;
  f.expect(halves || !(i.transpose_a || i.transpose_b), "only 16-bit operands can be transposed");
  f.expect(i.a_shared || !i.transpose_a, "A in registers cannot be transposed");
  f.expect(!ints || !(i.negate_a || i.negate_b), "integer operands cannot be negated");
  for (uint32_t r = 0; r < sum_registers(i, 128); ++r) f.dst(sum_register(i));
  if (i.a_shared)
    f.src_reg(Type::u64);
  else
    for (int r = 0; r < 4; ++r) f.src_reg(Type::u32);
  f.src_reg(Type::u64);
  f.src(Type::pred);
}

void expect_matrices(Form& f, bool is_load) {
  const Inst& i = f.inst;
  f.reads(reads_vec | reads_offset);
  f.expect(i.vec == 1 || i.vec == 2 || i.vec == 4, "{} matrices, expected 1, 2 or 4", i.vec);
  f.expect(i.offset == int32_t(i.offset), "the offset {} does not fit 32 bits", i.offset);
  f.src_reg(Type::u32);
  for (uint8_t v = 0; v < i.vec; ++v) is_load ? f.dst(Type::u32) : f.src_reg(Type::u32);
}

}  // namespace

bool matrix_form(Form& f) {
  switch (f.inst.op) {
    case Op::ldmatrix:
      expect_matrices(f, true);
      break;
    case Op::stmatrix:
      expect_matrices(f, false);
      break;
    case Op::mma:
      warp_product(f);
      break;
    case Op::wgmma:
      group_product(f);
      break;
    case Op::wgmma_fence:
    case Op::wgmma_commit:
      whole_groups(f);
      break;
    case Op::wgmma_wait:
      whole_groups(f);
      f.src_imm(Type::u32);
      break;
    case Op::setmaxnreg: {
      whole_groups(f);
      const uint64_t count = f.src_imm(Type::u32).bits;
      f.expect(count >= 24 && count <= 256 && count % 8 == 0, "{} registers, expected a multiple of 8 from 24 to 256",
               count);
      break;
    }
    default:
      return false;
  }
  return true;
}

}  // namespace heddle::ptx
