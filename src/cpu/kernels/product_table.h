// Which product a format takes: few rows read the weights as they are packed, many rows read them from a slab.
#pragma once
#include "cpu/kernels/product.h"

namespace heddle::cpu {
namespace {

template <class Format>
constexpr int offset_of = Format::offset + (Format::wide ? Format::V::wide_offset : 0);

// The numbers of rows that meet the weights at once: each takes seconds to compile. Nine come after eight, which many
// ask for.
constexpr bool is_size(int rows) { return rows <= 4 || rows % 2 == 0 || rows == 9; }

// A tile with any number of rows, in passes of about as many each: the weights are unpacked in each.
template <class Format>
void any_rows(const uint8_t* tile, uint32_t cols, int offset, const XRow* xs, uint32_t count, float* out,
              uint32_t stride) {
  using V = typename Format::V;
  constexpr int max_pass = Format::max_pass < V::max_pass ? Format::max_pass : V::max_pass;
  for (uint32_t passes = (count + max_pass - 1) / max_pass; passes > 0; --passes) {
    const uint32_t rows = (count + passes - 1) / passes;
    each<max_pass>([&](auto n) HEDDLE_INLINE_LAMBDA {
      constexpr uint32_t size = HEDDLE_VALUE(n) + 1, width = uint32_t(tile_rows<V>);
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
  const uint64_t tile_bytes = uint64_t(cols / (Format::values * Format::together)) * Format::bytes * rows;
  for (uint32_t t = 0; t < tiles; ++t, tile += tile_bytes, out += rows) {
    if constexpr (Format::max_few == 1)
      tile_product<Format, 1>(tile, cols, offset_of<Format>, xs, out, tiles * rows);
    else
      any_rows<Format>(tile, cols, offset_of<Format>, xs, count, out, tiles * rows);
  }
}

template <quant::Format format_, class F_>
struct FormatOf {
  static constexpr quant::Format format = format_;
  using F = F_;
};
// body(FormatOf<format, F>) for each format with packed tiles.
template <class V, class Body>
void each_format(Body&& body) {
  using quant::Format;
  body(FormatOf<Format::q4_0, Q4_0<V>>{});
  body(FormatOf<Format::q4_1, Q4_1<V>>{});
  body(FormatOf<Format::q5_0, Q5_0<V>>{});
  body(FormatOf<Format::q5_1, Q5_1<V>>{});
  body(FormatOf<Format::q8_0, Q8_0<V>>{});
  body(FormatOf<Format::q2_k, Q2_k<V>>{});
  body(FormatOf<Format::q3_k, Q3_k<V>>{});
  body(FormatOf<Format::q4_k, Q4_k<V>>{});
  body(FormatOf<Format::q5_k, Q5_k<V>>{});
  body(FormatOf<Format::q6_k, Q6_k<V>>{});
  body(FormatOf<Format::iq4_nl, Iq4_nl<V>>{});
  body(FormatOf<Format::iq4_xs, Iq4_xs<V>>{});
  body(FormatOf<Format::mxfp4, Mxfp4<V>>{});
  body(FormatOf<Format::nvfp4, Nvfp4<V>>{});
  body(FormatOf<Format::q1_0, Q1_0<V>>{});
  body(FormatOf<Format::q2_0, Q2_0<V>>{});
  body(FormatOf<Format::tq1_0, Tq1_0<V>>{});
  body(FormatOf<Format::tq2_0, Tq2_0<V>>{});
  body(FormatOf<Format::iq1_s, Iq1_s<V>>{});
  body(FormatOf<Format::iq1_m, Iq1_m<V>>{});
  body(FormatOf<Format::iq2_xxs, Iq2_xxs<V>>{});
  body(FormatOf<Format::iq2_xs, Iq2_xs<V>>{});
  body(FormatOf<Format::iq2_s, Iq2_s<V>>{});
  body(FormatOf<Format::iq3_xxs, Iq3_xxs<V>>{});
  body(FormatOf<Format::iq3_s, Iq3_s<V>>{});
}

template <class V>
void fill_products(Isa& isa) {
  each_format<V>([&]<class Of>(Of) {
    using F = typename Of::F;
    using S = SlabOf<F>;
    const SlabShape shape{uint32_t(F::values),
                          uint32_t(F::group),
                          F::mins,
                          S::wide && !V::wide_offset,
                          becomes_signed<F> ? 0 : offset_of<F>,
                          uint32_t(S::bytes)};
    isa.tiles[unsigned(Of::format)] = {few_rows<F>, uint32_t(F::max_few), nullptr, fill_slab<F>, any_rows<S>, shape};
  });
}

}  // namespace
}  // namespace heddle::cpu
