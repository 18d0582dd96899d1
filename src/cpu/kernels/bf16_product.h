// Products of BF16 weights in tiles of eight rows: four values of two rows in a vector, with bfmmla; x is bf16. Each
// sum has one order, whatever the number of rows is.
#pragma once
#include "cpu/kernels/pairs.h"

namespace heddle::cpu {
namespace {

// What is not finite becomes a NaN.
HEDDLE_INLINE float32x4_t nan_if_infinite(float32x4_t x) { return x + (x - x); }

void bf16_of_row(const float* x, uint32_t cols, int8_t* to) {
  for (uint32_t c = 0; c < cols; c += 8) {
    const bfloat16x8_t low = vcvtq_low_bf16_f32(nan_if_infinite(load<float32x4_t>(x + c)));
    store(to + 2 * c, vcvtq_high_bf16_f32(low, nan_if_infinite(load<float32x4_t>(x + c + 4))));
  }
}

// wp pairs of weight rows from `first` on with xp pairs of rows of x: four values of each row of each pair in turn.
template <int wp, int xp>
void bf16_pairs(const uint8_t* at, uint32_t cols, int first, const uint8_t* xs, float* out, uint32_t stride,
                uint32_t count) {
  float32x4_t sum[2][wp][xp] = {};  // of even and odd fours of values
  at += 16 * first;
  for (uint32_t c = 0; c < cols; c += 8, at += 128, xs += 32 * xp)
    each<2>([&](auto four) HEDDLE_INLINE_LAMBDA {
      constexpr int f = HEDDLE_VALUE(four);
      bfloat16x8_t x[xp];
      each<xp>([&](auto pair) HEDDLE_INLINE_LAMBDA {
        constexpr int i = HEDDLE_VALUE(pair);
        x[i] = load<bfloat16x8_t>(xs + 16 * (f * xp + i));
      });
      each<wp>([&](auto pair) HEDDLE_INLINE_LAMBDA {
        constexpr int w = HEDDLE_VALUE(pair);
        const auto weights = load<bfloat16x8_t>(at + 64 * f + 16 * w);
        each<xp>([&](auto other) HEDDLE_INLINE_LAMBDA {
          constexpr int i = HEDDLE_VALUE(other);
          sum[f][w][i] = vbfmmlaq_f32(sum[f][w][i], weights, x[i]);
        });
      });
    });
  each<xp>([&](auto other) HEDDLE_INLINE_LAMBDA {
    constexpr uint32_t i = HEDDLE_VALUE(other);
    each<wp / 2>([&](auto half) HEDDLE_INLINE_LAMBDA {
      constexpr int h = 2 * HEDDLE_VALUE(half);
      const float32x4_t a = sum[0][h][i] + sum[1][h][i], b = sum[0][h + 1][i] + sum[1][h + 1][i];
      float* to = out + 2 * i * stride + first * 2 + 2 * h;
      store(to, vuzp1q_f32(a, b));
      if (2 * i + 1 < count) store(to + stride, vuzp2q_f32(a, b));
    });
  });
}

uint64_t scratch_of_bf16(uint32_t cols) { return written_pairs * 4 * uint64_t(cols); }

void product_of_bf16(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out,
                     uint8_t* scratch) {
  const uint32_t stride = tiles * rows_of_pairs;
  const uint64_t x_bytes = 4 * uint64_t(cols);  // of a pair
  const Groups groups(count, 5);
  for (uint32_t begin = 0, end; begin < groups.count; begin = end) {
    end = groups.end(begin);
    for (uint32_t g = begin; g < end; ++g)
      for (uint32_t p = 0, row = groups.row(g); p < groups.pairs(g); ++p, row += 2)
        write_pair(xs[row].q, xs[row + 1 < count ? row + 1 : row].q, 2 * uint64_t(cols),
                   scratch + (g - begin) * groups.max * x_bytes + 16 * p, 16 * groups.pairs(g));
    for (uint32_t t = 0; t < tiles; ++t) {
      const uint8_t* at = tile + t * 2 * rows_of_pairs * uint64_t(cols);
      for (uint32_t g = begin; g < end; ++g) {
        const uint32_t pairs = groups.pairs(g), rest = count - groups.row(g);
        const uint8_t* x = scratch + (g - begin) * groups.max * x_bytes;
        float* const here = out + uint64_t(groups.row(g)) * stride + t * rows_of_pairs;
        if (pairs == 1)
          bf16_pairs<4, 1>(at, cols, 0, x, here, stride, rest);
        else
          for (int first = 0; first < 4; first += 2)
            if (pairs == 2)
              bf16_pairs<2, 2>(at, cols, first, x, here, stride, rest);
            else if (pairs == 3)
              bf16_pairs<2, 3>(at, cols, first, x, here, stride, rest);
            else if (pairs == 4)
              bf16_pairs<2, 4>(at, cols, first, x, here, stride, rest);
            else
              bf16_pairs<2, 5>(at, cols, first, x, here, stride, rest);
      }
    }
  }
}

}  // namespace
}  // namespace heddle::cpu
