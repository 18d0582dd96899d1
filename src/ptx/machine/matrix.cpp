// The matrix units: ldmatrix, stmatrix, mma, and the numbers they multiply; wgmma is in wgmma.cpp.
//
// Numbers. Integers are exact and wrap. Floating sums are taken in double, where products are exact, and rounded once
// to the accumulator's type. A GPU aligns the products and the old sum to the largest of them, cuts what falls off
// below, and truncates the result; so with S = |c| + sum over k of |a||b| the two differ by at most
//   (k + 1) 2^-23 S  for f16, bf16 and tf32 operands, f32 sums
//   (k + 1) 2^-13 S  for fp8 operands (Hopper keeps about 14 bits while adding), f32 sums
//   2^-10 S more     for f16 sums
// and not at all where every partial sum is a small integer. The low 13 bits of a tf32 operand are ignored.
#include "ptx/machine/matrix.h"

#include <cstring>

#include "base/f16.h"

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

namespace {

template <class T, class F>
void decode_each(const void* elements, uint32_t count, double* to, uint32_t step, F value) {
  const auto* from = static_cast<const uint8_t*>(elements);
  for (uint32_t i = 0; i < count; ++i) {
    T x;
    std::memcpy(&x, from + i * sizeof(T), sizeof(T));
    to[i * step] = value(x);
  }
}

// All codes of an 8-bit format.
template <class T>
std::array<float, 256> values_of() {
  std::array<float, 256> v;
  for (uint32_t i = 0; i < 256; ++i) v[i] = to_f32(T{uint8_t(i)});
  return v;
}

// The one NaN the matrix units give.
float rounded(double x) { return x != x ? std::bit_cast<float>(0x7fffffffu) : float(x); }

}  // namespace

void decode(Type type, const void* elements, uint32_t count, double* to, uint32_t step) {
  static const std::array<float, 256> e4m3_values = values_of<e4m3>(), e5m2_values = values_of<e5m2>();
  switch (type) {
    case Type::f16:
      return decode_each<f16>(elements, count, to, step, [](f16 x) { return to_f32(x); });
    case Type::bf16:
      return decode_each<bf16>(elements, count, to, step, [](bf16 x) { return to_f32(x); });
    case Type::tf32:
      return decode_each<uint32_t>(elements, count, to, step,
                                   [](uint32_t x) { return std::bit_cast<float>(x & ~0x1fffu); });
    case Type::e4m3:
      return decode_each<uint8_t>(elements, count, to, step, [](uint8_t x) { return e4m3_values[x]; });
    case Type::e5m2:
      return decode_each<uint8_t>(elements, count, to, step, [](uint8_t x) { return e5m2_values[x]; });
    case Type::s8:
      return decode_each<int8_t>(elements, count, to, step, [](int8_t x) { return x; });
    case Type::u8:
      return decode_each<uint8_t>(elements, count, to, step, [](uint8_t x) { return x; });
    default:
      check(false, "a type that no matrix unit multiplies");
  }
}

void multiply(uint32_t m, uint32_t n, uint32_t k, const double* a, const double* b, double* sum) {
  for (uint32_t row = 0; row < m; row += 4)
    for (uint32_t col = 0; col < n; col += 8) {
      double part[4][8];  // stays in registers over all of k
      for (uint32_t r = 0; r < 4; ++r) std::memcpy(part[r], sum + (row + r) * n + col, sizeof part[r]);
      for (uint32_t i = 0; i < k; ++i) {
        const double* y = b + i * n + col;
        for (uint32_t r = 0; r < 4; ++r) {
          const double x = a[(row + r) * k + i];
          for (uint32_t j = 0; j < 8; ++j) part[r][j] += x * y[j];
        }
      }
      for (uint32_t r = 0; r < 4; ++r) std::memcpy(sum + (row + r) * n + col, part[r], sizeof part[r]);
    }
}

namespace {

// f(lane, place of its value in the (16, n) matrix) for register i of an accumulator of 32-bit sums.
template <class F>
void each_sum(uint32_t i, uint32_t n, F f) {
  const uint32_t corner = i / 2 % 2 * 8 * n + i / 4 * 8 + i % 2;
  for (uint32_t lane = 0; lane < 32; ++lane) f(lane, corner + lane / 4 * n + lane % 4 * 2);
}
// The same for a register of two f16 sums: the place of the first, the other one is right of it.
template <class F>
void each_pair(uint32_t i, uint32_t n, F f) {
  const uint32_t corner = i % 2 * 8 * n + i / 2 * 8;
  for (uint32_t lane = 0; lane < 32; ++lane) f(lane, corner + lane / 4 * n + lane % 4 * 2);
}

}  // namespace

void load_accumulator(const Warp& w, Type type, const uint32_t* rows, size_t count, uint32_t n, double* sum) {
  for (uint32_t i = 0; i < count; ++i) {
    if (type == Type::f32)
      each_sum(i, n, [&, v = w.read<float>(rows[i])](uint32_t lane, uint32_t at) { sum[at] = v[lane]; });
    else if (type == Type::s32)
      each_sum(i, n, [&, v = w.read<int32_t>(rows[i])](uint32_t lane, uint32_t at) { sum[at] = v[lane]; });
    else
      each_pair(i, n, [&, v = w.read<uint32_t>(rows[i])](uint32_t lane, uint32_t at) {
        sum[at] = to_f32(f16{uint16_t(v[lane])});
        sum[at + 1] = to_f32(f16{uint16_t(v[lane] >> 16)});
      });
  }
}

void store_accumulator(Warp& w, Type type, const uint32_t* rows, size_t count, uint32_t n, const double* sum) {
  for (uint32_t i = 0; i < count; ++i) {
    if (type == Type::f32)
      each_sum(i, n, [&, v = w.write<float>(rows[i])](uint32_t lane, uint32_t at) { v[lane] = rounded(sum[at]); });
    else if (type == Type::s32)
      each_sum(i, n, [&, v = w.write<uint32_t>(rows[i])](uint32_t lane, uint32_t at) {
        v[lane] = uint32_t(int64_t(sum[at]));
      });
    else
      each_pair(i, n, [&, v = w.write<uint32_t>(rows[i])](uint32_t lane, uint32_t at) {
        v[lane] = heddle::to_f16(sum[at]).bits | uint32_t(heddle::to_f16(sum[at + 1]).bits) << 16;
      });
  }
}

void load_fragment(const Warp& w, Type type, const uint32_t* rows, uint32_t count, uint32_t words, double* a) {
  uint32_t matrix[16 * 8];  // (16, words): k elements are at most 32 bytes
  for (uint32_t r = 0; r < count; ++r)
    for (uint32_t lane = 0; lane < 32; ++lane)
      matrix[(lane / 4 + r % 2 * 8) * words + r / 2 * 4 + lane % 4] = w.read<uint32_t>(rows[r])[lane];
  const uint32_t height = count == 1 ? 8 : 16;
  decode(type, matrix, height * words * 4 / size_of(type), a, 1);
}

}  // namespace heddle::ptx::machine
