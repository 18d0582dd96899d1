// The states of heads: one step after the other, for some columns of a head at a time. A column (one value of the head)
// depends on no other, and stays in the first cache for all rows.
#pragma once
#include "cpu/isa.h"
#include "cpu/kernels/vector.h"

namespace heddle::cpu {
namespace {

// `wide` vectors of columns: state (keys, stride).
template <class V, int wide>
HEDDLE_INLINE void recur_columns(const RecurHead& head, float* state, uint64_t column, const RecurRow* rows,
                                 uint32_t count) {
  using F = typename V::F;
  constexpr int step = lanes<V>;
  for (uint32_t r = 0; r < count; ++r) {
    const RecurRow& row = rows[r];
    F u[wide], sum[wide] = {};
    for (int w = 0; w < wide; ++w) u[w] = load<F>(row.v + column + w * step);
    if (head.delta) {
      F known[wide] = {};
      for (uint32_t i = 0; i < head.keys; ++i)
        for (int w = 0; w < wide; ++w)
          known[w] = V::fma(all<V>(row.k[i]), load<F>(state + uint64_t(i) * head.stride + w * step), known[w]);
      for (int w = 0; w < wide; ++w) u[w] = V::fma(all<V>(-row.decay), known[w], u[w]);
    }
    for (int w = 0; w < wide; ++w) u[w] *= row.factor;
    for (uint32_t i = 0; i < head.keys; ++i)
      for (int w = 0; w < wide; ++w) {
        float* s = state + uint64_t(i) * head.stride + w * step;
        const F next = V::fma(all<V>(row.k[i]), u[w], load<F>(s) * row.decay);
        store(s, next);
        sum[w] = V::fma(all<V>(row.q[i]), next, sum[w]);
      }
    for (int w = 0; w < wide; ++w) store(row.out + column + w * step, sum[w]);
  }
}

inline void recur_column(const RecurHead& head, float* state, uint64_t column, const RecurRow* rows, uint32_t count) {
  for (uint32_t r = 0; r < count; ++r) {
    const RecurRow& row = rows[r];
    float u = row.v[column], sum = 0;
    if (head.delta) {
      float known = 0;
      for (uint32_t i = 0; i < head.keys; ++i) known += row.k[i] * state[uint64_t(i) * head.stride];
      u -= row.decay * known;
    }
    u *= row.factor;
    for (uint32_t i = 0; i < head.keys; ++i) {
      float& s = state[uint64_t(i) * head.stride];
      s = row.decay * s + row.k[i] * u;
      sum += row.q[i] * s;
    }
    row.out[column] = sum;
  }
}

template <class V>
void recur(const RecurHead& head, float* state, uint32_t first, uint32_t columns, const RecurRow* rows,
           uint32_t count) {
  constexpr uint32_t wide = V::has_eight_rows ? 8 : 4, step = uint32_t(lanes<V>);  // sums in registers
  const uint32_t end = first + columns;
  uint32_t c = first;
  for (; c + wide * step <= end; c += wide * step) recur_columns<V, int(wide)>(head, state + c, c, rows, count);
  for (; c + step <= end; c += step) recur_columns<V, 1>(head, state + c, c, rows, count);
  for (; c < end; ++c) recur_column(head, state + c, c, rows, count);
}

template <class V>
void fill_recurrence(Isa& isa) {
  isa.recur = recur<V>;
}

}  // namespace
}  // namespace heddle::cpu
