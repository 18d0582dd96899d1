// To formats whose nibbles name an entry of a table; tables.cpp has the layouts.
#include <array>
#include <cmath>

#include "quant/encoders.h"
#include "quant/fit.h"
#include "quant/tables.h"

namespace heddle::quant {
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
      entry[size_t(place + half)] = uint8_t(best), value[size_t(place + half)] = table[best];
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
        tt += t * t, tv += t * grid.v[i];
      }
      const bool better = double(tv) * tv * best_tt > double(best_tv) * best_tv * tt;
      best_tt = better ? tt : best_tt, best_tv = better ? tv : best_tv;
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
      if (error * square < least) least = error * square, block[0] = uint8_t(e);
    }
    put_entries(x, 1 / mxfp4_half_scale(block[0]), nearest_mxfp4, block + 1);
  });
}

}  // namespace heddle::quant
