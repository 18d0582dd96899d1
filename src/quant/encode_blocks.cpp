// Encoders of numbers, of blocks of 32 values with one scale, and of formats with tables. decode_blocks.cpp has the
// layouts.
#include <algorithm>
#include <array>
#include <cmath>

#include "quant/codecs.h"
#include "quant/fit.h"
#include "quant/tables.h"

namespace heddle::quant {

// Floats are rounded to nearest even. A value beyond the largest f16 or bf16 becomes that one: an infinite weight would
// break a model, a clamped one hardly changes it.
void encode_f32(const float* values, size_t count, uint8_t* blocks) {
  for (size_t i = 0; i < count; ++i) put_u32(blocks + 4 * i, std::bit_cast<uint32_t>(values[i]));
}

void encode_f16(const float* values, size_t count, uint8_t* blocks) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t half = f16_of_f32(values[i]);
    put_u16(blocks + 2 * i, (half & 0x7fff) == 0x7c00 ? half - 1 : half);
  }
}

void encode_bf16(const float* values, size_t count, uint8_t* blocks) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    put_u16(blocks + 2 * i, (rounded & 0x7fff) == 0x7f80 ? rounded - 1 : rounded);
  }
}

namespace {

constexpr int n = 32;

// A block with its scale (and offset) as they are in the file. Quants are rounded with those, so that the rounding to
// f16 is no error of its own.
struct Quants {
  float scale, offset;
  int q[n];  // from 0 on

  Quants(const float* x, float scale_, float offset_, int lo, int hi)
      : scale(f16_scale(scale_)), offset(f16_scale(offset_)) {
    const float per_quant = inverse(scale);
    for (int i = 0; i < n; ++i) q[i] = nearest_in((x[i] - offset) * per_quant, lo, hi) - lo;
  }
};
template <int lo, int hi>
Quants fitted_scale(const float* x) {
  return {x, fit_scale<n, lo, hi>(x), 0, lo, hi};
}
template <int hi>
Quants fitted_line(const float* x) {
  const Line line = fit_line<n, hi, false>(x);
  return {x, line.scale, line.offset(line.scale), 0, hi};
}

void put_nibbles(const Quants& b, uint8_t* to) {
  for (int i = 0; i < n / 2; ++i) to[i] = uint8_t((b.q[i] & 15) | (b.q[i + n / 2] & 15) << 4);
}
void put_fifth_bits(const Quants& b, uint8_t* to) {
  uint32_t high = 0;
  for (int i = 0; i < n; ++i) high |= uint32_t(b.q[i] >> 4) << i;
  put_u32(to, high);
}

// 32 int8 for q8_0 and q8_1.
struct Bytes {
  float scale;
  int sum = 0;

  Bytes(const float* x, uint8_t* to) : scale(f16_scale(largest_magnitude<n>(x) * (1.0f / 127))) {
    const float per_quant = inverse(scale);
    for (int i = 0; i < n; ++i) {
      const int q = nearest_in(x[i] * per_quant, -127, 127);
      to[i] = uint8_t(q);
      sum += q;
    }
  }
};

}  // namespace

void encode_q4_0(const float* values, size_t count, uint8_t* blocks) {
  each_group<n, 18>(values, count, blocks, [](const float* x, uint8_t* block) {
    const Quants b = fitted_scale<-8, 7>(x);
    put_f16(block, b.scale);
    put_nibbles(b, block + 2);
  });
}

void encode_q5_0(const float* values, size_t count, uint8_t* blocks) {
  each_group<n, 22>(values, count, blocks, [](const float* x, uint8_t* block) {
    const Quants b = fitted_scale<-16, 15>(x);
    put_f16(block, b.scale);
    put_fifth_bits(b, block + 2);
    put_nibbles(b, block + 6);
  });
}

void encode_q4_1(const float* values, size_t count, uint8_t* blocks) {
  each_group<n, 20>(values, count, blocks, [](const float* x, uint8_t* block) {
    const Quants b = fitted_line<15>(x);
    put_f16(block, b.scale);
    put_f16(block + 2, b.offset);
    put_nibbles(b, block + 4);
  });
}

void encode_q5_1(const float* values, size_t count, uint8_t* blocks) {
  each_group<n, 24>(values, count, blocks, [](const float* x, uint8_t* block) {
    const Quants b = fitted_line<31>(x);
    put_f16(block, b.scale);
    put_f16(block + 2, b.offset);
    put_fifth_bits(b, block + 4);
    put_nibbles(b, block + 8);
  });
}

void encode_q8_0(const float* values, size_t count, uint8_t* blocks) {
  each_group<n, 34>(values, count, blocks,
                    [](const float* x, uint8_t* block) { put_f16(block, Bytes(x, block + 2).scale); });
}

void encode_q8_1_blocks(const float* values, size_t count, uint8_t* blocks) {
  each_group<n, 36>(values, count, blocks, [](const float* x, uint8_t* block) {
    const Bytes bytes(x, block + 4);
    put_f16(block, bytes.scale);
    put_f16(block + 2, f16_scale(bytes.scale * float(bytes.sum)));
  });
}

namespace {

constexpr int block_values = 32;

// Which entry is the nearest to v: `per_unit` places for each unit, from -reach to reach.
template <int reach, int per_unit>
struct Nearest {
  static constexpr int half = reach * per_unit;
  std::array<uint8_t, 2 * half + 1> entry{};
  std::array<int8_t, 2 * half + 1> value{};

  constexpr explicit Nearest(const int8_t (&table)[16]) {
    for (int place = -half; place <= half; ++place) {
      int best = 0;
      for (int e = 1; e < 16; ++e)
        if (distance(table[e], place) < distance(table[best], place)) best = e;
      entry[size_t(place + half)] = uint8_t(best);
      value[size_t(place + half)] = table[best];
    }
  }
  static constexpr int distance(int value, int place) {
    const int d = value * per_unit - place;
    return d < 0 ? -d : d;
  }
  size_t place(float v) const { return size_t(nearest_in(v * per_unit, -half, half) + half); }
};
constexpr Nearest<128, 2> nearest_iq4(iq4_table);
constexpr Nearest<14, 8> nearest_mxfp4(mxfp4_table);

void put_entries(const float* x, float per_unit, const auto& nearest, uint8_t* to) {
  for (int i = 0; i < block_values / 2; ++i) {
    const int low = nearest.entry[nearest.place(x[i] * per_unit)];
    to[i] = uint8_t(low | nearest.entry[nearest.place(x[i + block_values / 2] * per_unit)] << 4);
  }
}

// x ~ scale * iq4_table[q]. Candidates: the value of largest magnitude becomes -127 or 113, or something near them.
float fit_iq4(const float* x) {
  const float largest = largest_magnitude<block_values>(x);
  if (largest < negligible) return 0;
  const OnGrid<block_values, 1 << 18> grid(x, largest);
  int best_tt = 1, best_tv = 0;
  for (int sign : {-1, 1})
    for (float edge : {113.0f, 118.0f, 123.0f, 128.0f, 133.0f}) {
      const float per_unit = float(sign) * edge / largest;
      int tt = 0, tv = 0;
      for (int i = 0; i < block_values; ++i) {
        const int t = nearest_iq4.value[nearest_iq4.place(x[i] * per_unit)];
        tt += t * t;
        tv += t * grid.v[i];
      }
      const bool better = double(tv) * tv * best_tt > double(best_tv) * best_tv * tt;
      best_tt = better ? tt : best_tt;
      best_tv = better ? tv : best_tv;
    }
  return float(double(best_tv) / best_tt) * grid.unit;
}

}  // namespace

void encode_iq4_nl(const float* values, size_t count, uint8_t* blocks) {
  each_group<block_values, 18>(values, count, blocks, [](const float* x, uint8_t* block) {
    const float scale = f16_scale(fit_iq4(x));
    put_f16(block, scale);
    put_entries(x, inverse(scale), nearest_iq4, block + 2);
  });
}

void encode_iq4_xs(const float* values, size_t count, uint8_t* blocks) {
  each_group<256, 136>(values, count, blocks, [](const float* x, uint8_t* block) {
    float scales[8];
    for (int j = 0; j < 8; ++j) scales[j] = fit_iq4(x + block_values * j);
    const float d = fit_signed_unit<8, 32>(scales);
    put_f16(block, d);
    uint32_t high = 0;
    std::fill_n(block + 4, 4, uint8_t(0));
    for (int j = 0; j < 8; ++j) {
      const int scale = nearest_in(scales[j] * inverse(d), -32, 31) + 32;
      high |= uint32_t(scale >> 4) << 2 * j;
      block[4 + j / 2] |= uint8_t((scale & 15) << 4 * (j % 2));
      put_entries(x + block_values * j, inverse(d * float(scale - 32)), nearest_iq4, block + 8 + 16 * j);
    }
    put_u16(block + 2, high);
  });
}

void encode_mxfp4(const float* values, size_t count, uint8_t* blocks) {
  each_group<block_values, 17>(values, count, blocks, [](const float* x, uint8_t* block) {
    // the exponent with which the largest becomes 4 to 8 (6 is the largest entry), or one of its neighbours
    const int exponent = int(std::bit_cast<uint32_t>(largest_magnitude<block_values>(x)) >> 23) - 2;
    float least = INFINITY, square = 0.25f;  // of the scale, in units of the middle one's
    for (int candidate = exponent - 1; candidate <= exponent + 1; ++candidate, square *= 4) {
      const int e = std::clamp(candidate, 1, 252);  // 0 has no inverse, beyond 252 the largest entry is infinite
      const float per_unit = 1 / mxfp4_half_scale(uint32_t(e));
      float error = 0;
      for (int i = 0; i < block_values; ++i) {
        const float v = x[i] * per_unit, rest = v - float(nearest_mxfp4.value[nearest_mxfp4.place(v)]);
        error += rest * rest;
      }
      if (error * square < least) {
        least = error * square;
        block[0] = uint8_t(e);
      }
    }
    put_entries(x, 1 / mxfp4_half_scale(block[0]), nearest_mxfp4, block + 1);
  });
}

}  // namespace heddle::quant
