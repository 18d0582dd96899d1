// What the matrix units multiply, as numbers: operands and accumulators of any type, decoded to double and back.
// A double holds every operand, every product of two operands and every s32 sum exactly.
#pragma once
#include "ptx/machine/machine.h"

namespace heddle::ptx::machine {

// `count` neighbouring elements of `type` (f16, bf16, tf32, e4m3, e5m2, s8 or u8); element i goes to to[i * step].
void decode(Type type, const void* elements, uint32_t count, double* to, uint32_t step);

// sum += a * b. m is a multiple of 4, n of 8.
void multiply(uint32_t m, uint32_t n, uint32_t k, const double* a, const double* b,  // (m, k), (k, n)
              double* sum);                                                          // (m, n)

// A warp's accumulator: lane 4g + t holds, in each 8 x 8 piece, columns 2t and 2t + 1 of row g; pieces follow each
// other down (two of them, one for m = 8) and then to the right. A register is one f32 or s32, or both columns as f16.
void load_accumulator(const Warp& w, Type type, const uint32_t* rows, size_t count, uint32_t n,
                      double* sum);  // (16, n)
// One rounding to nearest; s32 wraps.
void store_accumulator(Warp& w, Type type, const uint32_t* rows, size_t count, uint32_t n, const double* sum);

// A warp's share of A: register r holds, in lane 4g + t, the 32-bit word 4 * (r / 2) + t of row g + 8 * (r % 2).
// `words` is the number of 32-bit words in a row of k elements.
void load_fragment(const Warp& w, Type type, const uint32_t* rows, uint32_t count, uint32_t words,
                   double* a);  // (16, k)

// matrix units are of the whole warp
inline void need_all_lanes(const Warp& w) {
  if (w.mask != ~0u)
    w.fail(
        Report::Kind::barrier_divergence, w.first_active(),
        fmt::format("{} needs all 32 lanes, but only those in mask {:#010x} are here", name(w.at->inst->op), w.mask));
}
// The value of a row whose lanes must agree.
template <class T>
T one_value(const Warp& w, uint32_t row, const char* what) {
  const T* v = w.read<T>(row);
  for (uint32_t lane = 1; lane < 32; ++lane)
    if (v[lane] != v[0])
      w.fail(Report::Kind::not_uniform, lane,
             fmt::format("{}: the {} is {:#x} in lane 0 and {:#x} in lane {}", name(w.at->inst->op), what, v[0],
                         v[lane], lane));
  return v[0];
}

}  // namespace heddle::ptx::machine
