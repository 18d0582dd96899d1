// What verify takes of instructions between threads, and of copies that run beside them.
#include "tests/ptx/single_instruction.h"

namespace heddle::ptx {
namespace {

using namespace single;

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

}  // namespace
}  // namespace heddle::ptx
