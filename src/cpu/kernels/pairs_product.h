// Products of tiles in pairs: smmla multiplies eight values of two weight rows with those of two rows of activations.
// Sums of integers are exact and each sum of floats has one order, so every number of rows gives the same bits.
//
// The lanes of a product are w0 x0, w0 x1, w1 x0, w1 x1 until a tile ends. A row alone takes both places: x0 are values
// of even groups and x1 those of odd ones.
#pragma once
#include "cpu/kernels/pairs.h"

namespace heddle::cpu {
namespace {

// Vectors of a group, groups of a set, sets of a block.
template <class P>
constexpr int group_vectors = P::group / 8;
template <class P>
constexpr int set_groups = P::groups == 1 ? 1 : 2;
template <class P>
constexpr int sets = P::groups / set_groups<P>;

// Weights unpacked to bytes once for many rows. A block: for each group the weights and int32_t scales, as lanes want
// them; f32 d, f32 m; mins. It is read in this order: a Neoverse V1 loads half as fast from three addresses that are
// equal but for a multiple of 4096.
template <class P>
struct Unpacked : P {
  static constexpr bool is_packed = false;
  static constexpr int group_bytes = P::group + (P::groups > 1 ? 8 : 0), d_field = group_bytes * P::groups;
  static constexpr int m_field = d_field + 4, min_field = m_field + (P::mins ? 4 : 0);
  static constexpr int bytes = min_field + (P::mins ? 8 : 0);
  static HEDDLE_INLINE const uint8_t* place(const uint8_t* at, int field, int p) {
    return at + field * rows_of_pairs + 16 * p;
  }
  static constexpr int weights_field(int set, int i) {
    return (set * set_groups<P> + i / group_vectors<P>)*group_bytes + i % group_vectors<P> * 8;
  }
  static constexpr int scale_field(int g) { return g * group_bytes + P::group; }
  template <int i>
  static HEDDLE_INLINE uint8x16_t weights(const uint8_t* at, int set, int p) {
    return load<uint8x16_t>(place(at, weights_field(set, i), p));
  }
  template <int n>
  static HEDDLE_INLINE int32x4_t scale(const uint8_t* at, int g, int p) {
    static_assert(n == 1);
    return load<int32x4_t>(place(at, scale_field(g), p));
  }
  static HEDDLE_INLINE float32x4_t d(const uint8_t* at, int h) { return load<float32x4_t>(place(at, d_field, h)); }
  static HEDDLE_INLINE float32x4_t m(const uint8_t* at, int h) { return load<float32x4_t>(place(at, m_field, h)); }
  static HEDDLE_INLINE uint8x16_t min_bytes(const uint8_t* at, int p) {
    return load<uint8x16_t>(place(at, min_field, p));
  }
};

template <class P>
void unpack_pairs(const uint8_t* at, const uint8_t* next, uint32_t blocks, uint8_t* to) {
  using U = Unpacked<P>;
  const auto put = [&](int field, int p, auto value)
                       HEDDLE_INLINE_LAMBDA { store(to + field * rows_of_pairs + 16 * p, value); };
  for (uint32_t b = 0; b < blocks; ++b, at += P::bytes * rows_of_pairs, to += U::bytes * rows_of_pairs) {
    prefetch(next + b * P::bytes * rows_of_pairs, P::bytes * rows_of_pairs);
    constexpr int vectors = set_groups<P> * group_vectors<P>;
    for (int set = 0; set < sets<P>; ++set)
      each<vectors>([&](auto vector) HEDDLE_INLINE_LAMBDA {
        constexpr int i = HEDDLE_VALUE(vector);
        for (int p = 0; p < pairs_of_tile; ++p) put(U::weights_field(set, i), p, P::template weights<i>(at, set, p));
      });
    for (int p = 0; p < pairs_of_tile; ++p) {
      if constexpr (P::groups > 1)
        for (int g = 0; g < P::groups; ++g) put(U::scale_field(g), p, P::template scale<1>(at, g, p));
      if constexpr (P::mins) put(U::min_field, p, P::min_bytes(at, p));
    }
    for (int h = 0; h < 2; ++h) {
      put(U::d_field, h, P::d(at, h));
      if constexpr (P::mins) put(U::m_field, h, P::m(at, h));
    }
  }
}

// Some pairs of rows of activations, together in the order in which they are read. A block: eight values of each row of
// each pair in turn; for each pair the scales of both rows, twice; with mins, for each pair the low parts of the sums
// of both and the high parts.
template <class P>
struct PairsOfX {
  static constexpr int d_field = 2 * P::values, sums_field = d_field + 16, block = sums_field + (P::mins ? 32 : 0);
  // Of one pair.
  static constexpr uint64_t bytes(uint32_t cols) { return uint64_t(cols / P::values) * block; }

  // `pairs` pairs, of which the last may be one row: some blocks of them.
  static void write(const XRow* xs, uint32_t count, uint32_t pairs, uint32_t begin, uint32_t end, uint8_t* to) {
    for (uint32_t b = begin; b < end; ++b, to += pairs * block)
      for (uint32_t p = 0; p < pairs; ++p) {
        const XRow &x0 = xs[2 * p], &x1 = xs[2 * p + 1 < count ? 2 * p + 1 : 2 * p];
        write_pair(x0.q + b * P::values, x1.q + b * P::values, P::values, to + 16 * p, 16 * pairs);
        const float32x2_t d = {x0.d[b], x1.d[b]};
        store(to + pairs * d_field + 16 * p, vcombine_f32(d, d));
        if constexpr (P::mins) {
          const auto first = load<int64x2_t>(x0.split_sums + b * 48), second = load<int64x2_t>(x1.split_sums + b * 48);
          store(to + pairs * sums_field + 32 * p, vzip1q_s64(first, second));
          store(to + pairs * sums_field + 32 * p + 16, vzip2q_s64(first, second));
        }
      }
  }
};

template <class P>
HEDDLE_INLINE int32x4_t multiply(int32x4_t sum, uint8x16_t w, int8x16_t x) {
  if constexpr (P::is_unsigned) return vusmmlaq_s32(sum, w, x);
  return vmmlaq_s32(sum, vreinterpretq_s8_u8(w), x);
}
// Sums of products of weights times 2^shift.
template <class P>
HEDDLE_INLINE float32x4_t floats_of_sums(int32x4_t sums) {
  if constexpr (P::shift == 0)
    return vcvtq_f32_s32(sums);
  else
    return vcvtq_n_f32_s32(sums, P::shift);
}

// What one call of few_pairs works on: some blocks of a tile and of rows; those at `next` are prefetched meanwhile.
// `goes_on`: what `out` has is added to.
struct BlocksOfPairs {
  const uint8_t *tile, *next, *xs;
  uint32_t count;
  bool goes_on;
};

// Pairs `first` to `first` + wp - 1 of a tile with xp pairs of rows: out[i * stride + r] for `count` rows.
// (within its caller it has too few registers)
template <class P, int wp, int xp>
[[gnu::noinline]] void few_pairs(const BlocksOfPairs& blocks, int first, float* out, uint32_t stride, uint32_t count) {
  static_assert(wp % 2 == 0);
  constexpr int vectors = set_groups<P> * group_vectors<P>;
  using X = PairsOfX<P>;
  float32x4_t sum[wp][xp] = {};
  if (blocks.goes_on)
    each<xp * wp / 2>([&](auto n) HEDDLE_INLINE_LAMBDA {
      constexpr uint32_t i = HEDDLE_VALUE(n) / (wp / 2), h = HEDDLE_VALUE(n) % (wp / 2);
      const float* from = out + 2 * i * stride + uint32_t(first) * 2 + 4 * h;
      const auto row = load<float32x4_t>(from), next = load<float32x4_t>(2 * i + 1 < count ? from + stride : from);
      sum[2 * h][i] = vzip1q_f32(row, next);
      sum[2 * h + 1][i] = vzip2q_f32(row, next);
    });
  const uint8_t *at = blocks.tile, *xs = blocks.xs;
  for (uint32_t b = 0; b < blocks.count; ++b, at += P::bytes * rows_of_pairs, xs += xp * X::block) {
    if constexpr (P::is_packed)
      if (first == 0 && blocks.next) prefetch(blocks.next + b * P::bytes * rows_of_pairs, P::bytes * rows_of_pairs);
    int32x4_t total[wp][xp];
    each<wp * xp>([&](auto n)
                      HEDDLE_INLINE_LAMBDA { total[HEDDLE_VALUE(n) / xp][HEDDLE_VALUE(n) % xp] = Neon::zero(); });
    for (int set = 0; set < sets<P>; ++set) {
      each<set_groups<P>>([&](auto group) HEDDLE_INLINE_LAMBDA {
        constexpr int g = HEDDLE_VALUE(group);
        int32x4_t dot[wp][xp];
        each<wp * xp>([&](auto n) HEDDLE_INLINE_LAMBDA {
          constexpr int w = HEDDLE_VALUE(n) / xp, i = HEDDLE_VALUE(n) % xp;
          dot[w][i] = P::groups == 1 ? total[w][i] : Neon::zero();
        });
        each<group_vectors<P>>([&](auto vector) HEDDLE_INLINE_LAMBDA {
          constexpr int v = g * group_vectors<P> + HEDDLE_VALUE(vector);
          if constexpr (!P::is_packed) asm volatile("" ::: "memory");  // all loads of a step before its products
          int8x16_t rows[xp];
          each<xp>([&](auto pair) HEDDLE_INLINE_LAMBDA {
            rows[HEDDLE_VALUE(pair)] = load<int8x16_t>(xs + ((set * vectors + v) * xp + HEDDLE_VALUE(pair)) * 16);
          });
          uint8x16_t weights[wp];
          each<wp>([&](auto pair) HEDDLE_INLINE_LAMBDA {
            weights[HEDDLE_VALUE(pair)] = P::template weights<v>(at, set, first + HEDDLE_VALUE(pair));
          });
          each<wp * xp>([&](auto n) HEDDLE_INLINE_LAMBDA {
            constexpr int w = HEDDLE_VALUE(n) / xp, i = HEDDLE_VALUE(n) % xp;
            dot[w][i] = multiply<P>(dot[w][i], weights[w], rows[i]);
          });
        });
        each<wp>([&](auto pair) HEDDLE_INLINE_LAMBDA {
          constexpr int w = HEDDLE_VALUE(pair);
          int32x4_t scale;
          if constexpr (P::groups > 1) scale = P::template scale<1>(at, set * set_groups<P> + g, first + w);
          each<xp>([&](auto other) HEDDLE_INLINE_LAMBDA {
            constexpr int i = HEDDLE_VALUE(other);
            if constexpr (P::groups > 1)
              total[w][i] = vmlaq_s32(total[w][i], dot[w][i], scale);
            else
              total[w][i] = dot[w][i];
          });
        });
      });
    }
    // mins: one step for all rows after another, so that none waits for itself
    each<wp>([&](auto pair) HEDDLE_INLINE_LAMBDA {
      constexpr int w = HEDDLE_VALUE(pair);
      const auto of_pair = [&](float32x4_t four)
                               HEDDLE_INLINE_LAMBDA { return w % 2 ? vzip2q_f32(four, four) : vzip1q_f32(four, four); };
      const auto rows = [&](auto step) HEDDLE_INLINE_LAMBDA { each<xp>(step); };
      const float32x4_t d = of_pair(P::d(at, (first + w) / 2));
      float32x4_t value[xp];
      if constexpr (P::mins) {
        const uint8x16_t mins = P::min_bytes(at, first + w);
        const float32x4_t m = of_pair(P::m(at, (first + w) / 2));
        const auto sums = [&](int i, int part) HEDDLE_INLINE_LAMBDA {
          return load<int8x16_t>(xs + xp * X::sums_field + i * 32 + part * 16);
        };
        int32x4_t dot[xp];
        rows([&](auto i) HEDDLE_INLINE_LAMBDA {
          dot[HEDDLE_VALUE(i)] = vusmmlaq_s32(Neon::zero(), mins, sums(HEDDLE_VALUE(i), 1));
        });
        rows([&](auto i)
                 HEDDLE_INLINE_LAMBDA { value[HEDDLE_VALUE(i)] = floats_of_sums<P>(total[w][HEDDLE_VALUE(i)]); });
        rows([&](auto i) HEDDLE_INLINE_LAMBDA { dot[HEDDLE_VALUE(i)] = dot[HEDDLE_VALUE(i)] << 6; });
        rows([&](auto i) HEDDLE_INLINE_LAMBDA {
          dot[HEDDLE_VALUE(i)] = vusmmlaq_s32(dot[HEDDLE_VALUE(i)], mins, sums(HEDDLE_VALUE(i), 0));
        });
        rows([&](auto i) HEDDLE_INLINE_LAMBDA { value[HEDDLE_VALUE(i)] *= d; });
        float32x4_t less[xp];
        rows([&](auto i) HEDDLE_INLINE_LAMBDA { less[HEDDLE_VALUE(i)] = vcvtq_f32_s32(dot[HEDDLE_VALUE(i)]); });
        rows([&](auto i) HEDDLE_INLINE_LAMBDA {
          value[HEDDLE_VALUE(i)] = vfmsq_f32(value[HEDDLE_VALUE(i)], less[HEDDLE_VALUE(i)], m);
        });
      }
      rows([&](auto other) HEDDLE_INLINE_LAMBDA {
        constexpr int i = HEDDLE_VALUE(other);
        if constexpr (!P::mins) value[i] = floats_of_sums<P>(total[w][i]) * d;
        sum[w][i] = vfmaq_f32(sum[w][i], value[i], load<float32x4_t>(xs + xp * X::d_field + i * 16));
      });
    });
  }
  each<xp * wp / 2>([&](auto n) HEDDLE_INLINE_LAMBDA {
    constexpr uint32_t i = HEDDLE_VALUE(n) / (wp / 2), h = HEDDLE_VALUE(n) % (wp / 2);
    float* const to = out + 2 * i * stride + uint32_t(first) * 2 + 4 * h;
    store(to, vuzp1q_f32(sum[2 * h][i], sum[2 * h + 1][i]));
    if (2 * i + 1 < count) store(to + stride, vuzp2q_f32(sum[2 * h][i], sum[2 * h + 1][i]));
  });
}

// Pairs of rows that meet a tile at once. Four pairs of weights with three of rows need the fewest loads, but leave no
// registers to unpack or for many scales.
template <class P>
constexpr uint32_t max_pairs = P::is_packed || P::group == 16 ? 5 : 3;
template <class P>
HEDDLE_INLINE void some_pairs(const BlocksOfPairs& blocks, uint32_t pairs, float* out, uint32_t stride,
                              uint32_t count) {
  if (pairs == 1) return few_pairs<P, 4, 1>(blocks, 0, out, stride, count);
  if constexpr (max_pairs<P> == 3) {
    if (pairs == 2) return few_pairs<P, 4, 2>(blocks, 0, out, stride, count);
    few_pairs<P, 4, 3>(blocks, 0, out, stride, count);
  } else {
    if (pairs == 2 && P::group == 32) return few_pairs<P, 4, 2>(blocks, 0, out, stride, count);
    for (int first = 0; first < pairs_of_tile; first += 2)
      if (pairs == 2)
        few_pairs<P, 2, 2>(blocks, first, out, stride, count);
      else if (pairs == 3)
        few_pairs<P, 2, 3>(blocks, first, out, stride, count);
      else if (pairs == 4)
        few_pairs<P, 2, 4>(blocks, first, out, stride, count);
      else
        few_pairs<P, 2, 5>(blocks, first, out, stride, count);
  }
}

// The sum of a row alone with the sums of a block added to it: `total` of rows 4 h to 4 h + 3, times 2^shift.
template <class P>
HEDDLE_INLINE float32x4_t with_block_of_one(float32x4_t sum, int32x4_t total, const uint8_t* at, const XRow& x,
                                            uint32_t b, int h) {
  float32x4_t value = floats_of_sums<P>(total) * P::d(at, h);
  if constexpr (P::mins) {
    const auto sums = load<int8x16_t>(x.split_sums + b * 48);  // low parts, high parts
    const int32x4_t first = vusmmlaq_s32(Neon::zero(), P::min_bytes(at, 2 * h), sums);
    const int32x4_t second = vusmmlaq_s32(Neon::zero(), P::min_bytes(at, 2 * h + 1), sums);
    const int32x4_t dot = vuzp1q_s32(first, second) + (vuzp2q_s32(first, second) << 6);
    value = vfmsq_f32(value, vcvtq_f32_s32(dot), P::m(at, h));
  }
  return vfmaq_n_f32(sum, value, x.d[b]);
}

// A row alone: eight values with eight zeros after them, or before them in odd groups. Formats without groups read the
// row as it is.
template <class P>
void write_one_x(const XRow& x, uint32_t cols, uint8_t* to) {
  if constexpr (P::groups == 1) return;
  for (uint32_t c = 0; c < cols; c += 8, to += 16) {
    const bool odd = c / P::group % 2 == 1;
    store(to + (odd ? 8 : 0), load<int64_t>(x.q + c));
    store(to + (odd ? 0 : 8), int64_t(0));
  }
}
template <class P>
void one_row_of_pairs(const uint8_t* at, uint32_t cols, const uint8_t* row, const XRow& x, float* out) {
  constexpr int vectors = set_groups<P> * group_vectors<P>;
  float32x4_t sum[2] = {};
  for (uint32_t b = 0; b < cols / P::values; ++b, at += P::bytes * rows_of_pairs, row += 2 * P::values) {
    prefetch_ahead<Neon, P::bytes * rows_of_pairs>(at);
    int32x4_t total[pairs_of_tile];
    each<pairs_of_tile>([&](auto p) HEDDLE_INLINE_LAMBDA { total[HEDDLE_VALUE(p)] = Neon::zero(); });
    for (int set = 0; set < sets<P>; ++set) {
      int32x4_t dot[pairs_of_tile];
      each<pairs_of_tile>([&](auto p) HEDDLE_INLINE_LAMBDA { dot[HEDDLE_VALUE(p)] = Neon::zero(); });
      each<vectors>([&](auto vector) HEDDLE_INLINE_LAMBDA {
        constexpr int v = HEDDLE_VALUE(vector);
        int8x16_t values;
        if constexpr (P::groups == 1)
          values = vcombine_s8(vld1_s8(x.q + b * P::values + v * 8), vdup_n_s8(0));
        else
          values = load<int8x16_t>(row + (set * vectors + v) * 16);
        each<pairs_of_tile>([&](auto pair) HEDDLE_INLINE_LAMBDA {
          constexpr int p = HEDDLE_VALUE(pair);
          dot[p] = multiply<P>(dot[p], P::template weights<v>(at, set, p), values);
        });
      });
      each<pairs_of_tile>([&](auto pair) HEDDLE_INLINE_LAMBDA {
        constexpr int p = HEDDLE_VALUE(pair);
        if constexpr (P::groups > 1)
          total[p] = vmlaq_s32(total[p], dot[p], P::template scale<2>(at, 2 * set, p));
        else
          total[p] = dot[p];
      });
    }
    each<2>([&](auto half) HEDDLE_INLINE_LAMBDA {
      constexpr int h = HEDDLE_VALUE(half);
      sum[h] = with_block_of_one<P>(sum[h], vpaddq_s32(total[2 * h], total[2 * h + 1]), at, x, b, h);
    });
  }
  store(out, sum[0]);
  store(out + 4, sum[1]);
}

// x for one row of activations and weights in nibbles, where a byte has a value of one group (low nibble l) and one of
// the next (high nibble h). One row needs only half of smmla's result, so the other half takes the second group: with
// x0 of the first group and x1 of the second, l x0 and 16 h x1 = (l + 16 h) x1 - l x1 come from one unpacking.
void write_one_x_of_nibbles(const XRow& x, uint32_t cols, uint8_t* to) {
  for (uint32_t c = 0; c < cols; c += 64)
    for (uint32_t i = 0; i < 32; i += 8, to += 16) {
      store(to, load<int64_t>(x.q + c + i));
      store(to + 8, load<int64_t>(x.q + c + 32 + i));
    }
}
template <class P>
void one_row_of_nibbles(const uint8_t* at, uint32_t cols, const uint8_t* row, const XRow& x, float* out) {
  constexpr int n = pairs_of_tile;
  float32x4_t sum[2] = {};
  for (uint32_t b = 0; b < cols / P::values; ++b, at += P::bytes * rows_of_pairs, row += P::values) {
    prefetch_ahead<Neon, P::bytes * rows_of_pairs>(at);
    int32x4_t low[n], both[n];  // times scales
    each<n>([&](auto p) HEDDLE_INLINE_LAMBDA { low[HEDDLE_VALUE(p)] = both[HEDDLE_VALUE(p)] = Neon::zero(); });
    for (int set = 0; set < sets<P>; ++set) {
      int32x4_t dot_low[n], dot_both[n];
      each<n>([&](auto p) HEDDLE_INLINE_LAMBDA {
        dot_low[HEDDLE_VALUE(p)] = Neon::zero();
        dot_both[HEDDLE_VALUE(p)] = Neon::zero();
      });
      each<4>([&](auto vector) HEDDLE_INLINE_LAMBDA {
        constexpr int v = HEDDLE_VALUE(vector);
        const auto values = load<int8x16_t>(row + (set * 4 + v) * 16);
        each<n>([&](auto pair) HEDDLE_INLINE_LAMBDA {
          constexpr int p = HEDDLE_VALUE(pair);
          const uint8x16_t nibbles = P::nibbles(at, set, v, p);
          dot_both[p] = vusmmlaq_s32(dot_both[p], nibbles, values);
          dot_low[p] = vusmmlaq_s32(dot_low[p], nibbles & uint8_t(15), values);
        });
      });
      each<n>([&](auto pair) HEDDLE_INLINE_LAMBDA {
        constexpr int p = HEDDLE_VALUE(pair);
        const int32x4_t scale = P::template scale<2>(at, 2 * set, p);
        low[p] = vmlaq_s32(low[p], dot_low[p], scale);
        both[p] = vmlaq_s32(both[p], dot_both[p], scale);
      });
    }
    each<2>([&](auto half) HEDDLE_INLINE_LAMBDA {
      constexpr int h = HEDDLE_VALUE(half), p = 2 * h;
      const int32x4_t high = vuzp2q_s32(both[p] - low[p], both[p + 1] - low[p + 1]);
      sum[h] = with_block_of_one<P>(sum[h], vsraq_n_s32(vuzp1q_s32(low[p], low[p + 1]), high, 4), at, x, b, h);
    });
  }
  store(out, sum[0]);
  store(out + 4, sum[1]);
}

// Rows are multiplied by parts: a part of a tile and of a group of rows stay in L1, the unpacked parts of some tiles
// and all that is written of rows in L2.
template <class P>
constexpr uint32_t part_blocks = 2048 / P::values;
constexpr uint32_t unpacked_tiles = 16;
template <class P>
constexpr uint64_t unpacked_bytes = uint64_t(part_blocks<P>) * Unpacked<P>::bytes* rows_of_pairs;

// What is written of rows: all of a row alone, all of few groups that stay in L1, or a part of many.
constexpr uint64_t max_whole_group = 48 << 10, max_whole_groups = 3;
template <class P>
uint64_t written_bytes(uint32_t cols) {
  constexpr uint64_t groups = max_whole_groups * max_whole_group;
  static_assert(P::max_rows_of_packed <= 2 * max_pairs<P> * max_whole_groups);
  static_assert(written_pairs * PairsOfX<P>::bytes(2048) <= groups);
  const uint64_t alone = 2 * uint64_t(cols);
  return groups > alone ? groups : alone;
}
template <class P>
uint64_t scratch_of_pairs(uint32_t cols) {
  return written_bytes<P>(cols) + unpacked_tiles * unpacked_bytes<P>;
}

// out (count, tiles * 8) = W x for any number of rows.
template <class P>
void product_of_pairs(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out,
                      uint8_t* scratch) {
  const uint32_t blocks = cols / P::values, stride = tiles * rows_of_pairs;
  const uint64_t tile_bytes = uint64_t(blocks) * P::bytes * rows_of_pairs;
  if (count == 1) {
    if constexpr (P::halves_from_nibbles)
      write_one_x_of_nibbles(xs[0], cols, scratch);
    else
      write_one_x<P>(xs[0], cols, scratch);
    for (uint32_t t = 0; t < tiles; ++t, tile += tile_bytes, out += rows_of_pairs)
      if constexpr (P::halves_from_nibbles)
        one_row_of_nibbles<P>(tile, cols, scratch, xs[0], out);
      else
        one_row_of_pairs<P>(tile, cols, scratch, xs[0], out);
    return;
  }
  using U = Unpacked<P>;
  const bool packed = count <= P::max_rows_of_packed;
  const Groups groups(count, packed ? max_pairs<P> : max_pairs<U>);
  const bool whole = packed && groups.max * PairsOfX<P>::bytes(cols) <= max_whole_group;
  const uint32_t part = whole ? blocks : part_blocks<P>;
  const uint64_t group_bytes = uint64_t(groups.max) * part * PairsOfX<P>::block;
  uint8_t* unpacked = scratch + written_bytes<P>(cols);
  // a tile stays in L1 while all rows meet it, or some do in L2 while rows are written
  const uint32_t at_once = packed ? tiles : groups.end(0) == groups.count ? 1 : unpacked_tiles;
  for (uint32_t b = 0; b < blocks; b += part) {
    const uint32_t part_end = b + part < blocks ? b + part : blocks;
    uint32_t written = UINT32_MAX;  // from this group on
    for (uint32_t begin = 0; begin < tiles; begin += at_once) {
      const uint32_t end = begin + at_once < tiles ? begin + at_once : tiles;
      const auto at = [&](uint32_t t) { return tile + t * tile_bytes + uint64_t(b) * P::bytes * rows_of_pairs; };
      const auto next = [&](uint32_t t) {
        if (whole) return at(t) + Neon::ahead;
        return t + 1 < tiles ? at(t + 1) : at(0) + uint64_t(part) * P::bytes * rows_of_pairs;
      };
      if (!packed)
        for (uint32_t t = begin; t < end; ++t)
          unpack_pairs<P>(at(t), next(t), part_end - b, unpacked + (t - begin) * unpacked_bytes<P>);
      for (uint32_t from = 0; from < groups.count; from = groups.end(from)) {
        const bool is_written = std::exchange(written, from) == from;
        for (uint32_t g = from; g < groups.end(from) && !is_written; ++g)
          PairsOfX<P>::write(xs + groups.row(g), count - groups.row(g), groups.pairs(g), b, part_end,
                             scratch + (g - from) * group_bytes);
        for (uint32_t t = begin; t < end; ++t)
          for (uint32_t g = from; g < groups.end(from); ++g) {
            const uint8_t* x = scratch + (g - from) * group_bytes;
            float* const to = out + uint64_t(groups.row(g)) * stride + t * rows_of_pairs;
            const uint32_t rest = count - groups.row(g);
            if (packed)
              some_pairs<P>({at(t), g == 0 ? next(t) : nullptr, x, part_end - b, b > 0}, groups.pairs(g), to, stride,
                            rest);
            else
              some_pairs<U>({unpacked + (t - begin) * unpacked_bytes<P>, nullptr, x, part_end - b, b > 0},
                            groups.pairs(g), to, stride, rest);
          }
      }
    }
  }
}

}  // namespace
}  // namespace heddle::cpu
