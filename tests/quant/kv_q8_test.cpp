// The rule of q8 in a KV cache, worked out in f64 and by hand.
#include "quant/kv_q8.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace heddle::test {
namespace {

using Values = std::array<float, quant::kv_q8_values>;
using Bytes = std::array<int8_t, quant::kv_q8_values>;

TEST(KvQ8, QuotientsAreRoundedToTheNearestEven) {
  Values values{};
  values[0] = -127;  // the scale is 1
  values[1] = 0.5f;
  values[2] = 1.5f;
  values[3] = -2.5f;
  values[4] = 3.4999f;
  values[31] = 126.5f;
  Bytes q;
  EXPECT_EQ(quant::encode_kv_q8(values.data(), q.data()), 0x3c00);
  EXPECT_EQ(
      q, (Bytes{-127, 0, 2, -2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 126}));
}

TEST(KvQ8, RandomValuesByTheRule) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int exponent = -40; exponent < 22; ++exponent) {
    Values values, back;
    for (float& value : values) value = std::ldexp(normal(random), exponent);
    float max = 0;
    for (const float value : values) max = std::max(max, std::abs(value));
    Bytes q;
    const uint16_t half = quant::encode_kv_q8(values.data(), q.data());
    EXPECT_EQ(half, quant::f16_of_f32(max / 127));
    const double scale = quant::f32_of_f16(half);
    quant::decode_kv_q8(half, q.data(), back.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const double quotient = scale == 0 ? 0 : float(double(values[i]) / scale);
      EXPECT_EQ(q[i], std::clamp(std::nearbyint(quotient), -127.0, 127.0)) << exponent;
      EXPECT_EQ(back[i], scale * q[i]);
      // within half a step, and what is lost where the scale was rounded down
      EXPECT_LE(std::abs(back[i] - values[i]), scale == 0 ? max : std::max(0.5 * scale, max - 127 * scale) * 1.0001);
    }
  }
}

TEST(KvQ8, ZerosAndWhatIsTooSmallAreZeros) {
  Values values{};
  Bytes q;
  q.fill(5);
  EXPECT_EQ(quant::encode_kv_q8(values.data(), q.data()), 0);
  EXPECT_EQ(q, Bytes{});
  values[7] = 0x1p-24f * 60;  // less than half of the least scale
  EXPECT_EQ(quant::encode_kv_q8(values.data(), q.data()), 0);
  EXPECT_EQ(q, Bytes{});
  values[7] = 0x1p-24f * 180;  // the scale is the least one: 180 does not fit
  EXPECT_EQ(quant::encode_kv_q8(values.data(), q.data()), 1);
  EXPECT_EQ(q[7], 127);
}

TEST(KvQ8, WhatIsNotANumberStaysSo) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Values values{};
    values[3] = bad;
    Bytes q;
    const uint16_t half = quant::encode_kv_q8(values.data(), q.data());
    quant::decode_kv_q8(half, q.data(), values.data());
    EXPECT_FALSE(std::isfinite(values[3]));
  }
}

}  // namespace
}  // namespace heddle::test
