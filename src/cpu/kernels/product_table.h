// Which product a format takes: few rows read the weights as they are packed, many rows read them from a slab.
#pragma once
#include "cpu/kernels/product.h"

namespace heddle::cpu {
namespace {

template <class Format>
constexpr int offset_of = Format::offset + (Format::wide ? Format::V::wide_offset : 0);

// The number of rows up to which tiles are read as they are packed.
template <class Format>
constexpr uint32_t max_few = Format::max_few > 1 && Format::V::has_eight_rows ? 8 : Format::max_few;

template <class Format>
void few_rows(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out,
              uint8_t*) {
  constexpr uint32_t rows = uint32_t(tile_rows<typename Format::V>);
  constexpr int offset = offset_of<Format>;
  const uint64_t tile_bytes = uint64_t(cols / (Format::values * Format::together)) * Format::bytes * rows;
  const uint32_t stride = tiles * rows;
  for (uint32_t t = 0; t < tiles; ++t, tile += tile_bytes, out += rows) {
    uint32_t i = 0;
    if constexpr (max_few<Format> == 8) {
      if (count == 8) {
        eight_rows<Format>(tile, cols, xs, out, stride);
        continue;
      }
      if (count == 7) {  // the last row twice: cheaper than 4 + 2 + 1
        const XRow eight[8] = {xs[0], xs[1], xs[2], xs[3], xs[4], xs[5], xs[6], xs[6]};
        float values[8 * rows];
        eight_rows<Format>(tile, cols, eight, values, rows);
        for (uint32_t j = 0; j < 7; ++j) __builtin_memcpy(out + j * stride, values + j * rows, rows * sizeof(float));
        continue;
      }
    }
    if constexpr (Format::max_few > 1) {
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
    isa.tiles[unsigned(format)] = {few_rows<F>, max_few<F>, fill_slab<F>, many_rows<S>, shape};
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
