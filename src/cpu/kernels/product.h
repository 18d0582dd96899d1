// Integer products: tiles of weights with quantised rows. One template serves both ways: few rows read the weights as
// they are packed; many rows read them from a slab, where each weight was made a byte once. The sums of integers are
// exact and the sums of floats have one order, so both give the same bits.
#pragma once
#include "cpu/kernels/formats.h"
#include "cpu/kernels/grids.h"

namespace heddle::cpu {
namespace {

// Weights as bytes, with scales and mins as bytes and f32. Formats of one shape have one kind of slab.
template <class V_, int values_, int group_, Mins mins_, bool wide_>
struct Slab : Fields<V_> {
  using V = V_;
  using B = typename V::B;
  using F = typename V::F;
  static constexpr int values = values_, group = group_, groups = values <= 32 ? 1 : values / group, repeat = groups;
  static constexpr int together = 1;
  static constexpr bool wide = wide_;
  static constexpr Mins mins = mins_;
  static constexpr int steps = group / 4;
  static constexpr int d_field = values, m_field = d_field + 4, scale_field = m_field + (mins == Mins::none ? 0 : 4);
  static constexpr int min_field = scale_field + (groups == 1 ? 0 : 4 * groups);
  static constexpr int bytes = min_field + (mins == Mins::scaled ? groups : 0);

  template <int g, int step>
  static HEDDLE_INLINE B weights(const uint8_t* at, int r, int p) {
    return Slab::word(at, 0, r * steps + step, p);
  }
  static HEDDLE_INLINE typename V::I scale(const uint8_t* at, int g, int p) {
    return (typename V::I)Slab::word(at, scale_field, g, p);
  }
  template <int q>
  static HEDDLE_INLINE B min_bytes(const uint8_t* at, int p) {
    return Slab::word(at, min_field, q, p);
  }
  static HEDDLE_INLINE F d(const uint8_t* at, int p) { return load<F>(at + d_field * Slab::rows + p * V::width); }
  static HEDDLE_INLINE F m(const uint8_t* at, int p) { return load<F>(at + m_field * Slab::rows + p * V::width); }
  static HEDDLE_INLINE void put(uint8_t* to, int field, int step, int p, B value) {
    store(to + (field + 4 * step) * Slab::rows + p * V::width, value);
  }
};
// What the bytes of a format have too much is taken away in a slab if the instruction set multiplies signed bytes.
template <class Format>
constexpr bool becomes_signed = Format::V::signed_bytes&& Format::mins == Mins::none;
template <class Format>
using SlabOf =
    Slab<typename Format::V, Format::values, Format::group, Format::mins, Format::wide || becomes_signed<Format>>;

// Scale number g of a format that has them as bytes.
template <class Format, int g>
HEDDLE_INLINE typename Format::V::I scale_of(const uint8_t* at, int p) {
  return ((typename Format::V::I)Format::template scales<g / 4>(at, p) << (24 - 8 * (g % 4))) >> 24;
}

// What the format gives, written down.
template <class Format>
void fill_slab(const uint8_t* at, uint32_t cols, uint8_t* to) {
  using V = typename Format::V;
  using S = SlabOf<Format>;
  constexpr int unrolled = Format::groups / Format::repeat;
  for (uint32_t b = 0; b < cols / Format::values; ++b, to += S::bytes * tile_rows<V>) {
    const int first = int(b % Format::together);
    for (int p = 0; p < V::parts; ++p) {
      for (int r = 0; r < Format::repeat; ++r)
        each<unrolled>([&](auto group) HEDDLE_INLINE_LAMBDA {
          each<S::steps>([&](auto s) HEDDLE_INLINE_LAMBDA {
            constexpr int g = HEDDLE_VALUE(group), step = HEDDLE_VALUE(s);
            auto weights = Format::template weights<g, step>(at, first + r, p);
            if constexpr (becomes_signed<Format>) weights -= uint8_t(Format::offset);
            S::put(to, 0, (r * unrolled + g) * S::steps + step, p, weights);
          });
        });
      store(to + S::d_field * tile_rows<V> + p * V::width, Format::d(at, p));
      if constexpr (Format::mins != Mins::none) store(to + S::m_field * tile_rows<V> + p * V::width, Format::m(at, p));
      if constexpr (Format::groups > 1)
        each<Format::groups>([&](auto group) HEDDLE_INLINE_LAMBDA {
          constexpr int g = HEDDLE_VALUE(group);
          S::put(to, S::scale_field, g, p, (typename V::B)scale_of<Format, g>(at, p));
          if constexpr (Format::mins == Mins::scaled)
            if constexpr (g % 4 == 0) S::put(to, S::min_field, g / 4, p, Format::template min_bytes<g / 4>(at, p));
        });
    }
    if (first + 1 == Format::together) at += Format::bytes * tile_rows<V>;
  }
}

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
  auto sum = V::zero();  // the high parts first
  if constexpr (Format::groups == 8) {
    const auto parts = V::x(x.parts + b * 48);
    sum = V::template dot<2>(sum, Format::template min_bytes<0>(at, p), parts);
    sum = V::template dot<3>(sum, Format::template min_bytes<1>(at, p), parts) << 6;
    sum = V::template dot<0>(sum, Format::template min_bytes<0>(at, p), parts);
    sum = V::template dot<1>(sum, Format::template min_bytes<1>(at, p), parts);
  } else {
    const auto low = V::x(x.parts + b * 48 + 16), high = V::x(x.parts + b * 48 + 32);
    each<4>([&](auto q) HEDDLE_INLINE_LAMBDA {
      constexpr int quad = HEDDLE_VALUE(q);
      sum = V::template dot<quad>(sum, Format::template min_bytes<quad>(at, p), high);
    });
    sum <<= 6;
    each<4>([&](auto q) HEDDLE_INLINE_LAMBDA {
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

// One tile with `count` rows of activations. `offset` is what the bytes of weights have too much.
template <class Format, int count>
void tile_product(const uint8_t* at, uint32_t cols, int offset, const XRow* xs, float* out, uint32_t out_stride) {
  using V = typename Format::V;
  using I = typename V::I;
  using F = typename V::F;
  constexpr int parts = V::parts, unrolled = Format::groups / Format::repeat;
  constexpr bool may_have_offset = Format::mins == Mins::none && (!Format::wide || V::wide_offset != 0);
  F sum[count][parts] = {};

  for (uint32_t b = 0; b < cols / Format::values; ++b) {
    const int first = int(b % Format::together);
    constexpr bool is_slab = requires { Format::scale(at, 0, 0); };
    I scales[Format::groups][parts];
    if constexpr (Format::groups > 1 && !is_slab)
      each<Format::groups>([&](auto group) HEDDLE_INLINE_LAMBDA {
        constexpr int g = HEDDLE_VALUE(group);
        for (int p = 0; p < parts; ++p) scales[g][p] = scale_of<Format, g>(at, p);
      });
    I total[count][parts] = {};
    for (int r = 0; r < Format::repeat; ++r)
      each<unrolled>([&](auto group) HEDDLE_INLINE_LAMBDA {
        constexpr int g = HEDDLE_VALUE(group);
        const int index = r * unrolled + g;
        I dot[count][parts];
        each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
          constexpr int i = HEDDLE_VALUE(a);
          I begin;
          if constexpr (may_have_offset) begin = all<V>(-offset * sum_of_group<Format>(xs[i], b, index));
          each<parts>([&](auto p) HEDDLE_INLINE_LAMBDA {
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
            each<parts>([&](auto part) HEDDLE_INLINE_LAMBDA {
              constexpr int p = HEDDLE_VALUE(part);
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
          each<parts>([&](auto part) HEDDLE_INLINE_LAMBDA {
            constexpr int p = HEDDLE_VALUE(part);
            if constexpr (Format::groups == 1)
              total[i][p] = dot[i][p];
            else if constexpr (is_slab)
              total[i][p] += dot[i][p] * Format::scale(at, index, p);
            else
              total[i][p] += dot[i][p] * scales[index][p];
          });
        });
      });
    each<parts>([&](auto part) HEDDLE_INLINE_LAMBDA {
      constexpr int p = HEDDLE_VALUE(part);
      const F d = Format::d(at, p);
      each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
        constexpr int i = HEDDLE_VALUE(a);
        sum[i][p] = with_block<Format>(sum[i][p], total[i][p], d, at, xs[i], b, p);
      });
    });
    if (first + 1 == Format::together) at += Format::bytes * tile_rows<V>;
  }
  // (constants: an index that is not one keeps all sums in memory)
  each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
    constexpr uint32_t i = HEDDLE_VALUE(a);
    each<parts>([&](auto part) HEDDLE_INLINE_LAMBDA {
      constexpr int p = HEDDLE_VALUE(part);
      store(out + i * out_stride + uint32_t(p * lanes<V>), sum[i][p]);
    });
  });
}

// Part p of a tile with eight rows of activations: weights are unpacked once for all of them, and what they have too
// much is taken from them, not from each sum. One part at a time, so that all sums stay in registers.
template <class Format, int p>
void eight_rows(const uint8_t* at, uint32_t cols, const XRow* xs, float* out, uint32_t out_stride) {
  using V = typename Format::V;
  using I = typename V::I;
  using F = typename V::F;
  constexpr int unrolled = Format::groups / Format::repeat, steps = Format::group / 4;
  F sum[8] = {};
  for (uint32_t b = 0; b < cols / Format::values; ++b, at += Format::bytes * tile_rows<V>) {
    // The fields of a block are read side by side, which the machine does not foresee: 10 % for Q6_K on Neoverse N1.
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
  each<Format::V::parts>(
      [&](auto p) HEDDLE_INLINE_LAMBDA { eight_rows<Format, HEDDLE_VALUE(p)>(tile, cols, xs, out, stride); });
}

template <class Format>
constexpr int offset_of = Format::offset + (Format::wide ? Format::V::wide_offset : 0);

// Rows up to which tiles are read as they are packed.
template <class Format>
constexpr uint32_t most_few = Format::most_few > 1 && Format::V::has_eight_rows ? 8 : Format::most_few;

template <class Format>
void few_rows(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out) {
  constexpr uint32_t rows = uint32_t(tile_rows<typename Format::V>);
  constexpr int offset = offset_of<Format>;
  const uint64_t tile_bytes = uint64_t(cols / (Format::values * Format::together)) * Format::bytes * rows;
  const uint32_t stride = tiles * rows;
  for (uint32_t t = 0; t < tiles; ++t, tile += tile_bytes, out += rows) {
    uint32_t i = 0;
    if constexpr (most_few<Format> == 8) {
      if (count == 8) {
        eight_rows<Format>(tile, cols, xs, out, stride);
        continue;
      }
      if (count == 7) {  // the last one twice: less than 4 + 2 + 1
        const XRow eight[8] = {xs[0], xs[1], xs[2], xs[3], xs[4], xs[5], xs[6], xs[6]};
        float values[8 * rows];
        eight_rows<Format>(tile, cols, eight, values, rows);
        for (uint32_t j = 0; j < 7; ++j) __builtin_memcpy(out + j * stride, values + j * rows, rows * sizeof(float));
        continue;
      }
    }
    if constexpr (Format::most_few > 1) {
      for (; i + 4 <= count; i += 4) tile_product<Format, 4>(tile, cols, offset, xs + i, out + i * stride, stride);
      for (; i + 2 <= count; i += 2) tile_product<Format, 2>(tile, cols, offset, xs + i, out + i * stride, stride);
    }
    if (i < count) tile_product<Format, 1>(tile, cols, offset, xs + i, out + i * stride, stride);
  }
}

template <class S>
void many_rows(const uint8_t* slab, uint32_t cols, int offset, const XRow* xs, uint32_t count, float* out,
               uint32_t stride) {
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4) tile_product<S, 4>(slab, cols, offset, xs + i, out + i * stride, stride);
  for (; i + 2 <= count; i += 2) tile_product<S, 2>(slab, cols, offset, xs + i, out + i * stride, stride);
  if (i < count) tile_product<S, 1>(slab, cols, offset, xs + i, out + i * stride, stride);
}

template <class V>
void fill_products(Isa& isa) {
  using quant::Format;
  const auto put = [&]<class F>(Format format, F*) {
    using S = SlabOf<F>;
    const SlabShape shape{uint32_t(F::values),
                          uint32_t(F::group),
                          F::mins,
                          S::wide && !V::wide_offset,
                          becomes_signed<F> ? 0 : offset_of<F>,
                          uint32_t(S::bytes)};
    isa.tiles[unsigned(format)] = {few_rows<F>, most_few<F>, fill_slab<F>, many_rows<S>, shape};
  };
  put(Format::q4_0, static_cast<Q4_0<V>*>(nullptr));
  put(Format::q4_1, static_cast<Q4_1<V>*>(nullptr));
  put(Format::q5_0, static_cast<Q5_0<V>*>(nullptr));
  put(Format::q5_1, static_cast<Q5_1<V>*>(nullptr));
  put(Format::q8_0, static_cast<Q8_0<V>*>(nullptr));
  put(Format::q2_k, static_cast<Q2_k<V>*>(nullptr));
  put(Format::q3_k, static_cast<Q3_k<V>*>(nullptr));
  put(Format::q4_k, static_cast<Q4_k<V>*>(nullptr));
  put(Format::q5_k, static_cast<Q5_k<V>*>(nullptr));
  put(Format::q6_k, static_cast<Q6_k<V>*>(nullptr));
  put(Format::iq4_nl, static_cast<Iq4_nl<V>*>(nullptr));
  put(Format::iq4_xs, static_cast<Iq4_xs<V>*>(nullptr));
  put(Format::mxfp4, static_cast<Mxfp4<V>*>(nullptr));
  put(Format::nvfp4, static_cast<Nvfp4<V>*>(nullptr));
  put(Format::q1_0, static_cast<Q1_0<V>*>(nullptr));
  put(Format::q2_0, static_cast<Q2_0<V>*>(nullptr));
  put(Format::tq1_0, static_cast<Tq1_0<V>*>(nullptr));
  put(Format::tq2_0, static_cast<Tq2_0<V>*>(nullptr));
  put(Format::iq1_s, static_cast<Iq1_s<V>*>(nullptr));
  put(Format::iq1_m, static_cast<Iq1_m<V>*>(nullptr));
  put(Format::iq2_xxs, static_cast<Iq2_xxs<V>*>(nullptr));
  put(Format::iq2_xs, static_cast<Iq2_xs<V>*>(nullptr));
  put(Format::iq2_s, static_cast<Iq2_s<V>*>(nullptr));
  put(Format::iq3_xxs, static_cast<Iq3_xxs<V>*>(nullptr));
  put(Format::iq3_s, static_cast<Iq3_s<V>*>(nullptr));
}

}  // namespace
}  // namespace heddle::cpu
