// Rotary frequencies against numbers worked out from the definitions.
#include "base/rope_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace heddle {
namespace {

using Kind = RopeScaling::Kind;
constexpr double pi = std::numbers::pi;

TEST(RopeFrequencies, ArePowersOfTheBase) {
  const RopeFrequencies f = rope_frequencies(128, 10000);
  ASSERT_EQ(f.radians.size(), 64u);
  EXPECT_EQ(f.radians[0], 1);
  EXPECT_NEAR(f.radians[32], 0.01, 1e-15);
  EXPECT_NEAR(f.radians[16], 0.1, 1e-15);
  EXPECT_EQ(f.magnitude, 1);
}

TEST(RopeFrequencies, LinearAndFactorsDivide) {
  const RopeFrequencies plain = rope_frequencies(8, 10000);
  const RopeFrequencies linear = rope_frequencies(8, 10000, {.kind = Kind::linear, .factor = 4});
  RopeScaling s{.kind = Kind::factors, .factors = {1, 2, 3, 4}};
  s.attention_factor = 1.19;
  const RopeFrequencies table = rope_frequencies(8, 10000, s);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(linear.radians[i], plain.radians[i] / 4);
    EXPECT_DOUBLE_EQ(table.radians[i], plain.radians[i] / double(i + 1));
  }
  EXPECT_EQ(table.magnitude, 1.19);
}

TEST(RopeFrequencies, NtkKeepsTheHighestAndStretchesTheLowest) {
  const RopeFrequencies plain = rope_frequencies(64, 10000);
  const RopeFrequencies ntk = rope_frequencies(64, 10000, {.kind = Kind::ntk, .factor = 8});
  EXPECT_EQ(ntk.radians.front(), 1);
  EXPECT_NEAR(ntk.radians.back(), plain.radians.back() / 8, 1e-15);
}

TEST(RopeFrequencies, Llama3) {
  // Llama 3.1: wavelengths up to 8192 / 4 are kept, from 8192 / 1 on stretched by 8
  const RopeFrequencies plain = rope_frequencies(128, 500000);
  const RopeFrequencies f = rope_frequencies(128, 500000, {.kind = Kind::llama3, .factor = 8, .original_length = 8192});
  int between = 0;
  for (size_t i = 0; i < 64; ++i) {
    const double wavelength = 2 * pi / plain.radians[i];
    if (wavelength < 2048) {
      EXPECT_EQ(f.radians[i], plain.radians[i]) << i;
    } else if (wavelength > 8192) {
      EXPECT_DOUBLE_EQ(f.radians[i], plain.radians[i] / 8) << i;
    } else {
      const double smooth = (8192 / wavelength - 1) / 3;
      EXPECT_DOUBLE_EQ(f.radians[i], (1 - smooth) * plain.radians[i] / 8 + smooth * plain.radians[i]) << i;
      ++between;
    }
  }
  EXPECT_GT(between, 3);
}

TEST(RopeFrequencies, Yarn) {
  // dim 128, base 10000, 4096 positions: 32 turns at pair 128 ln(4096 / (64 pi)) / (2 ln 10000) = 20.94, one at 45.03
  const RopeFrequencies plain = rope_frequencies(128, 10000);
  RopeScaling s{.kind = Kind::yarn, .factor = 16, .original_length = 4096};
  const RopeFrequencies f = rope_frequencies(128, 10000, s);
  for (size_t i = 0; i <= 20; ++i) EXPECT_DOUBLE_EQ(f.radians[i], plain.radians[i]) << i;
  for (size_t i = 46; i < 64; ++i) EXPECT_DOUBLE_EQ(f.radians[i], plain.radians[i] / 16) << i;
  const double ramp = (33 - 20) / 26.0;
  EXPECT_DOUBLE_EQ(f.radians[33], plain.radians[33] * (1 - ramp) + plain.radians[33] / 16 * ramp);
  EXPECT_DOUBLE_EQ(f.magnitude, 0.1 * std::log(16.0) + 1);

  s.whole = false;
  const double low = 128 * std::log(4096 / (64 * pi)) / (2 * std::log(10000.0));
  const double high = 128 * std::log(4096 / (2 * pi)) / (2 * std::log(10000.0));
  const double exact = (33 - low) / (high - low);
  EXPECT_NEAR(rope_frequencies(128, 10000, s).radians[33],
              plain.radians[33] * (1 - exact) + plain.radians[33] / 16 * exact, 1e-12);

  s.mscale = 0.707;  // cancel each other
  s.mscale_all = 0.707;
  EXPECT_DOUBLE_EQ(rope_frequencies(128, 10000, s).magnitude, 1);
  s.attention_factor = 1.5;
  EXPECT_EQ(rope_frequencies(128, 10000, s).magnitude, 1.5);
}

TEST(RopeFrequencies, TurnsAreFractionsOfACircle) {
  RopeFrequencies f{.radians = {2 * pi * 0.25, 2 * pi * 1.5, 1, 0}, .magnitude = 1};
  const auto turns = f.turns();
  EXPECT_NEAR(double(turns[0]) * 0x1p-64, 0.25, 1e-15);
  EXPECT_NEAR(double(turns[1]) * 0x1p-64, 0.5, 1e-15);
  EXPECT_NEAR(double(turns[2]) * 0x1p-64, 0.5 / pi, 1e-16);
  EXPECT_EQ(turns[3], 0u);
}

TEST(RopeFrequencies, RefusesWhatMakesNoSense) {
  EXPECT_THROW(rope_frequencies(0, 10000), Error);
  EXPECT_THROW(rope_frequencies(7, 10000), Error);
  EXPECT_THROW(rope_frequencies(8, 0), Error);
  EXPECT_THROW(rope_frequencies(8, 10000, {.kind = Kind::linear, .factor = 0}), Error);
  EXPECT_THROW(rope_frequencies(2, 10000, {.kind = Kind::ntk, .factor = 2}), Error);
  EXPECT_THROW(rope_frequencies(8, 10000, {.kind = Kind::yarn, .factor = 2}), Error);
  EXPECT_THROW(rope_frequencies(8, 1, {.kind = Kind::yarn, .factor = 2, .original_length = 4096}), Error);
  EXPECT_THROW(rope_frequencies(8, 10000, {.kind = Kind::llama3, .factor = 8}), Error);
  EXPECT_THROW(
      rope_frequencies(8, 10000, {.kind = Kind::llama3, .factor = 8, .original_length = 8192, .low_factor = 4}), Error);
  EXPECT_THROW(rope_frequencies(8, 10000, {.kind = Kind::factors, .factors = {1, 2, 3}}), Error);
  EXPECT_THROW(rope_frequencies(4, 10000, {.kind = Kind::factors, .factors = {1, 0}}), Error);
}

}  // namespace
}  // namespace heddle
