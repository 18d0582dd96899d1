// Which product a format takes: few rows read the weights as they are packed, many rows read them from a slab.
#pragma once
#include "cpu/kernels/product.h"

namespace heddle::cpu {
namespace {

template <class Format>
constexpr int offset_of = Format::offset + (Format::wide ? Format::V::wide_offset : 0);

// The number of rows up to which tiles are read as they are packed.
template <class Format>
constexpr uint32_t max_few = Format::max_few > 1 ? Format::V::max_few : Format::max_few;

// The numbers of rows that are multiplied at once: each takes seconds to compile.
constexpr bool is_size(int rows) { return rows <= 4 || rows % 2 == 0; }

// `count` rows with one tile, up to `most` at once, and about as many each time: the weights are unpacked each time.
template <class Format, int most>
HEDDLE_INLINE void some_rows(const uint8_t* tile, uint32_t cols, int offset, const XRow* xs, uint32_t count, float* out,
                             uint32_t stride) {
  constexpr uint32_t width = uint32_t(tile_rows<typename Format::V>);
  for (uint32_t times = (count + most - 1) / most; times > 0; --times) {
    const uint32_t rows = (count + times - 1) / times;
    each<most>([&](auto n) HEDDLE_INLINE_LAMBDA {
      constexpr uint32_t size = HEDDLE_VALUE(n) + 1;
      if constexpr (is_size(size)) {
        if (rows == size) tile_product<Format, size>(tile, cols, offset, xs, out, stride);
      } else if (rows == size) {  // and the last row again
        XRow more[size + 1];
        float to[(size + 1) * width];
        for (uint32_t i = 0; i <= size; ++i) more[i] = xs[i < size ? i : size - 1];
        tile_product<Format, size + 1>(tile, cols, offset, more, to, width);
        for (uint32_t i = 0; i < size; ++i) __builtin_memcpy(out + i * stride, to + i * width, width * sizeof(float));
      }
    });
    count -= rows;
    xs += rows;
    out += uint64_t(rows) * stride;
  }
}

template <class Format>
void few_rows(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out,
              uint8_t*) {
  constexpr uint32_t rows = uint32_t(tile_rows<typename Format::V>);
  constexpr int offset = offset_of<Format>;
  const uint64_t tile_bytes = uint64_t(cols / (Format::values * Format::together)) * Format::bytes * rows;
  const uint32_t stride = tiles * rows;
  for (uint32_t t = 0; t < tiles; ++t, tile += tile_bytes, out += rows) {
    if constexpr (Format::V::has_eight_rows && Format::max_few > 1) {
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
    some_rows<Format, Format::max_few == 1 ? 1 : Format::V::rows_at_once>(tile, cols, offset, xs, count, out, stride);
  }
}

template <class S>
void many_rows(const uint8_t* slab, uint32_t cols, int offset, const XRow* xs, uint32_t count, float* out,
               uint32_t stride) {
  some_rows < S, S::V::rows_at_once<8 ? S::V::rows_at_once : 8>(slab, cols, offset, xs, count, out, stride);
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
