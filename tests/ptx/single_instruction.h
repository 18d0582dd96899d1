// A kernel around one instruction, to see what verify says of it.
#pragma once
#include "tests/ptx/refused.h"

namespace heddle::ptx {

namespace single {

using T = Type;

// A kernel with one written register of every type, to set a single instruction into. Two blocks in a cluster, all
// kinds of memory, whole groups of warps.
inline Kernel frame() {
  Kernel k;
  k.name = "single";
  k.threads_x = 128;
  k.cluster_x = 2;
  k.args_bytes = 256;
  k.args_align = 64;
  k.shared_bytes = 1024;
  k.shared_align = 128;
  k.dynamic_shared = true;
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
inline Operand reg(T t) { return {.kind = Operand::Kind::reg, .type = t, .reg = unsigned(t)}; }
inline Operand imm(T t, uint64_t bits) { return {.kind = Operand::Kind::imm, .type = t, .bits = bits}; }
inline Kernel with(Inst i, uint32_t threads = 128, uint32_t cluster = 2) {
  Kernel k = frame();
  k.threads_x = threads;
  k.cluster_x = cluster;
  i.file = "table.cpp";
  i.line = 77;
  k.body.push_back(std::move(i));
  // Everything that must be waited for is waited for.
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
inline ::testing::AssertionResult takes(const Inst& i) { return accepted(with(i)); }
inline ::testing::AssertionResult refuses(const Inst& i, std::initializer_list<std::string> words) {
  auto r = refused(with(i), words);
  if (!r) return r;
  return refused(with(i), {"table.cpp:77: ", name(i.op)});
}

inline Inst unary(Op op, T t) { return {.op = op, .type = t, .dst = {reg(t)}, .src = {reg(t)}}; }
inline Inst binary(Op op, T t) { return {.op = op, .type = t, .dst = {reg(t)}, .src = {reg(t), reg(t)}}; }
inline Inst rounded(Inst i, Round r) {
  i.round = r;
  return i;
}
inline Inst approx(Inst i) {
  i.approx = true;
  return i;
}

}  // namespace single

}  // namespace heddle::ptx
