// One KV block for some rows of a sequence: scores, online softmax, sum of values. Keys lie with positions innermost,
// so that a vector holds the scores of neighbouring positions.
#pragma once
#include "cpu/isa.h"
#include "cpu/kernels/vector.h"
#include "quant/half.h"
#include "quant/kv_q8.h"

namespace heddle::cpu {
namespace {

// One query at one block: the row's head number `index` sees positions first..end - 1 of the block.
struct AttendQuery {
  const float* q;
  uint64_t index;
  uint32_t first, end;
  float slope, place;  // place: of the row, counted from the beginning of the block
};

// The scores of `count` queries at `wide` vectors of positions.
template <class V, int count, int wide>
HEDDLE_INLINE void score_positions(const AttendHead& head, const AttendQuery* queries, const float* keys,
                                   float* scores) {
  using F = typename V::F;
  F sum[count][wide] = {};
  for (uint32_t i = 0; i < head.head; ++i, keys += head.stride) {
    F key[wide];
    for (int v = 0; v < wide; ++v) key[v] = load<F>(keys + v * lanes<V>);
    for (int c = 0; c < count; ++c) {
      const F q = all<V>(queries[c].q[i]);
      for (int v = 0; v < wide; ++v) sum[c][v] = V::fma(q, key[v], sum[c][v]);
    }
  }
  for (int c = 0; c < count; ++c)
    for (int v = 0; v < wide; ++v) {
      F score = sum[c][v] * head.scale;
      if (head.softcap != 0) score = head.softcap * tangent<V>(score * (1 / head.softcap));
      store(scores + uint32_t(c) * head.stride + uint32_t(v * lanes<V>), score);
    }
}

// scores (count, stride) of `count` queries. The stride is a multiple of 16; sums of 32 positions hide the latency of
// wide vectors.
template <class V, int count>
HEDDLE_INLINE void scores_of(const AttendHead& head, const AttendQuery* queries, const float* keys, float* scores) {
  uint32_t t = 0;
  if constexpr (lanes<V> == 16)
    for (; t + 32 <= head.stride; t += 32) score_positions<V, count, 2>(head, queries, keys + t, scores + t);
  for (; t < head.stride; t += 16) score_positions<V, count, 16 / lanes<V>>(head, queries, keys + t, scores + t);
}

// Scores of positions first..end - 1 of the block become weights and are added to the state. Returns the factor for
// `out`.
template <class V>
HEDDLE_INLINE float add_scores(uint32_t first, uint32_t end, uint32_t stride, float* scores, Softmax& state) {
  using F = typename V::F;
  const float minus_infinity = -__builtin_inff();
  for (uint32_t t = 0; t < first; ++t) scores[t] = minus_infinity;
  for (uint32_t t = end; t < stride; ++t) scores[t] = minus_infinity;
  F best = load<F>(scores);
  for (uint32_t t = lanes<V>; t < stride; t += lanes<V>) best = larger<V>(best, load<F>(scores + t));
  float largest = largest_of<V>(best);
  largest = largest > state.largest ? largest : state.largest;
  F sum{};
  for (uint32_t t = 0; t < stride; t += lanes<V>) {
    const F weight = exponential<V>(load<F>(scores + t) - largest);
    store(scores + t, weight);
    sum += weight;
  }
  const F keep = exponential<V>(all<V>(state.largest - largest));
  const float factor = keep[0];
  state = {largest, state.sum * factor + sum_of<V>(sum)};
  return factor;
}

// out = out * factor + the values of the positions that the queries see by their weights, for `count` queries that see
// the same positions and `wide` vectors of each value.
template <class V, int count, int wide>
HEDDLE_INLINE void add_values(const AttendHead& head, const AttendQuery* queries, const float* values,
                              const float* weights, const float* factors, float* out) {
  using F = typename V::F;
  F sum[count][wide];
  for (int c = 0; c < count; ++c)
    for (int v = 0; v < wide; ++v)
      sum[c][v] = load<F>(out + queries[c].index * head.value_head + v * lanes<V>) * factors[c];
  for (uint32_t t = queries[0].first; t < queries[0].end; ++t) {
    F value[wide];
    for (int v = 0; v < wide; ++v) value[v] = load<F>(values + t * head.value_head + v * lanes<V>);
    for (int c = 0; c < count; ++c) {
      const F weight = all<V>(weights[uint32_t(c) * head.stride + t]);
      for (int v = 0; v < wide; ++v) sum[c][v] = V::fma(weight, value[v], sum[c][v]);
    }
  }
  for (int c = 0; c < count; ++c)
    for (int v = 0; v < wide; ++v) store(out + queries[c].index * head.value_head + v * lanes<V>, sum[c][v]);
}
// The same for whole values.
template <class V, int count>
HEDDLE_INLINE void add_all_values(const AttendHead& head, const AttendQuery* queries, const float* values,
                                  const float* weights, const float* factors, float* out) {
  constexpr int wide = lanes<V> == 8 ? 2 : 4;  // as many sums as there are registers for
  uint32_t v = 0;
  for (; v + wide * lanes<V> <= head.value_head; v += wide * lanes<V>)
    add_values<V, count, wide>(head, queries, values + v, weights, factors, out + v);
  for (; v + lanes<V> <= head.value_head; v += lanes<V>)
    add_values<V, count, 1>(head, queries, values + v, weights, factors, out + v);
  for (; v < head.value_head; ++v)
    for (int c = 0; c < count; ++c) {
      float& to = out[queries[c].index * head.value_head + v];
      to *= factors[c];
      for (uint32_t t = queries[c].first; t < queries[c].end; ++t)
        to += weights[uint32_t(c) * head.stride + t] * values[t * head.value_head + v];
    }
}

// The keys (head, stride) and values (tokens, value_head) of a block as f32; values that are in the keys are left to
// attend().
template <class V>
HEDDLE_INLINE void decode_f16(const AttendHead& head, const KvBlock& block, float* keys, float* values) {
  const auto *from_keys = static_cast<const uint16_t*>(block.keys),
             *from_values = static_cast<const uint16_t*>(block.values);
  for (uint32_t i = 0; i < head.head * head.stride; i += lanes<V>) store(keys + i, V::half(from_keys + i));
  if (head.values_in_keys) return;
  uint32_t i = 0;
  const uint32_t size = head.tokens * head.value_head;
  for (; i + lanes<V> <= size; i += lanes<V>) store(values + i, V::half(from_values + i));
  for (; i < size; ++i) values[i] = quant::f32_of_f16(from_values[i]);
}
template <class V>
HEDDLE_INLINE void decode_q8(const AttendHead& head, const KvBlock& block, float* keys, float* values) {
  using F = typename V::F;
  constexpr uint32_t wide = 16 / lanes<V>;
  const auto *from_keys = static_cast<const int8_t*>(block.keys),
             *from_values = static_cast<const int8_t*>(block.values);
  const auto put = [](const int8_t* from, const F* scales, float* to) HEDDLE_INLINE_LAMBDA {
    F bytes[wide];
    V::sixteen(from, bytes);
    for (uint32_t v = 0; v < wide; ++v) store(to + v * lanes<V>, bytes[v] * scales[v]);
  };
  const uint32_t group = quant::kv_q8_values;
  for (uint32_t g = 0; g < head.head; g += group)  // a scale for each position
    for (uint32_t t = 0; t < head.stride; t += 16) {
      F scales[wide];
      for (uint32_t v = 0; v < wide; ++v)
        scales[v] = V::half(block.key_scales + g / group * head.stride + t + v * lanes<V>);
      const uint32_t end = g + group < head.head ? g + group : head.head;
      for (uint32_t i = g; i < end; ++i) put(from_keys + i * head.stride + t, scales, keys + i * head.stride + t);
    }
  if (head.values_in_keys) return;
  const uint16_t* value_scales = block.value_scales;
  for (uint32_t t = 0; t < head.tokens; ++t, from_values += head.value_head, values += head.value_head)
    for (uint32_t g = 0; g < head.value_head; g += group, ++value_scales) {
      const float scale = quant::f32_of_f16(*value_scales);
      F scales[wide];
      for (F& one : scales) one = all<V>(scale);
      const uint32_t end = g + group < head.value_head ? g + group : head.value_head;
      uint32_t i = g;
      for (; i + 16 <= end; i += 16) put(from_values + i, scales, values + i);
      for (; i < end; ++i) values[i] = float(from_values[i]) * scale;
    }
}

// Scores, softmax and values of `count` queries that see some of the block.
template <class V, int count>
HEDDLE_INLINE void attend_queries(const AttendHead& head, const AttendQuery* queries, const float* keys,
                                  const float* values, float* scores, Softmax* softmax, float* out) {
  scores_of<V, count>(head, queries, keys, scores);
  float factors[count];
  bool same = true;
  for (int c = 0; c < count; ++c) {
    const AttendQuery& query = queries[c];
    float* weights = scores + uint32_t(c) * head.stride;
    if (head.slopes)
      for (uint32_t t = 0; t < head.stride; ++t) weights[t] -= query.slope * __builtin_fabsf(query.place - float(t));
    factors[c] = add_scores<V>(query.first, query.end, head.stride, weights, softmax[query.index]);
    same = same && query.first == queries[0].first && query.end == queries[0].end;
  }
  if (same) return add_all_values<V, count>(head, queries, values, scores, factors, out);
  for (int c = 0; c < count; ++c)
    add_all_values<V, 1>(head, queries + c, values, scores + uint32_t(c) * head.stride, factors + c, out);
}

template <class V>
void attend(const AttendHead& head, const KvBlock& block, const AttendRow* rows, uint32_t count, Softmax* softmax,
            float* out, float* scratch) {
  float* keys = scratch;                                             // (head, stride)
  float* values = keys + uint64_t(head.head) * head.stride;          // (tokens, value_head)
  float* scores = values + uint64_t(head.tokens) * head.value_head;  // (attend_at_once, stride)
  if (block.key_scales)
    decode_q8<V>(head, block, keys, values);
  else
    decode_f16<V>(head, block, keys, values);
  if (head.values_in_keys)
    for (uint32_t t = 0; t < head.tokens; ++t)
      for (uint32_t i = 0; i < head.value_head; ++i) values[t * head.value_head + i] = keys[i * head.stride + t];

  AttendQuery queries[attend_at_once];
  uint32_t waiting = 0;
  for (uint32_t r = 0; r < count; ++r) {
    const AttendRow& row = rows[r];
    if (block.first > row.last || block.first + head.tokens <= row.first) continue;
    const uint32_t first = row.first > block.first ? row.first - block.first : 0;
    const uint32_t end = row.last - block.first < head.tokens ? row.last - block.first + 1 : head.tokens;
    for (uint32_t h = 0; h < head.group; ++h) {
      queries[waiting++] = {row.q + uint64_t(h) * head.head,
                            uint64_t(r) * head.group + h,
                            first,
                            end,
                            head.slopes ? head.slopes[h] : 0,
                            float(int32_t(row.position - block.first))};
      if (waiting < attend_at_once) continue;
      attend_queries<V, attend_at_once>(head, queries, keys, values, scores, softmax, out);
      waiting = 0;
    }
  }
  for (uint32_t i = 0; i < waiting; ++i) attend_queries<V, 1>(head, queries + i, keys, values, scores, softmax, out);
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
