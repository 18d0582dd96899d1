// Integer products: a tile of weights with some quantised rows. One template serves tiles as they are packed and slabs:
// the sums of integers are exact and the sums of floats have one order, so both give the same bits.
#pragma once
#include "cpu/kernels/slab.h"

namespace heddle::cpu {
namespace {

// The sum of the activations of group g in block b.
template <class Format>
HEDDLE_INLINE int32_t sum_of_group(const XRow& x, uint32_t b, int g) {
  const int32_t* sums = x.sums + b * (Format::values / 16) + g * (Format::group / 16);
  if constexpr (Format::group == 16) return sums[0];
  return sums[0] + sums[1];
}
// The scale of the activations of block b.
template <class Format>
HEDDLE_INLINE float x_scale(const XRow& x, uint32_t b) {
  return x.d[Format::values == 16 ? b / 2 : b];
}

// The mins of a block with the sums of the activations.
template <class Format>
HEDDLE_INLINE typename Format::V::I dot_of_mins(const uint8_t* at, const XRow& x, uint32_t b, int p) {
  using V = typename Format::V;
  auto sum = V::zero();  // the high halves first
  if constexpr (Format::groups == 8) {
    const auto sums = V::x(x.split_sums + b * 48);
    sum = V::template dot<2>(sum, Format::template min_bytes<0>(at, p), sums);
    sum = V::template dot<3>(sum, Format::template min_bytes<1>(at, p), sums) << 6,
    sum = V::template dot<0>(sum, Format::template min_bytes<0>(at, p), sums);
    sum = V::template dot<1>(sum, Format::template min_bytes<1>(at, p), sums);
  } else {
    const auto low = V::x(x.split_sums + b * 48 + 16), high = V::x(x.split_sums + b * 48 + 32);
    each<4>([&](auto q) HEDDLE_INLINE_LAMBDA {
      constexpr int quad = HEDDLE_VALUE(q);
      sum = V::template dot<quad>(sum, Format::template min_bytes<quad>(at, p), high);
    });
    sum <<= 6, each<4>([&](auto q) HEDDLE_INLINE_LAMBDA {
      constexpr int quad = HEDDLE_VALUE(q);
      sum = V::template dot<quad>(sum, Format::template min_bytes<quad>(at, p), low);
    });
  }
  return sum;
}

// A sum of floats with the integer sum of a block added to it.
template <class Format>
HEDDLE_INLINE typename Format::V::F with_block(typename Format::V::F sum, typename Format::V::I total,
                                               typename Format::V::F d, const uint8_t* at, const XRow& x, uint32_t b,
                                               int p) {
  using V = typename Format::V;
  auto value = floats<V>(total) * d;
  if constexpr (Format::mins == Mins::scaled)
    value = V::fma(-floats<V>(dot_of_mins<Format>(at, x, b, p)), Format::m(at, p), value);
  if constexpr (Format::mins == Mins::plain)
    value = V::fma(all<V>(float(sum_of_group<Format>(x, b, 0))), Format::m(at, p), value);
  return V::fma(value, all<V>(x_scale<Format>(x, b)), sum);
}

// One tile with `count` rows of activations. `offset` is subtracted from the bytes of weights.
template <class Format, int count>
void tile_product(const uint8_t* at, uint32_t cols, int offset, const XRow* xs, float* out, uint32_t out_stride) {
  using V = typename Format::V;
  using I = typename V::I;
  using F = typename V::F;
  constexpr int vectors = V::vectors, unrolled = Format::groups / Format::repeat;
  constexpr bool may_have_offset = Format::mins == Mins::none && (!Format::wide || V::wide_offset != 0);
  F sum[count][vectors] = {};

  for (uint32_t b = 0; b < cols / Format::values; ++b) {
    const int first = int(b % Format::together);
    constexpr bool is_slab = requires { Format::scale(at, 0, 0); };
    if constexpr (!is_slab && has_ahead<V>)
      if (first == 0) prefetch<V, Format::bytes * tile_rows<V>>(at);
    I scales[Format::groups][vectors];
    if constexpr (Format::groups > 1 && !is_slab)
      each<Format::groups>([&](auto group) HEDDLE_INLINE_LAMBDA {
        constexpr int g = HEDDLE_VALUE(group);
        for (int p = 0; p < vectors; ++p) scales[g][p] = scale_of<Format, g>(at, p);
      });
    I total[count][vectors] = {};
    for (int r = 0; r < Format::repeat; ++r)
      each<unrolled>([&](auto group) HEDDLE_INLINE_LAMBDA {
        constexpr int g = HEDDLE_VALUE(group);
        const int index = r * unrolled + g;
        I dot[count][vectors];
        each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
          constexpr int i = HEDDLE_VALUE(a);
          I begin;
          if constexpr (may_have_offset) begin = all<V>(-offset * sum_of_group<Format>(xs[i], b, index));
          each<vectors>([&](auto p) HEDDLE_INLINE_LAMBDA {
            if constexpr (!may_have_offset) begin = V::zero();
            dot[i][HEDDLE_VALUE(p)] = begin;
          });
        });
        each<Format::group / 16>([&](auto sixteen) HEDDLE_INLINE_LAMBDA {
          constexpr int s = HEDDLE_VALUE(sixteen);
          typename V::X x[count];
          each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
            constexpr int i = HEDDLE_VALUE(a);
            x[i] = V::x(xs[i].q + b * Format::values + uint32_t(index * Format::group + 16 * s));
          });
          each<4>([&](auto lane) HEDDLE_INLINE_LAMBDA {
            constexpr int l = HEDDLE_VALUE(lane);
            each<vectors>([&](auto vector) HEDDLE_INLINE_LAMBDA {
              constexpr int p = HEDDLE_VALUE(vector);
              const auto w = Format::template weights<g, 4 * s + l>(at, first + r, p);
              each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
                constexpr int i = HEDDLE_VALUE(a);
                if constexpr (Format::wide)
                  dot[i][p] = V::template dot_wide<l>(dot[i][p], w, x[i]);
                else
                  dot[i][p] = V::template dot<l>(dot[i][p], w, x[i]);
              });
            });
          });
        });
        each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
          constexpr int i = HEDDLE_VALUE(a);
          each<vectors>([&](auto vector) HEDDLE_INLINE_LAMBDA {
            constexpr int p = HEDDLE_VALUE(vector);
            if constexpr (Format::groups == 1)
              total[i][p] = dot[i][p];
            else if constexpr (is_slab)
              total[i][p] += dot[i][p] * Format::scale(at, index, p);
            else
              total[i][p] += dot[i][p] * scales[index][p];
          });
        });
      });
    each<vectors>([&](auto vector) HEDDLE_INLINE_LAMBDA {
      constexpr int p = HEDDLE_VALUE(vector);
      const F d = Format::d(at, p);
      each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
        constexpr int i = HEDDLE_VALUE(a);
        sum[i][p] = with_block<Format>(sum[i][p], total[i][p], d, at, xs[i], b, p);
      });
    });
    if (first + 1 == Format::together) at += Format::bytes * tile_rows<V>;
  }
  // indices that are no constants would keep all sums in memory
  each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
    constexpr uint32_t i = HEDDLE_VALUE(a);
    each<vectors>([&](auto vector) HEDDLE_INLINE_LAMBDA {
      constexpr int p = HEDDLE_VALUE(vector);
      store(out + i * out_stride + uint32_t(p * lanes<V>), sum[i][p]);
    });
  });
}

// Vector p of a tile with eight rows of activations: weights are unpacked once for all of them, and their offset is
// taken from them, not from each sum. One vector at a time, so that all sums stay in registers.
template <class Format, int p>
void eight_rows(const uint8_t* at, uint32_t cols, const XRow* xs, float* out, uint32_t out_stride) {
  using V = typename Format::V;
  using I = typename V::I;
  using F = typename V::F;
  constexpr int unrolled = Format::groups / Format::repeat, steps = Format::group / 4;
  F sum[8] = {};
  for (uint32_t b = 0; b < cols / Format::values; ++b, at += Format::bytes * tile_rows<V>) {
    // The fields of a block are read side by side, which the prefetcher does not foresee: 10 % of Q6_K on Neoverse N1.
    constexpr int ahead = 4096;
    if constexpr (p == 0)
      for (int line = 0; line < Format::bytes * tile_rows<V>; line += 64) __builtin_prefetch(at + ahead + line);
    I scales[Format::groups];
    if constexpr (Format::groups > 1)
      each<Format::groups>([&](auto group) HEDDLE_INLINE_LAMBDA {
        scales[HEDDLE_VALUE(group)] = scale_of<Format, HEDDLE_VALUE(group)>(at, p);
      });
    I total[8] = {};
    for (int r = 0; r < Format::repeat; ++r)
      each<unrolled>([&](auto group) HEDDLE_INLINE_LAMBDA {
        constexpr int g = HEDDLE_VALUE(group);
        const int index = r * unrolled + g;
        typename V::B w[steps];  // all before the first dot: 36 against 30 G products/s for Q6_K on Neoverse N1
        each<steps>([&](auto step) HEDDLE_INLINE_LAMBDA {
          w[HEDDLE_VALUE(step)] = Format::template weights<g, HEDDLE_VALUE(step)>(at, r, p);
          if constexpr (Format::mins == Mins::none && Format::offset != 0)
            w[HEDDLE_VALUE(step)] -= uint8_t(Format::offset);
        });
        I dot[8];
        each<8>([&](auto a) HEDDLE_INLINE_LAMBDA { dot[HEDDLE_VALUE(a)] = V::zero(); });
        each<steps / 4>([&](auto sixteen) HEDDLE_INLINE_LAMBDA {
          constexpr int s = HEDDLE_VALUE(sixteen);
          typename V::X x[8];
          each<8>([&](auto a) HEDDLE_INLINE_LAMBDA {
            constexpr int i = HEDDLE_VALUE(a);
            x[i] = V::x(xs[i].q + b * Format::values + uint32_t(index * Format::group + 16 * s));
          });
          each<4>([&](auto lane) HEDDLE_INLINE_LAMBDA {
            constexpr int l = HEDDLE_VALUE(lane);
            each<8>([&](auto a) HEDDLE_INLINE_LAMBDA {
              constexpr int i = HEDDLE_VALUE(a);
              dot[i] = V::template dot<l>(dot[i], w[4 * s + l], x[i]);
            });
          });
        });
        each<8>([&](auto a) HEDDLE_INLINE_LAMBDA {
          constexpr int i = HEDDLE_VALUE(a);
          if constexpr (Format::groups == 1)
            total[i] = dot[i];
          else
            total[i] += dot[i] * scales[index];
        });
      });
    const F d = Format::d(at, p);
    each<8>([&](auto a) HEDDLE_INLINE_LAMBDA {
      constexpr int i = HEDDLE_VALUE(a);
      sum[i] = with_block<Format>(sum[i], total[i], d, at, xs[i], b, p);
    });
  }
  each<8>([&](auto a) HEDDLE_INLINE_LAMBDA {
    constexpr uint32_t i = HEDDLE_VALUE(a);
    store(out + i * out_stride + uint32_t(p * lanes<V>), sum[i]);
  });
}
template <class Format>
HEDDLE_INLINE void eight_rows(const uint8_t* tile, uint32_t cols, const XRow* xs, float* out, uint32_t stride) {
  each<Format::V::vectors>(
      [&](auto p) HEDDLE_INLINE_LAMBDA { eight_rows<Format, HEDDLE_VALUE(p)>(tile, cols, xs, out, stride); });
}

}  // namespace
}  // namespace heddle::cpu
