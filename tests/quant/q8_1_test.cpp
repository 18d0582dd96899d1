// Activations as q8_1: known blocks, rounding, and the error that is left.
#include "quant/q8_1.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "base/f16.h"

namespace heddle::quant {
namespace {

f16 half(const std::vector<uint8_t>& row, size_t at) { return {uint16_t(row[at] | row[at + 1] << 8)}; }

TEST(Q8_1, RowsAreTwoPlanes) {
  EXPECT_EQ(q8_1_row_bytes(0), 0u);
  EXPECT_EQ(q8_1_row_bytes(32), 48u);  // 32 + 4, filled up
  EXPECT_EQ(q8_1_row_bytes(256), 288u);
  EXPECT_THROW(q8_1_row_bytes(40), Error);

  std::vector<float> x(64);
  x[0] = 127;  // d = 1: halves go to the even neighbour
  x[1] = 2.5f;
  x[2] = 3.5f;
  x[3] = -2.5f;
  x[32] = -254;  // d = 2
  x[63] = 1;     // half a step
  std::vector<uint8_t> row(q8_1_row_bytes(64), 0xcc);
  encode_q8_1(x.data(), 64, row.data());
  EXPECT_EQ(int8_t(row[0]), 127);
  EXPECT_EQ(int8_t(row[1]), 2);
  EXPECT_EQ(int8_t(row[2]), 4);
  EXPECT_EQ(int8_t(row[3]), -2);
  EXPECT_EQ(int8_t(row[32]), -127);
  EXPECT_EQ(int8_t(row[63]), 0);
  EXPECT_EQ(half(row, 64), to_f16(1));
  EXPECT_EQ(half(row, 66), to_f16(131));
  EXPECT_EQ(half(row, 68), to_f16(2));
  EXPECT_EQ(half(row, 70), to_f16(-254));
  EXPECT_EQ(q8_1_sum(row.data(), 64, 0), 131.0f);
  EXPECT_EQ(q8_1_sum(row.data(), 64, 1), -254.0f);
}

TEST(Q8_1, ZerosAreZeros) {
  std::vector<float> x(32, 0.0f), back(32, 1.0f);
  std::vector<uint8_t> row(q8_1_row_bytes(32), 0xcc);
  encode_q8_1(x.data(), 32, row.data());
  for (uint8_t b : row) EXPECT_EQ(b, 0);
  decode_q8_1(row.data(), 32, back.data());
  EXPECT_EQ(back, x);
}

TEST(Q8_1, WhatIsNotFiniteIsNotANumber) {
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY})
    for (const size_t at : {0u, 17u, 31u}) {
      std::vector<float> x(96, 1.0f), back(96);
      x[32 + at] = bad;
      std::vector<uint8_t> row(q8_1_row_bytes(96));
      encode_q8_1(x.data(), 96, row.data());
      decode_q8_1(row.data(), 96, back.data());
      for (size_t i = 0; i < 96; ++i) EXPECT_EQ(std::isnan(back[i]), i / 32 == 1) << bad << " at " << at << ": " << i;
      EXPECT_TRUE(std::isnan(q8_1_sum(row.data(), 96, 1)));
    }
}

TEST(Q8_1, IsWithinHalfAStep) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(4096), back(4096);
  for (auto& v : x) v = normal(rng);
  std::vector<uint8_t> row(q8_1_row_bytes(4096));
  encode_q8_1(x.data(), 4096, row.data());
  decode_q8_1(row.data(), 4096, back.data());
  for (size_t i = 0; i < x.size(); ++i) {
    float largest = 0;
    for (size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) largest = std::max(largest, std::abs(x[j]));
    // half a step, and d as f16
    EXPECT_NEAR(back[i], x[i], largest / 127 * 0.5001f + std::abs(x[i]) * 0x1p-11f) << i;
  }
}

}  // namespace
}  // namespace heddle::quant
