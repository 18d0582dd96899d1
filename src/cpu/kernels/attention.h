// One KV block for some rows of a sequence: scores, online softmax, sum of values. Keys lie with positions innermost,
// so that a vector holds the scores of neighbouring positions. Few queries read the block as it is in the cache, for
// many it is decoded to f32 first: both ways give the same bits.
#pragma once
#include "cpu/isa.h"
#include "cpu/kernels/attention_block.h"
#include "cpu/kernels/vector.h"

namespace heddle::cpu {
namespace {

// One query at one block: the row's head number `index` sees positions first..end - 1 of the block.
struct AttendQuery {
  const float* q;
  uint64_t index;
  uint32_t first, end;
  float slope, place;  // place: of the row, counted from the beginning of the block
};

// sum[c] += x[c][i] * column i, for i from 0 to size - 1.
template <class V, int count, int wide, class Columns>
HEDDLE_INLINE void multiply_add(Columns columns, const float* const (&x)[count], uint32_t size,
                                typename V::F (&sum)[count][wide]) {
  using F = typename V::F;
  if (size == 0) return;
  uint32_t i = 0;
  if constexpr (has_fma_lane<V>) {
    // Four numbers of x in one load, and each column is read before the products of the one before it: with these in
    // its queue, a Neoverse V1 would see the load too late.
    F column[2][wide];
    columns.read(column[0]);
    for (; i + 4 <= size; i += 4) {
      F factors[count];
      each<count>([&](auto c) HEDDLE_INLINE_LAMBDA { factors[HEDDLE_VALUE(c)] = load<F>(x[HEDDLE_VALUE(c)] + i); });
      each<4>([&](auto lane) HEDDLE_INLINE_LAMBDA {
        constexpr int now = HEDDLE_VALUE(lane) % 2;
        columns.advance(HEDDLE_VALUE(lane) < 3 || i + 4 < size);
        columns.read(column[1 - now]);
        if constexpr (now == 1) columns.template prefetch_ahead<2 * wide * lanes<V>>();
        each<count>([&](auto c) HEDDLE_INLINE_LAMBDA {
          each<wide>([&](auto v) HEDDLE_INLINE_LAMBDA {
            F& to = sum[HEDDLE_VALUE(c)][HEDDLE_VALUE(v)];
            to = V::template fma_lane<HEDDLE_VALUE(lane)>(factors[HEDDLE_VALUE(c)], column[now][HEDDLE_VALUE(v)], to);
          });
        });
      });
    }
  }
  for (; i < size; ++i) {
    F column[wide];
    columns.read(column);
    columns.advance(true);
    if constexpr (!has_fma_lane<V>) columns.template prefetch_ahead<wide * lanes<V>>();
    each<count>([&](auto c) HEDDLE_INLINE_LAMBDA {
      const F factor = all<V>(x[HEDDLE_VALUE(c)][i]);
      each<wide>([&](auto v) HEDDLE_INLINE_LAMBDA {
        F& to = sum[HEDDLE_VALUE(c)][HEDDLE_VALUE(v)];
        to = V::fma(factor, column[HEDDLE_VALUE(v)], to);
      });
    });
  }
}

// The scores of `count` queries at `wide` vectors of positions.
template <class V, int count, int wide, class Block>
HEDDLE_INLINE void score_positions(const AttendHead& head, const Block& block, const AttendQuery* queries,
                                   uint32_t position, float* scores) {
  typename V::F sum[count][wide] = {};
  const uint32_t group = Block::group < head.head ? Block::group : head.head;
  for (uint32_t first = 0; first < head.head; first += group) {
    const float* q[count];
    each<count>([&](auto c) HEDDLE_INLINE_LAMBDA { q[HEDDLE_VALUE(c)] = queries[HEDDLE_VALUE(c)].q + first; });
    const uint32_t size = head.head - first < group ? head.head - first : group;
    multiply_add<V>(block.keys(position, first), q, size, sum);
  }
  const float scale = head.scale;
  const uint32_t stride = head.stride;
  each<count>([&](auto c) HEDDLE_INLINE_LAMBDA {
    each<wide>([&](auto v) HEDDLE_INLINE_LAMBDA {
      store(scores + uint32_t(HEDDLE_VALUE(c)) * stride + position + HEDDLE_VALUE(v) * lanes<V>,
            sum[HEDDLE_VALUE(c)][HEDDLE_VALUE(v)] * scale);
    });
  });
}

// scores (count, stride) of `count` queries. The stride is a multiple of 16; sums of 32 positions hide the latency of
// wide vectors.
template <class V, int count, class Block>
HEDDLE_INLINE void scores_of(const AttendHead& head, const Block& block, const AttendQuery* queries, float* scores) {
  uint32_t t = 0;
  if constexpr (lanes<V> == 16)
    for (; t + 32 <= head.stride; t += 32) score_positions<V, count, 2>(head, block, queries, t, scores);
  for (; t < head.stride; t += 16) score_positions<V, count, 16 / lanes<V>>(head, block, queries, t, scores);
}

// Softcap, slopes and the positions that a query does not see.
template <class V>
HEDDLE_INLINE void change_scores(const AttendHead& head, const AttendQuery& query, float* scores) {
  using F = typename V::F;
  if (head.softcap != 0)
    for (uint32_t t = 0; t < head.stride; t += lanes<V>)
      store(scores + t, head.softcap * tangent<V>(load<F>(scores + t) * (1 / head.softcap)));
  if (head.slopes)
    for (uint32_t t = 0; t < head.stride; ++t) scores[t] -= query.slope * __builtin_fabsf(query.place - float(t));
  for (uint32_t t = 0; t < query.first; ++t) scores[t] = -__builtin_inff();
  for (uint32_t t = query.end; t < head.stride; ++t) scores[t] = -__builtin_inff();
}

// Scores of the positions that the queries see become weights and are added to the states; factors are those for `out`.
// Not inlined: its constants would not stay in registers beside the sums of products.
template <class V, int count>
__attribute__((noinline)) void add_scores(const AttendHead& head, const AttendQuery* queries, float* scores,
                                          Softmax* softmax, float (&factors)[lanes<V>]) {
  using F = typename V::F;
  using I = typename V::I;
  static_assert(count <= lanes<V>);
  const uint32_t stride = head.stride;
  F best[count], sum[count] = {};
  float largest[count];
  each<count>([&](auto c) HEDDLE_INLINE_LAMBDA {
    float* at = scores + uint32_t(HEDDLE_VALUE(c)) * stride;
    change_scores<V>(head, queries[HEDDLE_VALUE(c)], at);
    best[HEDDLE_VALUE(c)] = load<F>(at);
  });
  for (uint32_t t = lanes<V>; t < stride; t += lanes<V>)
    each<count>([&](auto c) HEDDLE_INLINE_LAMBDA {
      F& to = best[HEDDLE_VALUE(c)];
      to = larger<V>(to, load<F>(scores + uint32_t(HEDDLE_VALUE(c)) * stride + t));
    });
  each<count>([&](auto c) HEDDLE_INLINE_LAMBDA {
    const float before = softmax[queries[HEDDLE_VALUE(c)].index].largest, here = largest_of<V>(best[HEDDLE_VALUE(c)]);
    largest[HEDDLE_VALUE(c)] = here > before ? here : before;
    factors[HEDDLE_VALUE(c)] = before - largest[HEDDLE_VALUE(c)];
  });
  for (uint32_t t = 0; t < stride; t += lanes<V>) {
    F weights[count];
    each<count>([&](auto c) HEDDLE_INLINE_LAMBDA {
      const F score = load<F>(scores + uint32_t(HEDDLE_VALUE(c)) * stride + t) - largest[HEDDLE_VALUE(c)];
      // (e^-87 in place of 0 is lost in the sum, which has a 1)
      weights[HEDDLE_VALUE(c)] = choose<V>((I)(score < -87.0f), all<V>(-87.0f), score);
    });
    exponentials_within<V>(weights);
    each<count>([&](auto c) HEDDLE_INLINE_LAMBDA {
      store(scores + uint32_t(HEDDLE_VALUE(c)) * stride + t, weights[HEDDLE_VALUE(c)]);
      sum[HEDDLE_VALUE(c)] += weights[HEDDLE_VALUE(c)];
    });
  }
  store(factors, exponential<V>(load<F>(factors)));
  each<count>([&](auto c) HEDDLE_INLINE_LAMBDA {
    Softmax& state = softmax[queries[HEDDLE_VALUE(c)].index];
    state = {largest[HEDDLE_VALUE(c)], state.sum * factors[HEDDLE_VALUE(c)] + sum_of<V>(sum[HEDDLE_VALUE(c)])};
  });
}

// out = out * factor + values by their weights, of positions first..end - 1.
struct AddValues {
  const float* weights;  // (queries, stride)
  const float* factors;
  uint32_t first, end;
};
// For `count` queries and `wide` vectors of each value, from `dimension` on.
template <class V, int count, int wide, class Block>
HEDDLE_INLINE void add_values(const AttendHead& head, const Block& block, const AttendQuery* queries,
                              const AddValues& add, uint32_t dimension, float* out) {
  using F = typename V::F;
  F sum[count][wide];
  const float* weights[count];
  float* to[count];
  each<count>([&](auto c) HEDDLE_INLINE_LAMBDA {
    constexpr uint32_t query = HEDDLE_VALUE(c);
    weights[query] = add.weights + query * head.stride + add.first;
    to[query] = out + queries[query].index * head.value_head + dimension;
    each<wide>([&](auto v) HEDDLE_INLINE_LAMBDA {
      sum[query][HEDDLE_VALUE(v)] = load<F>(to[query] + HEDDLE_VALUE(v) * lanes<V>) * add.factors[query];
    });
  });
  multiply_add<V>(block.values(add.first, dimension), weights, add.end - add.first, sum);
  each<count>([&](auto c) HEDDLE_INLINE_LAMBDA {
    each<wide>([&](auto v) HEDDLE_INLINE_LAMBDA {
      store(to[HEDDLE_VALUE(c)] + HEDDLE_VALUE(v) * lanes<V>, sum[HEDDLE_VALUE(c)][HEDDLE_VALUE(v)]);
    });
  });
}
// For whole values.
template <class V, int count, class Block>
HEDDLE_INLINE void add_whole_values(const AttendHead& head, const Block& block, const AttendQuery* queries,
                                    const AddValues& add, float* out) {
  constexpr int wide = lanes<V> == 8 ? 2 : 4;  // as many sums as there are registers for
  uint32_t v = 0;
  for (; v + wide * lanes<V> <= head.value_head; v += wide * lanes<V>)
    add_values<V, count, wide>(head, block, queries, add, v, out);
  if constexpr (lanes<V> == 16)
    for (; v + 16 <= head.value_head; v += 16) add_values<V, count, 1>(head, block, queries, add, v, out);
  if constexpr (Block::any_size) {
    for (; v + lanes<V> <= head.value_head; v += lanes<V>) add_values<V, count, 1>(head, block, queries, add, v, out);
    for (; v < head.value_head; ++v)
      for (int c = 0; c < count; ++c) {
        float& to = out[queries[c].index * head.value_head + v];
        to *= add.factors[c];
        for (uint32_t t = add.first; t < add.end; ++t)
          to += add.weights[uint32_t(c) * head.stride + t] * block.value(t, v);
      }
  }
}

// Scores, softmax and values of `count` queries that see some of the block.
template <class V, int count, class Block>
HEDDLE_INLINE void attend_queries(const AttendHead& head, const Block& block, const AttendQuery* queries, float* scores,
                                  Softmax* softmax, float* out) {
  scores_of<V, count>(head, block, queries, scores);
  float factors[lanes<V>] = {};
  add_scores<V, count>(head, queries, scores, softmax, factors);
  bool same = true;
  for (int c = 1; c < count; ++c)
    same = same && queries[c].first == queries[0].first && queries[c].end == queries[0].end;
  if (same)
    return add_whole_values<V, count>(head, block, queries, {scores, factors, queries[0].first, queries[0].end}, out);
  for (int c = 0; c < count; ++c)
    add_whole_values<V, 1>(head, block, queries + c,
                           {scores + uint32_t(c) * head.stride, factors + c, queries[c].first, queries[c].end}, out);
}

// The queries of all rows that see some of the block.
template <class V, class Block>
void attend_block(const AttendHead& head, const Block& block, uint32_t first_position, const AttendRow* rows,
                  uint32_t count, float* scores, Softmax* softmax, float* out) {
  AttendQuery queries[attend_at_once];
  uint32_t waiting = 0;
  for (uint32_t r = 0; r < count; ++r) {
    const AttendRow& row = rows[r];
    if (first_position > row.last || first_position + head.tokens <= row.first) continue;
    const uint32_t first = row.first > first_position ? row.first - first_position : 0;
    const uint32_t end = row.last - first_position < head.tokens ? row.last - first_position + 1 : head.tokens;
    for (uint32_t h = 0; h < head.group; ++h) {
      queries[waiting++] = {row.q + uint64_t(h) * head.head,
                            uint64_t(r) * head.group + h,
                            first,
                            end,
                            head.slopes ? head.slopes[h] : 0,
                            float(int32_t(row.position - first_position))};
      if (waiting < attend_at_once) continue;
      attend_queries<V, attend_at_once>(head, block, queries, scores, softmax, out);
      waiting = 0;
    }
  }
  static_assert(attend_at_once == 4);
  if (waiting == 3) return attend_queries<V, 3>(head, block, queries, scores, softmax, out);
  if (waiting == 2) return attend_queries<V, 2>(head, block, queries, scores, softmax, out);
  if (waiting == 1) attend_queries<V, 1>(head, block, queries, scores, softmax, out);
}

template <class V>
void attend(const AttendHead& head, const KvBlock& block, const KvBlock& next, const AttendRow* rows, uint32_t count,
            Softmax* softmax, float* out, float* scratch) {
  float* scores = scratch;  // (attend_at_once, stride)
  scratch += uint64_t(attend_at_once) * head.stride;
  // Columns of blocks in the cache are 16 values.
  constexpr uint32_t few_queries = 8;
  if (uint64_t(count) * head.group <= few_queries && !head.values_in_keys && head.value_head % 16 == 0) {
    if (block.key_scales)
      attend_block<V>(head, ByteBlock<V>(head, block, next, scratch), block.first, rows, count, scores, softmax, out);
    else
      attend_block<V>(head, half_block<V>(head, block, next), block.first, rows, count, scores, softmax, out);
    return;
  }
  attend_block<V>(head, decoded<V>(head, block, scratch), block.first, rows, count, scores, softmax, out);
}

template <class V>
void merge(uint32_t value_head, Softmax* a, float* a_out, const Softmax* b, const float* b_out) {
  if (b->sum == 0) return;
  const float largest = a->largest > b->largest ? a->largest : b->largest;
  const auto keep = exponential<V>(all<V>(a->largest - largest)), take = exponential<V>(all<V>(b->largest - largest));
  const float a_factor = keep[0], b_factor = take[0];
  for (uint32_t i = 0; i < value_head; ++i) a_out[i] = a_out[i] * a_factor + b_out[i] * b_factor;
  *a = {largest, a->sum * a_factor + b->sum * b_factor};
}

template <class V>
void fill_attention(Isa& isa) {
  isa.attend = attend<V>;
  isa.merge = merge<V>;
}

}  // namespace
}  // namespace heddle::cpu
