// How attention reads a KV block: as f32, as f16, or as int8 with scales. Columns are what it multiplies with numbers:
// some neighbouring positions of one dimension of the keys, or some neighbouring dimensions of one position's values.
#pragma once
#include "cpu/isa.h"
#include "cpu/kernels/vector.h"
#include "quant/half.h"
#include "quant/kv_q8.h"

namespace heddle::cpu {
namespace {

// `wide` vectors of f32 or f16 (uint16_t).
template <class V, class T, int wide>
HEDDLE_INLINE void read_floats(const T* from, typename V::F (&to)[wide]) {
  if constexpr (sizeof(T) == 2 && wide % 2 == 0 && has_two_halves<V>)
    each<wide / 2>([&](auto v) HEDDLE_INLINE_LAMBDA {
      V::two_halves(from + 2 * HEDDLE_VALUE(v) * lanes<V>, to + 2 * HEDDLE_VALUE(v));
    });
  else
    each<wide>([&](auto v) HEDDLE_INLINE_LAMBDA {
      if constexpr (sizeof(T) == 2)
        to[HEDDLE_VALUE(v)] = V::half(from + HEDDLE_VALUE(v) * lanes<V>);
      else
        to[HEDDLE_VALUE(v)] = load<typename V::F>(from + HEDDLE_VALUE(v) * lanes<V>);
    });
}

// While some bytes of a block are read, as many of the next one are brought to L2: blocks lie anywhere, so a processor
// does not foresee them. One by one, between the products: on a Neoverse V1 decode over 64 MB of f16 is 1.4 times as
// fast as without it, all of them at the beginning of a block are 1.1 times, and L1 in place of L2 1.2 times.
template <int bytes>
HEDDLE_INLINE void prefetch_next(const uint8_t*& ahead) {
  prefetch(ahead, bytes);
  ahead += bytes;
}

// Columns of f32 or f16.
template <class V, class T>
struct PlainColumns {
  const T* at;
  uint32_t stride;
  const uint8_t* ahead;
  template <int wide>
  HEDDLE_INLINE void read(typename V::F (&to)[wide]) const {
    read_floats<V>(at, to);
  }
  HEDDLE_INLINE void advance(bool really) { at += really ? stride : 0; }
  template <int values>
  HEDDLE_INLINE void prefetch_ahead() {
    if constexpr (sizeof(T) == 2) prefetch_next<2 * values>(ahead);  // f32 is scratch
  }
};

template <class V, class T>
struct PlainBlock {
  static constexpr uint32_t group = ~0u;            // dimensions that share a scale; here: none has one
  static constexpr bool any_size = sizeof(T) == 4;  // values need not be a multiple of 16
  const AttendHead& head;
  const T *all_keys, *all_values;          // (head, stride), (tokens, value_head)
  const uint8_t *next_keys, *next_values;  // of the block that is prefetched

  HEDDLE_INLINE PlainColumns<V, T> keys(uint32_t position, uint32_t dimension) const {
    return {all_keys + uint64_t(dimension) * head.stride + position, head.stride,
            next_keys + uint64_t(position) * head.head * sizeof(T)};
  }
  HEDDLE_INLINE PlainColumns<V, T> values(uint32_t position, uint32_t dimension) const {
    return {all_values + uint64_t(position) * head.value_head + dimension, head.value_head,
            next_values + uint64_t(dimension) * head.tokens * sizeof(T)};
  }
  HEDDLE_INLINE float value(uint32_t position, uint32_t dimension) const {
    return all_values[uint64_t(position) * head.value_head + dimension];
  }
};
template <class V>
HEDDLE_INLINE PlainBlock<V, uint16_t> half_block(const AttendHead& head, const KvBlock& block, const KvBlock& next) {
  return {head, static_cast<const uint16_t*>(block.keys), static_cast<const uint16_t*>(block.values),
          static_cast<const uint8_t*>(next.keys), static_cast<const uint8_t*>(next.values)};
}

// `wide` vectors of int8 as f32; 16 at a time.
template <class V, int wide>
HEDDLE_INLINE void read_bytes(const int8_t* from, typename V::F (&to)[wide]) {
  constexpr int of_sixteen = 16 / lanes<V>;
  static_assert(wide % of_sixteen == 0);
  each<wide / of_sixteen>([&](auto i) HEDDLE_INLINE_LAMBDA {
    typename V::F some[of_sixteen];
    V::sixteen(from + 16 * HEDDLE_VALUE(i), some);
    each<of_sixteen>([&](auto v) HEDDLE_INLINE_LAMBDA {
      to[HEDDLE_VALUE(i) * of_sixteen + HEDDLE_VALUE(v)] = some[HEDDLE_VALUE(v)];
    });
  });
}

template <class V>
class ByteBlock {
 public:
  static constexpr uint32_t group = quant::kv_q8_values;
  static constexpr bool any_size = false;

  // `scratch` is for scales of values as f32.
  HEDDLE_INLINE ByteBlock(const AttendHead& head, const KvBlock& block, const KvBlock& next, float* scratch)
      : head_(head), block_(block), next_(next), value_scales_(scratch) {
    const uint32_t count = head.tokens * quant::kv_q8_groups(head.value_head);
    uint32_t i = 0;
    for (; i + lanes<V> <= count; i += lanes<V>) store(scratch + i, V::half(block.value_scales + i));
    for (; i < count; ++i) scratch[i] = quant::f32_of_f16(block.value_scales[i]);
  }

  // A scale for each position.
  struct Keys {
    const int8_t* at;
    uint32_t stride;
    const uint8_t* ahead;
    typename V::F scales[32 / lanes<V>];
    template <int wide>
    HEDDLE_INLINE void read(typename V::F (&to)[wide]) const {
      read_bytes<V>(at, to);
      each<wide>([&](auto v) HEDDLE_INLINE_LAMBDA { to[HEDDLE_VALUE(v)] *= scales[HEDDLE_VALUE(v)]; });
    }
    HEDDLE_INLINE void advance(bool really) { at += really ? stride : 0; }
    template <int values>
    HEDDLE_INLINE void prefetch_ahead() {
      prefetch_next<values>(ahead);
    }
  };
  HEDDLE_INLINE Keys keys(uint32_t position, uint32_t dimension) const {
    Keys all{static_cast<const int8_t*>(block_.keys) + uint64_t(dimension) * head_.stride + position,
             head_.stride,
             static_cast<const uint8_t*>(next_.keys) + uint64_t(position) * head_.head + dimension * 16,
             {}};
    // (of 16 positions, or of 32 where the vectors are that wide)
    const uint16_t* scales = block_.key_scales + dimension / group * head_.stride + position;
    each<16 / lanes<V>>([&](auto v) HEDDLE_INLINE_LAMBDA {
      all.scales[HEDDLE_VALUE(v)] = V::half(scales + HEDDLE_VALUE(v) * lanes<V>);
    });
    if (lanes<V> == 16 && position + 32 <= head_.stride) all.scales[1] = V::half(scales + 16);
    return all;
  }

  struct Values {
    const int8_t* at;
    const float* scales;
    uint32_t value_head, groups;
    const uint8_t* ahead;
    template <int wide>
    HEDDLE_INLINE void read(typename V::F (&to)[wide]) const {
      read_bytes<V>(at, to);
      // (the columns of wide vectors have several groups)
      each<wide>([&](auto v)
                     HEDDLE_INLINE_LAMBDA { to[HEDDLE_VALUE(v)] *= scales[HEDDLE_VALUE(v) * lanes<V> / group]; });
    }
    HEDDLE_INLINE void advance(bool really) {
      at += really ? value_head : 0;
      scales += really ? groups : 0;
    }
    template <int values>
    HEDDLE_INLINE void prefetch_ahead() {
      prefetch_next<values>(ahead);
    }
  };
  HEDDLE_INLINE Values values(uint32_t position, uint32_t dimension) const {
    const uint32_t groups = quant::kv_q8_groups(head_.value_head);
    return {static_cast<const int8_t*>(block_.values) + uint64_t(position) * head_.value_head + dimension,
            value_scales_ + uint64_t(position) * groups + dimension / group, head_.value_head, groups,
            static_cast<const uint8_t*>(next_.values) + uint64_t(dimension) * head_.tokens};
  }

 private:
  const AttendHead& head_;
  const KvBlock &block_, &next_;
  const float* value_scales_;  // (tokens, groups)
};

template <class V>
HEDDLE_INLINE void decode_f16(const AttendHead& head, const KvBlock& block, float* keys, float* values) {
  const auto *from_keys = static_cast<const uint16_t*>(block.keys),
             *from_values = static_cast<const uint16_t*>(block.values);
  constexpr uint32_t wide = 16 / lanes<V>;
  const auto put = [](const uint16_t* from, float* to) HEDDLE_INLINE_LAMBDA {
    typename V::F sixteen[wide];
    read_floats<V>(from, sixteen);
    each<wide>([&](auto v) HEDDLE_INLINE_LAMBDA { store(to + HEDDLE_VALUE(v) * lanes<V>, sixteen[HEDDLE_VALUE(v)]); });
  };
  const uint32_t key_count = head.head * head.stride, size = head.values_in_keys ? 0 : head.tokens * head.value_head;
  for (uint32_t i = 0; i < key_count; i += 16) put(from_keys + i, keys + i);
  uint32_t i = 0;
  for (; i + 16 <= size; i += 16) put(from_values + i, values + i);
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
// A block as f32, in scratch of (head, stride) and (tokens, value_head).
template <class V>
PlainBlock<V, float> decoded(const AttendHead& head, const KvBlock& block, float* scratch) {
  float *keys = scratch, *values = scratch + uint64_t(head.head) * head.stride;
  if (block.key_scales)
    decode_q8<V>(head, block, keys, values);
  else
    decode_f16<V>(head, block, keys, values);
  if (head.values_in_keys)
    for (uint32_t t = 0; t < head.tokens; ++t)
      for (uint32_t i = 0; i < head.value_head; ++i) values[t * head.value_head + i] = keys[i * head.stride + t];
  return {head, keys, values, nullptr, nullptr};
}

}  // namespace
}  // namespace heddle::cpu
