// aarch64 with smmla (ARMv8.6 i8mm): many rows. It multiplies two rows of eight values with two others, so a slab has
// pairs of weight rows with eight values each; everything else is as with sdot.
#if defined(__aarch64__)
#include <utility>

#include "cpu/kernels/bf16_product.h"
#include "cpu/kernels/pairs_product.h"
#include "cpu/kernels/product.h"
#include "cpu/vectors_neon.h"

namespace heddle::cpu {
namespace {

static_assert(tile_rows<Neon> == 8);

// The words of rows 0-3 and 4-7, and the next words of the same, become four pairs of rows.
void pair_rows(uint8_t* slab, const SlabShape& shape, uint32_t cols) {
  for (uint32_t b = 0; b < cols / shape.values; ++b, slab += shape.bytes * 8)
    for (uint8_t* at = slab; at < slab + shape.values * 8; at += 64) {
      uint32x4_t words[4];
      for (int i = 0; i < 4; ++i) words[i] = load<uint32x4_t>(at + 16 * i);
      store(at, vzip1q_u32(words[0], words[2]));
      store(at + 16, vzip2q_u32(words[0], words[2]));
      store(at + 32, vzip1q_u32(words[1], words[3]));
      store(at + 48, vzip2q_u32(words[1], words[3]));
    }
}

HEDDLE_INLINE int32x4_t first_halves(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
HEDDLE_INLINE int32x4_t last_halves(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

// A tile with four rows. A vector of sums is x0 w0, x0 w1, x1 w0, x1 w1 of a pair of each until a block ends; from
// there on all is as in tile_product.
template <class S>
void four_rows(const uint8_t* at, uint32_t cols, const XRow* xs, float* out, uint32_t stride) {
  float32x4_t sum[4][2] = {};
  for (uint32_t b = 0; b < cols / S::values; ++b, at += S::bytes * 8) {
    int32x4_t total[2][4] = {};
    for (int g = 0; g < S::groups; ++g) {
      int32x4_t dot[2][4];
      for (int a = 0; a < 2; ++a)
        for (int w = 0; w < 4; ++w) dot[a][w] = Neon::zero();
      each<S::group / 16>([&](auto sixteen) HEDDLE_INLINE_LAMBDA {
        constexpr int s = HEDDLE_VALUE(sixteen);
        int32x4_t x[4];
        for (int i = 0; i < 4; ++i) x[i] = load<int32x4_t>(xs[i].q + b * S::values + uint32_t(g * S::group + 16 * s));
        each<2>([&](auto half) HEDDLE_INLINE_LAMBDA {
          constexpr int h = HEDDLE_VALUE(half);
          int8x16_t pair[2];
          for (int a = 0; a < 2; ++a)
            pair[a] =
                vreinterpretq_s8_s32(h ? last_halves(x[2 * a], x[2 * a + 1]) : first_halves(x[2 * a], x[2 * a + 1]));
          const uint8_t* weights = at + (g * S::group + 16 * s + 8 * h) * 8;
          for (int w = 0; w < 4; ++w) {
            const int8x16_t rows = load<int8x16_t>(weights + 16 * w);
            for (int a = 0; a < 2; ++a) dot[a][w] = vmmlaq_s32(dot[a][w], pair[a], rows);
          }
        });
      });
      for (int p = 0; p < 2; ++p) {
        int32x4_t scale[2];  // of each pair of rows, twice
        if constexpr (S::groups > 1) {
          const int32x4_t four = S::scale(at, g, p);
          scale[0] = first_halves(four, four);
          scale[1] = last_halves(four, four);
        }
        for (int a = 0; a < 2; ++a)
          for (int w = 0; w < 2; ++w) {
            int32x4_t& to = total[a][2 * p + w];
            if constexpr (S::groups > 1)
              to += dot[a][2 * p + w] * scale[w];
            else
              to = dot[a][2 * p + w];
          }
      }
    }
    for (int p = 0; p < 2; ++p) {
      const float32x4_t d = S::d(at, p);
      for (int i = 0; i < 4; ++i) {
        const int32x4_t* both = total[i / 2] + 2 * p;
        const int32x4_t row = i % 2 ? last_halves(both[0], both[1]) : first_halves(both[0], both[1]);
        sum[i][p] = with_block<S>(sum[i][p], row, d, at, xs[i], b, p);
      }
    }
  }
  for (uint32_t i = 0; i < 4; ++i)
    for (uint32_t p = 0; p < 2; ++p) store(out + i * stride + 4 * p, sum[i][p]);
}

template <class S>
void many_rows_in_pairs(const uint8_t* slab, uint32_t cols, int, const XRow* xs, uint32_t count, float* out,
                        uint32_t stride) {
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4) four_rows<S>(slab, cols, xs + i, out + i * stride, stride);
  if (i == count) return;
  XRow rest[4];  // padded with the last one
  float values[4 * 8];
  for (uint32_t j = 0; j < 4; ++j) rest[j] = xs[i + j < count ? i + j : count - 1];
  four_rows<S>(slab, cols, rest, values, 8);
  for (uint32_t j = 0; i + j < count; ++j) __builtin_memcpy(out + (i + j) * stride, values + j * 8, 8 * sizeof(float));
}

template <int values, int group, Mins mins, bool wide>
void put(Isa& isa) {
  for (TileKernels& kernels : isa.tiles) {
    const SlabShape& shape = kernels.slab;
    if (kernels.few && shape.values == values && shape.group == group && shape.mins == mins && shape.is_signed == wide)
      kernels.many = many_rows_in_pairs<Slab<Neon, values, group, mins, wide>>;
  }
}

void put_pairs(Isa& isa, quant::Format format, decltype(TileKernels::few) few,
               decltype(TileKernels::few_scratch) scratch) {
  TileKernels kernels{};
  kernels.few = few;
  kernels.max_few = UINT32_MAX;
  kernels.few_scratch = scratch;
  kernels.pairs = true;
  isa.tiles[unsigned(format)] = kernels;
}
template <class P>
void put_pairs(Isa& isa, quant::Format format) {
  put_pairs(isa, format, product_of_pairs<P>, scratch_of_pairs<P>);
}

}  // namespace

const Isa& isa_neon_i8mm() {
  static const Isa all = [] {
    Isa isa = isa_neon_dotprod();
    isa.name = "neon-i8mm";
    isa.arrange = pair_rows;
    for (TileKernels& kernels : isa.tiles) {
      kernels.many = nullptr;
      if (kernels.max_few > 7) kernels.max_few = 7;  // smmla is worth a slab from there on
    }
    put<16, 16, Mins::none, true>(isa);
    put<32, 32, Mins::none, true>(isa);
    put<32, 32, Mins::plain, false>(isa);
    put<256, 16, Mins::none, true>(isa);
    put<256, 16, Mins::scaled, false>(isa);
    put<256, 32, Mins::none, true>(isa);
    put<256, 32, Mins::scaled, false>(isa);
    put_pairs<PairsQ4_0>(isa, quant::Format::q4_0);
    put_pairs<PairsQ8_0>(isa, quant::Format::q8_0);
    put_pairs<PairsIq4_nl>(isa, quant::Format::iq4_nl);
    put_pairs<PairsMxfp4>(isa, quant::Format::mxfp4);
    put_pairs<PairsQ4_k>(isa, quant::Format::q4_k);
    put_pairs<PairsQ5_k>(isa, quant::Format::q5_k);
    put_pairs<PairsQ6_k>(isa, quant::Format::q6_k);
    put_pairs<PairsIq4_xs>(isa, quant::Format::iq4_xs);
    put_pairs(isa, quant::Format::bf16, product_of_bf16, scratch_of_bf16);
    isa.bf16_of_row = bf16_of_row;
    return isa;
  }();
  return all;
}

}  // namespace heddle::cpu
#endif
