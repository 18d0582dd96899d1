// x86-64 with AVX-512, VNNI and products of bf16: BF16 weights with rows of bf16. Everything else is as with VNNI.
#if defined(__x86_64__)
#include "cpu/kernels/bf16_x86.h"

namespace heddle::cpu {
namespace {

// A tile of 16 weight rows, two values of each in a vector, with `count` rows of x: even and odd vectors are summed
// apart, because a sum waits for the one before it.
template <int count>
void tile_of_bf16(const uint8_t* at, uint32_t cols, const XRow* xs, float* out, uint32_t stride) {
  __m512 sum[2][count] = {};
  for (uint32_t c = 0; c < cols; c += 32, at += 1024) {
    prefetch_ahead<Zmm, 1024>(at);
    each<16>([&](auto vector) HEDDLE_INLINE_LAMBDA {
      constexpr int v = HEDDLE_VALUE(vector);
      const auto w = load<__m512bh>(at + 64 * v);
      each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
        constexpr int i = HEDDLE_VALUE(a);
        const __m512i x = _mm512_set1_epi32(load<int32_t>(xs[i].q + 2 * c + 4 * v));
        sum[v % 2][i] = _mm512_dpbf16_ps(sum[v % 2][i], w, (__m512bh)x);
      });
    });
  }
  each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
    constexpr int i = HEDDLE_VALUE(a);
    store(out + uint32_t(i) * stride, sum[0][i] + sum[1][i]);
  });
}

void rows_of_bf16(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out,
                  uint8_t*) {
  const uint32_t stride = tiles * 16;
  for (uint32_t t = 0; t < tiles; ++t, tile += 32 * uint64_t(cols), out += 16) {
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) tile_of_bf16<8>(tile, cols, xs + i, out + uint64_t(i) * stride, stride);
    for (; i + 4 <= count; i += 4) tile_of_bf16<4>(tile, cols, xs + i, out + uint64_t(i) * stride, stride);
    for (; i + 2 <= count; i += 2) tile_of_bf16<2>(tile, cols, xs + i, out + uint64_t(i) * stride, stride);
    if (i < count) tile_of_bf16<1>(tile, cols, xs + i, out + uint64_t(i) * stride, stride);
  }
}

}  // namespace

const Isa& isa_avx512_bf16() {
  static const Isa all = [] {
    Isa isa = isa_avx512_vnni();
    isa.name = "avx512-bf16";
    put_bf16(isa, rows_of_bf16);
    return isa;
  }();
  return all;
}

}  // namespace heddle::cpu
#endif
