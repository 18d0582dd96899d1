// Slabs: tiles with weights unpacked to one byte each, once for many rows of activations.
#pragma once
#include "cpu/kernels/formats.h"
#include "cpu/kernels/grids.h"

namespace heddle::cpu {
namespace {

// Weights as bytes, with scales and mins as bytes and f32. Formats of one shape have one kind of slab; max_weight_ as
// in max_weight_of.
template <class V_, int values_, int group_, Mins mins_, bool wide_, int max_weight_ = 0>
struct Slab : Fields<V_> {
  using V = V_;
  using B = typename V::B;
  using F = typename V::F;
  static constexpr int values = values_, group = group_, groups = values <= 32 ? 1 : values / group, repeat = groups;
  static constexpr int together = 1, max_pass = 4, max_weight = max_weight_;
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
// The offset of a format is subtracted in the slab if the instruction set multiplies signed bytes.
template <class Format>
constexpr bool becomes_signed = Format::V::signed_bytes&& Format::mins == Mins::none;
template <class Format>
using SlabOf = Slab<typename Format::V, Format::values, Format::group, Format::mins,
                    Format::wide || becomes_signed<Format>, max_weight_of<Format>>;

// Scale number g of a format that has them as bytes.
template <class Format, int g>
HEDDLE_INLINE typename Format::V::I scale_of(const uint8_t* at, int p) {
  using V = typename Format::V;
  const auto four = Format::template scales<g / 4>(at, p);
  if constexpr (has_byte_of<V>) return V::template byte_of<g % 4>(four);
  return ((typename V::I)four << (24 - 8 * (g % 4))) >> 24;
}

// Unpacks a tile into its slab.
template <class Format>
void fill_slab(const uint8_t* at, uint32_t cols, uint8_t* to) {
  using V = typename Format::V;
  using S = SlabOf<Format>;
  constexpr int unrolled = Format::groups / Format::repeat;
  for (uint32_t b = 0; b < cols / Format::values; ++b, to += S::bytes * tile_rows<V>) {
    const int first = int(b % Format::together);
    for (int p = 0; p < V::vectors; ++p) {
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

}  // namespace
}  // namespace heddle::cpu
