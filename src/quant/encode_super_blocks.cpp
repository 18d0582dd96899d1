// To super-blocks of 256 values; decode_super_blocks.cpp has the layouts. Each group of 16 or 32 values gets a scale
// (and a min) of its own; these are rounded to multiples of the super-block's scales, and the quants follow with the
// rounded ones.
#include "quant/codecs.h"
#include "quant/fit.h"

namespace heddle::quant {
namespace {

// A super-block of groups with x ~ d * scale * q, the scales from -max_scale to max_scale - 1.
template <int n, int lo, int hi, int max_scale>
struct Scaled {
  static constexpr int groups = 256 / n;
  float d;
  int scale[groups], q[256];  // q less lo: from 0 on

  explicit Scaled(const float* x) {
    float scales[groups];
    for (int g = 0; g < groups; ++g) scales[g] = fit_scale<n, lo, hi>(x + n * g);
    d = fit_signed_unit<groups, max_scale>(scales);
    for (int g = 0; g < groups; ++g) {
      scale[g] = nearest_in(scales[g] * inverse(d), -max_scale, max_scale - 1);
      const float per_quant = inverse(d * float(scale[g]));
      for (int i = 0; i < n; ++i) q[n * g + i] = nearest_in(x[n * g + i] * per_quant, lo, hi) - lo;
    }
  }
};

// A super-block of groups with x ~ d * scale * q - dmin * min.
template <int n, int hi, int highest>
struct ScaledWithMin {
  static constexpr int groups = 256 / n;
  float d, dmin;
  int scale[groups], min[groups], q[256];

  explicit ScaledWithMin(const float* x) {
    Line line[groups];
    float scales[groups], mins[groups];
    for (int g = 0; g < groups; ++g) {
      line[g] = fit_line<n, hi, true>(x + n * g);
      scales[g] = line[g].scale;
    }
    d = fit_unit<groups, highest>(scales);
    for (int g = 0; g < groups; ++g) {
      scale[g] = nearest_in(scales[g] * inverse(d), 0, highest);
      // a clamped scale is far from the fitted one: then the smallest value keeps its place
      const bool clamped = d == 65504.0f;
      mins[g] = std::max(0.0f, -line[g].offset(clamped ? scales[g] : d * float(scale[g])));
    }
    dmin = fit_unit<groups, highest>(mins);
    for (int g = 0; g < groups; ++g) {
      min[g] = nearest_in(mins[g] * inverse(dmin), 0, highest);
      round_group(x + n * g, g);
    }
  }
  void round_group(const float* x, int g) {
    const float per_quant = inverse(d * float(scale[g])), offset = dmin * float(min[g]);
    for (int i = 0; i < n; ++i) q[n * g + i] = nearest_in((x[i] + offset) * per_quant, 0, hi);
  }
};

// Where the quants of a group are stands in decode_super_blocks.cpp.
void put_two_bits(const int* q, uint8_t* to) {
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < 32; ++i) {
      int byte = 0;
      for (int j = 0; j < 4; ++j) byte |= (q[128 * h + 32 * j + i] & 3) << 2 * j;
      to[32 * h + i] = uint8_t(byte);
    }
}
void put_nibble_pairs(const int* q, uint8_t* to) {
  for (int c = 0; c < 4; ++c)
    for (int i = 0; i < 32; ++i) to[32 * c + i] = uint8_t((q[64 * c + i] & 15) | (q[64 * c + 32 + i] & 15) << 4);
}
// Bit `bit` of every quant, those of values 32 * j + i in byte i.
void put_bits(const int* q, int bit, uint8_t* to) {
  for (int i = 0; i < 32; ++i) {
    int byte = 0;
    for (int j = 0; j < 8; ++j) byte |= (q[32 * j + i] >> bit & 1) << j;
    to[i] = uint8_t(byte);
  }
}
void put_pairs_of_six_bits(const int* scale, const int* min, uint8_t* to) {
  for (int j = 0; j < 4; ++j) {
    to[j] = uint8_t(scale[j] | scale[j + 4] >> 4 << 6);
    to[j + 4] = uint8_t(min[j] | min[j + 4] >> 4 << 6);
    to[j + 8] = uint8_t((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
  }
}

}  // namespace

void encode_q2_k(const float* values, size_t count, uint8_t* blocks) {
  each_group<256, 84>(values, count, blocks, [](const float* x, uint8_t* block) {
    const ScaledWithMin<16, 3, 15> b(x);
    for (int g = 0; g < 16; ++g) block[g] = uint8_t(b.scale[g] | b.min[g] << 4);
    put_two_bits(b.q, block + 16);
    put_f16(block + 80, b.d);
    put_f16(block + 82, b.dmin);
  });
}

void encode_q3_k(const float* values, size_t count, uint8_t* blocks) {
  each_group<256, 110>(values, count, blocks, [](const float* x, uint8_t* block) {
    const Scaled<16, -4, 3, 32> b(x);
    put_bits(b.q, 2, block);
    put_two_bits(b.q, block + 32);
    std::fill_n(block + 96, 12, uint8_t(0));
    for (int g = 0; g < 16; ++g) {
      const int scale = b.scale[g] + 32;
      block[96 + g % 8] |= uint8_t((scale & 15) << (g < 8 ? 0 : 4));
      block[104 + g % 4] |= uint8_t(scale >> 4 << 2 * (g / 4));
    }
    put_f16(block + 108, b.d);
  });
}

void encode_q4_k(const float* values, size_t count, uint8_t* blocks) {
  each_group<256, 144>(values, count, blocks, [](const float* x, uint8_t* block) {
    const ScaledWithMin<32, 15, 63> b(x);
    put_f16(block, b.d);
    put_f16(block + 2, b.dmin);
    put_pairs_of_six_bits(b.scale, b.min, block + 4);
    put_nibble_pairs(b.q, block + 16);
  });
}

void encode_q5_k(const float* values, size_t count, uint8_t* blocks) {
  each_group<256, 176>(values, count, blocks, [](const float* x, uint8_t* block) {
    const ScaledWithMin<32, 31, 63> b(x);
    put_f16(block, b.d);
    put_f16(block + 2, b.dmin);
    put_pairs_of_six_bits(b.scale, b.min, block + 4);
    put_bits(b.q, 4, block + 16);
    put_nibble_pairs(b.q, block + 48);
  });
}

void encode_q6_k(const float* values, size_t count, uint8_t* blocks) {
  each_group<256, 210>(values, count, blocks, [](const float* x, uint8_t* block) {
    const Scaled<16, -32, 31, 128> b(x);
    for (int h = 0; h < 2; ++h) {
      const int* q = b.q + 128 * h;
      for (int i = 0; i < 64; ++i) block[64 * h + i] = uint8_t((q[i] & 15) | (q[64 + i] & 15) << 4);
      for (int i = 0; i < 32; ++i) {
        int byte = 0;
        for (int j = 0; j < 4; ++j) byte |= q[32 * j + i] >> 4 << 2 * j;
        block[128 + 32 * h + i] = uint8_t(byte);
      }
    }
    for (int g = 0; g < 16; ++g) block[192 + g] = uint8_t(b.scale[g]);
    put_f16(block + 208, b.d);
  });
}

void encode_q8_k(const float* values, size_t count, uint8_t* blocks) {
  each_group<256, 292>(values, count, blocks, [](const float* x, uint8_t* block) {
    const float d = std::min(largest_magnitude<256>(x) / 127, FLT_MAX / 128);  // so that 127 * d is finite
    put_u32(block, std::bit_cast<uint32_t>(d));
    for (int g = 0; g < 16; ++g) {
      int sum = 0;
      for (int i = 0; i < 16; ++i) {
        const int q = d == 0 ? 0 : nearest_in(x[16 * g + i] / d, -127, 127);
        block[4 + 16 * g + i] = uint8_t(q);
        sum += q;
      }
      put_u16(block + 260 + 2 * g, uint32_t(sum));
    }
  });
}

}  // namespace heddle::quant
