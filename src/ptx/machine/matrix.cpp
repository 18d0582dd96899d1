// The matrix units: ldmatrix, stmatrix, mma; wgmma is in wgmma.cpp and its order with other instructions in
// wgmma_state.cpp.
//
// Numbers. Integers are exact and wrap. Floating sums are taken in double, where products are exact, and rounded once
// to the accumulator's type. A GPU aligns the products and the old sum to the largest of them, cuts what falls off
// below, and truncates the result; so with S = |c| + sum over k of |a||b| the two differ by at most
//   (k + 1) 2^-23 S  for f16, bf16 and tf32 operands, f32 sums
//   (k + 1) 2^-13 S  for fp8 operands (Hopper keeps about 14 bits while adding), f32 sums
//   2^-10 S more     for f16 sums
// and not at all where every partial sum is a small integer. The low 13 bits of a tf32 operand are ignored.
#include "ptx/machine/matrix_numbers.h"

namespace heddle::ptx::machine {

namespace {

// 8 x 8 matrices of 16-bit elements, row by row; lane 8i + r has the address of row r of matrix i.
struct Rows {
  uint16_t element[4][8][8];
};

uint32_t row_address(const Warp& w, const Step& s, uint32_t lane) {
  return w.read<uint32_t>(s.src[0])[lane] + uint32_t(s.inst->offset);
}

// The two elements of each matrix that a lane holds: neighbours in row lane / 4, or in column lane / 4.
template <class F>
void each_fragment(const Inst& inst, F f) {
  for (uint32_t i = 0; i < inst.vec; ++i)
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t line = lane / 4, at = lane % 4 * 2;
      if (inst.transpose)
        f(i, lane, at, line, at + 1, line);
      else
        f(i, lane, line, at, line, at + 1);
    }
}

void ldmatrix(Warp& w, const Step& s) {
  need_all_lanes(w);
  Rows m;
  for (uint32_t lane = 0; lane < 8u * s.inst->vec; ++lane)
    shared_read(w, lane, row_address(w, s, lane), m.element[lane / 8][lane % 8], 16, 16);
  each_fragment(*s.inst, [&](uint32_t i, uint32_t lane, uint32_t r0, uint32_t c0, uint32_t r1, uint32_t c1) {
    w.write<uint32_t>(s.dst[i])[lane] = m.element[i][r0][c0] | uint32_t(m.element[i][r1][c1]) << 16;
  });
}

void stmatrix(Warp& w, const Step& s) {
  need_all_lanes(w);
  Rows m;
  each_fragment(*s.inst, [&](uint32_t i, uint32_t lane, uint32_t r0, uint32_t c0, uint32_t r1, uint32_t c1) {
    const uint32_t pair = w.read<uint32_t>(s.src[1 + i])[lane];
    m.element[i][r0][c0] = uint16_t(pair);
    m.element[i][r1][c1] = uint16_t(pair >> 16);
  });
  for (uint32_t lane = 0; lane < 8u * s.inst->vec; ++lane)
    shared_write(w, lane, row_address(w, s, lane), m.element[lane / 8][lane % 8], 16, 16);
}

// Register r of B holds, in lane 4g + t, the 32-bit word 4r + t of column g.
void load_b(const Warp& w, Type type, const uint32_t* rows, uint32_t count, double* b) {  // (k, 8)
  for (uint32_t r = 0; r < count; ++r)
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t per_word = 4 / size_of(type), k = (4 * r + lane % 4) * per_word;
      decode(type, w.read<uint32_t>(rows[r]) + lane, per_word, b + k * 8 + lane / 4, 8);
    }
}

void mma(Warp& w, const Step& s) {
  need_all_lanes(w);
  const Inst& inst = *s.inst;
  const uint32_t words = inst.k * size_of(inst.a_type) / 4;  // in a row of A or a column of B
  const uint32_t a_count = inst.m * words / 32, b_count = 8 * words / 32;
  double a[16 * 32], b[32 * 8], sum[16 * 8];  // (m, k), (k, 8), (m, 8)
  load_fragment(w, inst.a_type, s.src, a_count, words, a);
  load_b(w, inst.b_type, s.src + a_count, b_count, b);
  load_accumulator(w, inst.type, s.src + a_count + b_count, inst.dst.size(), 8, sum);
  multiply(inst.m, 8, inst.k, a, b, sum);
  store_accumulator(w, inst.type, s.dst, inst.dst.size(), 8, sum);
}

void setmaxnreg(Warp& w, const Step& s) {
  need_all_lanes(w);
  const uint64_t count = s.inst->src[0].bits;
  if (count < 24 || count > 256 || count % 8)
    w.fail(Report::Kind::bad_operand, 0,
           fmt::format("setmaxnreg of {} registers: not a multiple of 8 from 24 to 256", count));
}

}  // namespace

Exec matrix(const Inst& inst) {
  switch (inst.op) {
    case Op::ldmatrix:
      return ldmatrix;
    case Op::stmatrix:
      return stmatrix;
    case Op::mma:
      return mma;
    case Op::wgmma:
      return wgmma;
    case Op::wgmma_fence:
      return wgmma_fence;
    case Op::wgmma_commit:
      return wgmma_commit;
    case Op::wgmma_wait:
      return wgmma_wait;
    case Op::setmaxnreg:
      return setmaxnreg;
    default:
      return nullptr;
  }
}

}  // namespace heddle::ptx::machine
