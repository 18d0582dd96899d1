// Products of F16 and BF16 weights in tiles of eight rows. bf16: four values of two rows in a vector, with bfmmla; x is
// bf16. f16: one value of eight rows in a vector, with fmlal; x is f16 times a power of two, so that none is too large.
// Each sum has one order, whatever the number of rows is.
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

// The largest magnitude becomes one below 2^15. Rows whose values are all below 2^-119 become 0.
void f16_of_row(const float* x, uint32_t cols, int8_t* to, float* d) {
  uint32x4_t most{};
  for (uint32_t c = 0; c < cols; c += 4) most = vmaxq_u32(most, load<uint32x4_t>(x + c) & 0x7fffffffu);
  const uint32_t exponent = vmaxvq_u32(most) >> 23;
  const bool finite = exponent < 255, tiny = exponent < 8;
  const auto power = [](uint32_t biased) {
    const uint32_t bits = biased << 23;
    return load<float>(&bits);
  };
  // 2^(exponent - 127) <= largest < 2^(exponent - 126)
  const float scale = !finite ? __builtin_nanf("") : tiny ? 0 : power(exponent < 15 ? 1 : exponent - 14);
  const float inverse = !finite || tiny ? 0 : exponent < 15 ? power(253) : 1 / scale;
  *d = scale;
  for (uint32_t c = 0; c < cols; c += 8) {
    const float16x4_t low = vcvt_f16_f32(load<float32x4_t>(x + c) * inverse);
    const float16x8_t both = vcvt_high_f16_f32(low, load<float32x4_t>(x + c + 4) * inverse);
    store(to + 2 * c, finite ? both : float16x8_t{});
  }
}

constexpr int rows_of_halves = 8;

// A tile of f16 with `count` rows.
template <int count>
void f16_rows(const uint8_t* at, uint32_t cols, const XRow* xs, float* out, uint32_t stride) {
  float32x4_t sum[count][2][2] = {};  // of even and odd columns, of rows 0-3 and 4-7
  for (uint32_t c = 0; c < cols; c += 8, at += 128) {
    float16x8_t x[count];
    each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
      constexpr int i = HEDDLE_VALUE(a);
      x[i] = load<float16x8_t>(xs[i].q + 2 * c);
    });
    each<8>([&](auto column) HEDDLE_INLINE_LAMBDA {
      constexpr int l = HEDDLE_VALUE(column);
      const auto w = load<float16x8_t>(at + 16 * l);
      each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
        constexpr int i = HEDDLE_VALUE(a);
        sum[i][l % 2][0] = vfmlalq_laneq_low_f16(sum[i][l % 2][0], w, x[i], l);
        sum[i][l % 2][1] = vfmlalq_laneq_high_f16(sum[i][l % 2][1], w, x[i], l);
      });
    });
  }
  each<count>([&](auto a) HEDDLE_INLINE_LAMBDA {
    constexpr uint32_t i = HEDDLE_VALUE(a);
    each<2>([&](auto half) HEDDLE_INLINE_LAMBDA {
      constexpr int h = HEDDLE_VALUE(half);
      store(out + i * stride + 4 * h, (sum[i][0][h] + sum[i][1][h]) * *xs[i].d);
    });
  });
}
void product_of_f16(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out,
                    uint8_t*) {
  const uint32_t stride = tiles * rows_of_halves;
  for (uint32_t t = 0; t < tiles; ++t, tile += 2 * rows_of_halves * uint64_t(cols), out += rows_of_halves) {
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) f16_rows<4>(tile, cols, xs + i, out + uint64_t(i) * stride, stride);
    float* const rest = out + uint64_t(i) * stride;
    if (count - i == 3) f16_rows<3>(tile, cols, xs + i, rest, stride);
    if (count - i == 2) f16_rows<2>(tile, cols, xs + i, rest, stride);
    if (count - i == 1) f16_rows<1>(tile, cols, xs + i, rest, stride);
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
uint64_t no_scratch(uint32_t) { return 0; }

void product_of_bf16(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out,
                     uint8_t* scratch) {
  const uint32_t stride = tiles * rows_of_halves;
  for (uint32_t row = 0; row < count; row += paired_rows_of_bf16) {
    const uint32_t rows = count - row < paired_rows_of_bf16 ? count - row : paired_rows_of_bf16;
    for (uint32_t i = 0; i < rows; i += 2)
      write_pair(xs[row + i].q, xs[row + (i + 1 < rows ? i + 1 : i)].q, 2 * uint64_t(cols),
                 scratch + i * 2 * uint64_t(cols));
    for (uint32_t t = 0; t < tiles; ++t) {
      const uint8_t* at = tile + t * 2 * rows_of_halves * uint64_t(cols);
      for (uint32_t i = 0; i < rows; i += 8) {
        const uint32_t some = rows - i < 8 ? rows - i : 8;
        const uint8_t* x = scratch + i * 2 * uint64_t(cols);
        float* const here = out + uint64_t(row + i) * stride + t * rows_of_halves;
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
