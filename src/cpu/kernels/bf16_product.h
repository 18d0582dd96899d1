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

// Two pairs of weight rows from `first` on with xp pairs of rows of x, which lie 4 * cols bytes apart, four values of
// each row of a pair in turn.
template <int wp, int xp>
void bf16_pairs(const uint8_t* at, uint32_t cols, int first, const uint8_t* xs, float* out, uint32_t stride,
                uint32_t count) {
  float32x4_t sum[2][wp][xp] = {};  // of even and odd fours of values
  const uint64_t x_bytes = 4 * uint64_t(cols);
  at += 16 * first;
  for (uint32_t c = 0; c < cols; c += 8, at += 128, xs += 32)
    each<2>([&](auto four) HEDDLE_INLINE_LAMBDA {
      constexpr int f = HEDDLE_VALUE(four);
      bfloat16x8_t x[xp];
      each<xp>([&](auto pair) HEDDLE_INLINE_LAMBDA {
        constexpr int i = HEDDLE_VALUE(pair);
        x[i] = load<bfloat16x8_t>(xs + i * x_bytes + 16 * f);
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

// Rows of x that are paired at a time.
constexpr uint32_t paired_rows_of_bf16 = 32;
uint64_t scratch_of_bf16(uint32_t cols) { return paired_rows_of_bf16 * 2 * uint64_t(cols); }

void product_of_bf16(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out,
                     uint8_t* scratch) {
  const uint32_t stride = tiles * rows_of_pairs;
  for (uint32_t row = 0; row < count; row += paired_rows_of_bf16) {
    const uint32_t rows = count - row < paired_rows_of_bf16 ? count - row : paired_rows_of_bf16;
    for (uint32_t i = 0; i < rows; i += 2)
      write_pair(xs[row + i].q, xs[row + (i + 1 < rows ? i + 1 : i)].q, 2 * uint64_t(cols),
                 scratch + i * 2 * uint64_t(cols));
    for (uint32_t t = 0; t < tiles; ++t) {
      const uint8_t* at = tile + t * 2 * rows_of_pairs * uint64_t(cols);
      for (uint32_t i = 0; i < rows; i += 8) {
        const uint32_t some = rows - i < 8 ? rows - i : 8;
        const uint8_t* x = scratch + i * 2 * uint64_t(cols);
        float* const here = out + uint64_t(row + i) * stride + t * rows_of_pairs;
        if (some <= 2)
          bf16_pairs<4, 1>(at, cols, 0, x, here, stride, some);
        else
          for (int first = 0; first < 4; first += 2)
            if (some <= 4)
              bf16_pairs<2, 2>(at, cols, first, x, here, stride, some);
            else if (some <= 6)
              bf16_pairs<2, 3>(at, cols, first, x, here, stride, some);
            else
              bf16_pairs<2, 4>(at, cols, first, x, here, stride, some);
      }
    }
  }
}

}  // namespace
}  // namespace heddle::cpu
