// To blocks of 32 values; blocks_of_32.cpp has the layouts.
#include "quant/encoders.h"
#include "quant/fit.h"

namespace heddle::quant {
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
      to[i] = uint8_t(q), sum += q;
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
    put_f16(block, b.scale), put_f16(block + 2, b.offset);
    put_nibbles(b, block + 4);
  });
}

void encode_q5_1(const float* values, size_t count, uint8_t* blocks) {
  each_group<n, 24>(values, count, blocks, [](const float* x, uint8_t* block) {
    const Quants b = fitted_line<31>(x);
    put_f16(block, b.scale), put_f16(block + 2, b.offset);
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
    put_f16(block, bytes.scale), put_f16(block + 2, f16_scale(bytes.scale * float(bytes.sum)));
  });
}

}  // namespace heddle::quant
