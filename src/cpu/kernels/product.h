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

// How many steps can be accumulated in int16 without overflow: each adds at most 2 * 127 * max_weight. 0: V accumulates
// in int32 only.
template <class Format>
constexpr int short_steps = [] {
  int steps = max_weight_of<Format> ? Format::group / 4 : 0;
  while (steps * 2 * 127 * max_weight_of < Format >> INT16_MAX) steps /= 2;
  return steps;
}();

// Adds the products of block b to `total`, step by step as int16: scales are multiplied where these are widened, and
// offsets with the sums of the activations.
template <class Format, int count, int vectors>
HEDDLE_INLINE void add_shorts_of_block(const uint8_t* at, int first, int offset, const XRow* xs, uint32_t b, int p0,
                                       typename Format::V::I (&total)[count][vectors]) {
  using V = typename Format::V;
  using I = typename V::I;
  using Shorts = typename V::Shorts;
  constexpr int unrolled = Format::groups / Format::repeat, steps = short_steps<Format>;
  constexpr bool is_slab = requires { Format::scale(at, 0, 0); };
  I scales[Format::groups][vectors];
  if constexpr (Format::groups > 1)
    each<Format::groups>([&](auto group) HEDDLE_INLINE_LAMBDA {
      constexpr int g = HEDDLE_VALUE(group);
      HEDDLE_UNROLLED (p, vectors) {
        if constexpr (is_slab)
          scales[g][p] = Format::scale(at, g, p0 + p);
        else
          scales[g][p] = scale_of<Format, g>(at, p0 + p);
      }
    });
  if constexpr (Format::groups > 1 && Format::mins == Mins::none)
    HEDDLE_UNROLLED (i, count) {
      static_assert(Format::groups == 16);
      int16_t sums[16];
      store(sums, V::narrow(xs[i].sums + 16 * b));
      each<8>([&](auto pair) HEDDLE_INLINE_LAMBDA {
        constexpr int g = 2 * HEDDLE_VALUE(pair);
        const auto both = (Shorts)all<V>(load<int32_t>(sums + g));
        HEDDLE_UNROLLED (p, vectors) {
          total[i][p] = V::dot_shorts(total[i][p], both, V::interleaved(scales[g][p], scales[g + 1][p]));
        }
      });
      HEDDLE_UNROLLED (p, vectors) {
        total[i][p] *= -offset;
      }
    }
  for (int r = 0; r < Format::repeat; ++r)
    each<unrolled>([&](auto group) HEDDLE_INLINE_LAMBDA {
      constexpr int g = HEDDLE_VALUE(group);
      const int index = r * unrolled + g;
      each<Format::group / 4 / steps>([&](auto part) HEDDLE_INLINE_LAMBDA {
        Shorts sum[count][vectors];
        each<steps>([&](auto step) HEDDLE_INLINE_LAMBDA {
          constexpr int s = HEDDLE_VALUE(part) * steps + HEDDLE_VALUE(step);
          typename V::B w[vectors];
          HEDDLE_UNROLLED (p, vectors) {
            w[p] = Format::template weights<g, s>(at, first + r, p0 + p);
          }
          HEDDLE_UNROLLED (i, count) {
            const auto x = V::x(xs[i].q + b * Format::values + uint32_t(index * Format::group + s / 4 * 16));
            HEDDLE_UNROLLED (p, vectors) {
              const Shorts products = V::template multiply_bytes<s % 4>(w[p], x);
              if constexpr (HEDDLE_VALUE(step) == 0)
                sum[i][p] = products;
              else
                sum[i][p] += products;
            }
          }
        });
        HEDDLE_UNROLLED (p, vectors) {
          Shorts scale = (Shorts)all<V>(0x00010001);
          if constexpr (Format::groups > 1) scale = V::interleaved(scales[index][p], scales[index][p]);
          HEDDLE_UNROLLED (i, count) {
            total[i][p] = V::dot_shorts(total[i][p], sum[i][p], scale);
          }
        }
      });
      if constexpr (Format::groups == 1 && Format::mins == Mins::none)
        HEDDLE_UNROLLED (i, count) {
          HEDDLE_UNROLLED (p, vectors) {
            total[i][p] -= all<V>(offset * sum_of_group<Format>(xs[i], b, index));
          }
        }
    });
}

// The same by V's own dot products, which widen to 32 bits at once.
template <class Format, int count, int vectors>
HEDDLE_INLINE void add_dots_of_block(const uint8_t* at, int first, int offset, const XRow* xs, uint32_t b, int p0,
                                     typename Format::V::I (&total)[count][vectors]) {
  using V = typename Format::V;
  using I = typename V::I;
  constexpr int unrolled = Format::groups / Format::repeat;
  constexpr bool is_slab = requires { Format::scale(at, 0, 0); };
  // A format's own offset is taken from its weights where they may be signed, and from the sums of one or two rows.
  constexpr bool signed_weights = V::signed_bytes && !is_slab && Format::mins == Mins::none && count > 2;
  constexpr bool has_offset = !signed_weights && Format::mins == Mins::none && (!Format::wide || V::wide_offset != 0);
  // Steps that are unpacked before their dots: 36 against 30 G products/s for eight rows of Q6_K on Neoverse N1.
  constexpr int at_once = V::has_eight_rows ? 4 : 1;
  I scales[Format::groups][vectors];
  if constexpr (Format::groups > 1 && !is_slab)
    each<Format::groups>([&](auto group) HEDDLE_INLINE_LAMBDA {
      constexpr int g = HEDDLE_VALUE(group);
      HEDDLE_UNROLLED (p, vectors) {
        scales[g][p] = scale_of<Format, g>(at, p0 + p);
      }
    });
  for (int r = 0; r < Format::repeat; ++r)
    each<unrolled>([&](auto group) HEDDLE_INLINE_LAMBDA {
      constexpr int g = HEDDLE_VALUE(group);
      const int index = r * unrolled + g;
      I dot[count][vectors];
      HEDDLE_UNROLLED (p, vectors) {
        HEDDLE_UNROLLED (i, count) {
          dot[i][p] = has_offset ? all<V>(-offset * sum_of_group<Format>(xs[i], b, index)) : V::zero();
        }
      }
      each<Format::group / 4 / at_once>([&](auto part) HEDDLE_INLINE_LAMBDA {
        constexpr int begin = HEDDLE_VALUE(part) * at_once, s = begin / 4;
        typename V::B w[at_once][vectors];
        each<at_once>([&](auto step) HEDDLE_INLINE_LAMBDA {
          constexpr int l = HEDDLE_VALUE(step);
          HEDDLE_UNROLLED (p, vectors) {
            w[l][p] = Format::template weights<g, begin + l>(at, first + r, p0 + p);
            if constexpr (signed_weights) w[l][p] -= uint8_t(Format::offset);
          }
        });
        typename V::X x[count];
        HEDDLE_UNROLLED (i, count) {
          x[i] = V::x(xs[i].q + b * Format::values + uint32_t(index * Format::group + 16 * s));
        }
        each<at_once>([&](auto step) HEDDLE_INLINE_LAMBDA {
          constexpr int l = HEDDLE_VALUE(step), lane = (begin + l) % 4;
          HEDDLE_UNROLLED (p, vectors) {
            HEDDLE_UNROLLED (i, count) {
              if constexpr (Format::wide)
                dot[i][p] = V::template dot_wide<lane>(dot[i][p], w[l][p], x[i]);
              else
                dot[i][p] = V::template dot<lane>(dot[i][p], w[l][p], x[i]);
            }
          }
        });
      });
      HEDDLE_UNROLLED (p, vectors) {
        HEDDLE_UNROLLED (i, count) {
          if constexpr (Format::groups == 1)
            total[i][p] = dot[i][p];
          else if constexpr (is_slab)
            total[i][p] += dot[i][p] * Format::scale(at, index, p0 + p);
          else
            total[i][p] += dot[i][p] * scales[index][p];
        }
      }
    });
}

// `vectors` vectors of a tile, from vector `p0` on, with `count` rows of activations: weights are unpacked once for all
// of them. `offset` is subtracted from the bytes of weights.
template <class Format, int count, int vectors>
void tile_product(const uint8_t* at, uint32_t cols, int offset, const XRow* xs, float* out, uint32_t out_stride,
                  int p0) {
  using V = typename Format::V;
  using F = typename V::F;
  constexpr bool is_slab = requires { Format::scale(at, 0, 0); };
  constexpr bool in_shorts = short_steps<Format> != 0;
  F sum[count][vectors] = {};

  for (uint32_t b = 0; b < cols / Format::values; ++b) {
    const int first = int(b % Format::together);
    // The fields of a block are read side by side, which the prefetcher does not foresee: 10 % of Q6_K on Neoverse N1.
    if constexpr (!is_slab && V::ahead != 0)
      if (p0 == 0 && first == 0) prefetch_ahead<V, Format::bytes * tile_rows<V>>(at);
    typename V::I total[count][vectors];
    HEDDLE_UNROLLED (p, vectors) {
      HEDDLE_UNROLLED (i, count) {
        total[i][p] = V::zero();
      }
    }
    if constexpr (in_shorts)
      add_shorts_of_block<Format, count, vectors>(at, first, offset, xs, b, p0, total);
    else
      add_dots_of_block<Format, count, vectors>(at, first, offset, xs, b, p0, total);
    HEDDLE_UNROLLED (p, vectors) {
      const F d = Format::d(at, p0 + p);
      HEDDLE_UNROLLED (i, count) {
        sum[i][p] = with_block<Format>(sum[i][p], total[i][p], d, at, xs[i], b, p0 + p);
      }
    }
    if (first + 1 == Format::together) at += Format::bytes * tile_rows<V>;
  }
  HEDDLE_UNROLLED (p, vectors) {
    HEDDLE_UNROLLED (i, count) {
      store(out + uint32_t(i) * out_stride + uint32_t((p0 + p) * lanes<V>), sum[i][p]);
    }
  }
}
// A whole tile: all of its vectors together, as long as there are registers for the sums.
template <class Format, int count>
void tile_product(const uint8_t* at, uint32_t cols, int offset, const XRow* xs, float* out, uint32_t out_stride) {
  constexpr int all = Format::V::vectors, together = count <= (Format::groups == 1 ? 8 : 6) ? all : 1;
  for (int p = 0; p < all; p += together)
    tile_product<Format, count, together>(at, cols, offset, xs, out, out_stride, p);
}

}  // namespace
}  // namespace heddle::cpu
