// Integer products: tiles of weights with quantised rows. One template serves both ways: few rows read the weights as
// they are packed; many rows read them from a slab, where each weight was made a byte once. The sums of integers are
// exact and the sums of floats have one order, so both give the same bits.
#pragma once
#include "cpu/isa.h"
#include "cpu/kernels/formats.h"

namespace heddle::cpu {
namespace {

// Weights as bytes, with scales and mins as bytes and f32. Formats of one shape have one kind of slab.
template <class V_, int values_, int group_, Mins mins_, bool wide_>
struct Slab : Fields<V_> {
  using V = V_;
  using B = typename V::B;
  using F = typename V::F;
  static constexpr int values = values_, group = group_, groups = values == 32 ? 1 : values / group, repeat = groups;
  static constexpr bool wide = wide_;
  static constexpr Mins mins = mins_;
  static constexpr int steps = group / 4;
  static constexpr int d_field = values, m_field = d_field + 4, scale_field = m_field + (mins == Mins::none ? 0 : 4);
  static constexpr int min_field = scale_field + (groups == 1 ? 0 : groups);
  static constexpr int bytes = min_field + (mins == Mins::scaled ? groups : 0);

  template <int g, int step>
  static HEDDLE_INLINE B weights(const uint8_t* at, int r, int p) {
    return Slab::word(at, 0, r * steps + step, p);
  }
  template <int q>
  static HEDDLE_INLINE B scales(const uint8_t* at, int p) {
    return Slab::word(at, scale_field, q, p);
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
template <class Format>
using SlabOf = Slab<typename Format::V, Format::values, Format::group, Format::mins, Format::wide>;

// What the format gives, written down.
template <class Format>
void fill_slab(const uint8_t* at, uint32_t blocks, uint8_t* to) {
  using V = typename Format::V;
  using S = SlabOf<Format>;
  constexpr int unrolled = Format::groups / Format::repeat;
  for (uint32_t b = 0; b < blocks; ++b, at += Format::bytes * tile_rows<V>, to += S::bytes * tile_rows<V>)
    for (int p = 0; p < V::parts; ++p) {
      for (int r = 0; r < Format::repeat; ++r)
        each<unrolled>([&](auto group) HEDDLE_INLINE_LAMBDA {
          each<S::steps>([&](auto s) HEDDLE_INLINE_LAMBDA {
            constexpr int g = HEDDLE_VALUE(group), step = HEDDLE_VALUE(s);
            S::put(to, 0, (r * unrolled + g) * S::steps + step, p, Format::template weights<g, step>(at, r, p));
          });
        });
      store(to + S::d_field * tile_rows<V> + p * V::width, Format::d(at, p));
      if constexpr (Format::mins != Mins::none) store(to + S::m_field * tile_rows<V> + p * V::width, Format::m(at, p));
      if constexpr (Format::groups > 1)
        each<Format::groups / 4>([&](auto q) HEDDLE_INLINE_LAMBDA {
          constexpr int quad = HEDDLE_VALUE(q);
          S::put(to, S::scale_field, quad, p, Format::template scales<quad>(at, p));
          if constexpr (Format::mins == Mins::scaled)
            S::put(to, S::min_field, quad, p, Format::template min_bytes<quad>(at, p));
        });
    }
}

// The sum of the activations of group g in block b.
template <class Format>
HEDDLE_INLINE int32_t sum_of_group(const XRow& x, uint32_t b, int g) {
  if constexpr (Format::groups == 1) return x.sums[b];
  if constexpr (Format::group == 16) return x.sums[b * 16 + uint32_t(g)];
  return x.sums[b * 16 + 2 * uint32_t(g)] + x.sums[b * 16 + 2 * uint32_t(g) + 1];
}

// The mins of a block with the sums of the activations.
template <class Format>
HEDDLE_INLINE typename Format::V::I dot_of_mins(const uint8_t* at, const XRow& x, uint32_t b, int p) {
  using V = typename Format::V;
  typename V::I low{}, high{};
  if constexpr (Format::groups == 8) {
    const auto parts = V::x(x.parts + b * 48);
    low = V::template dot<0>(low, Format::template min_bytes<0>(at, p), parts);
    low = V::template dot<1>(low, Format::template min_bytes<1>(at, p), parts);
    high = V::template dot<2>(high, Format::template min_bytes<0>(at, p), parts);
    high = V::template dot<3>(high, Format::template min_bytes<1>(at, p), parts);
  } else {
    const auto low_parts = V::x(x.parts + b * 48 + 16), high_parts = V::x(x.parts + b * 48 + 32);
    each<4>([&](auto q) HEDDLE_INLINE_LAMBDA {
      constexpr int quad = HEDDLE_VALUE(q);
      low = V::template dot<quad>(low, Format::template min_bytes<quad>(at, p), low_parts);
      high = V::template dot<quad>(high, Format::template min_bytes<quad>(at, p), high_parts);
    });
  }
  return low + (high << 6);
}

// One tile with `count` rows of activations. `offset` is what the bytes of weights have too much.
template <class Format, int count>
void tile_product(const uint8_t* at, uint32_t blocks, int offset, const XRow* xs, float* out, uint32_t out_stride) {
  using V = typename Format::V;
  using I = typename V::I;
  using F = typename V::F;
  constexpr int parts = V::parts, unrolled = Format::groups / Format::repeat;
  constexpr bool may_have_offset = Format::mins == Mins::none && (!Format::wide || V::wide_offset != 0);
  F sum[count][parts] = {};

  for (uint32_t b = 0; b < blocks; ++b, at += Format::bytes * tile_rows<V>) {
    I scales[Format::groups][parts];
    if constexpr (Format::groups > 1)
      each<Format::groups>([&](auto group) HEDDLE_INLINE_LAMBDA {
        constexpr int g = HEDDLE_VALUE(group);
        for (int p = 0; p < parts; ++p)
          scales[g][p] = ((I)Format::template scales<g / 4>(at, p) << (24 - 8 * (g % 4))) >> 24;
      });
    I total[count][parts] = {};
    for (int r = 0; r < Format::repeat; ++r)
      each<unrolled>([&](auto group) HEDDLE_INLINE_LAMBDA {
        constexpr int g = HEDDLE_VALUE(group);
        const int index = r * unrolled + g;
        I dot[count][parts];
        each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
          constexpr int i = HEDDLE_VALUE(a);
          I begin{};
          if constexpr (may_have_offset) begin = all<V>(-offset * sum_of_group<Format>(xs[i], b, index));
          each<parts>([&](auto p) HEDDLE_INLINE_LAMBDA { dot[i][HEDDLE_VALUE(p)] = begin; });
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
              const auto w = Format::template weights<g, 4 * s + l>(at, r, p);
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
        F value = floats<V>(total[i][p]) * d;
        if constexpr (Format::mins == Mins::scaled)
          value = V::fma(-floats<V>(dot_of_mins<Format>(at, xs[i], b, p)), Format::m(at, p), value);
        if constexpr (Format::mins == Mins::plain)
          value = V::fma(all<V>(float(xs[i].sums[b])), Format::m(at, p), value);
        sum[i][p] = V::fma(value, all<V>(xs[i].d[b]), sum[i][p]);
      });
    });
  }
  for (int a = 0; a < count; ++a)
    for (int p = 0; p < parts; ++p) store(out + uint32_t(a) * out_stride + uint32_t(p * lanes<V>), sum[a][p]);
}

// One tile with any number of rows.
template <class Format>
void tile_products(const uint8_t* at, uint32_t blocks, int offset, const XRow* xs, uint32_t count, float* out,
                   uint32_t stride) {
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4) tile_product<Format, 4>(at, blocks, offset, xs + i, out + i * stride, stride);
  for (; i + 2 <= count; i += 2) tile_product<Format, 2>(at, blocks, offset, xs + i, out + i * stride, stride);
  if (i < count) tile_product<Format, 1>(at, blocks, offset, xs + i, out + i * stride, stride);
}

template <class Format>
constexpr int offset_of = Format::offset + (Format::wide ? Format::V::wide_offset : 0);

// From this many rows on a slab pays: unpacking it costs about as much as two rows.
constexpr uint32_t rows_for_slab = 8;
// Rows of activations that stay in L2 while they meet the tiles of a slab.
constexpr uint32_t rows_at_once = 32;

template <class Format>
void products(const uint8_t* tile, uint32_t tiles, uint32_t blocks, const XRow* xs, uint32_t count, float* out,
              uint8_t* slab) {
  constexpr uint32_t rows = uint32_t(tile_rows<typename Format::V>);
  const uint32_t stride = tiles * rows;
  const uint64_t tile_bytes = uint64_t(blocks) * Format::bytes * rows;
  if (count < rows_for_slab) {
    for (uint32_t t = 0; t < tiles; ++t)
      tile_products<Format>(tile + t * tile_bytes, blocks, offset_of<Format>, xs, count, out + t * rows, stride);
    return;
  }
  using S = SlabOf<Format>;
  const uint64_t slab_bytes = uint64_t(blocks) * S::bytes * rows;
  for (uint32_t t = 0; t < tiles; ++t) fill_slab<Format>(tile + t * tile_bytes, blocks, slab + t * slab_bytes);
  for (uint32_t first = 0; first < count; first += rows_at_once) {
    const uint32_t here = count - first < rows_at_once ? count - first : rows_at_once;
    for (uint32_t t = 0; t < tiles; ++t)
      tile_products<S>(slab + t * slab_bytes, blocks, offset_of<Format>, xs + first, here,
                       out + first * stride + t * rows, stride);
  }
}

// The products of scales are exact, so this is what quant::decode gives.
template <class Format>
void decode_row(const uint8_t* tile, uint32_t blocks, uint32_t row, float* out, uint8_t* slab) {
  using V = typename Format::V;
  using S = SlabOf<Format>;
  constexpr uint32_t rows = uint32_t(tile_rows<V>);
  const auto word_byte = [&](const uint8_t* at, uint32_t field, uint32_t index) {
    return at[(field + index / 4 * 4) * rows + row * 4 + index % 4];
  };
  fill_slab<Format>(tile, blocks, slab);
  for (uint32_t b = 0; b < blocks; ++b, slab += S::bytes * rows) {
    const float d = load<float>(slab + S::d_field * rows + row * 4);
    const float m = Format::mins == Mins::none ? 0 : load<float>(slab + S::m_field * rows + row * 4);
    for (uint32_t i = 0; i < Format::values; ++i) {
      const uint8_t byte = word_byte(slab, 0, i);
      const int q = Format::wide && !V::wide_offset ? int(int8_t(byte)) : int(byte) - offset_of<Format>;
      const uint32_t g = i / Format::group;
      const float scale = Format::groups == 1 ? d : d * float(int8_t(word_byte(slab, S::scale_field, g)));
      float value = scale * float(q);
      if (Format::mins == Mins::scaled) value -= m * float(word_byte(slab, S::min_field, g));
      if (Format::mins == Mins::plain) value += m;
      *out++ = value;
    }
  }
}

template <class V>
void fill_products(Isa& isa) {
  using quant::Format;
  const auto put = [&]<class F>(Format format, F*) {
    isa.products[unsigned(format)] = products<F>;
    isa.decode_row[unsigned(format)] = decode_row<F>;
    isa.slab_bytes[unsigned(format)] = uint32_t(SlabOf<F>::bytes * tile_rows<V>);
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
}

}  // namespace
}  // namespace heddle::cpu
