// Which shapes and types of the matrix units verify takes.
#include "tests/ptx/single_instruction.h"

namespace heddle::ptx {
namespace {

using namespace single;

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

}  // namespace
}  // namespace heddle::ptx
