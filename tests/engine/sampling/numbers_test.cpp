// Random bits, and functions that are the same on every machine, against published vectors and libm.
#include "engine/sampling/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace heddle::engine {
namespace {

TEST(Random, IsPhilox) {
  // the first two words of the published vectors of Philox4x32-10: key and counter all 0, all 1, and digits of pi
  EXPECT_EQ(random_bits(0, 0, 0), 0xe169c58d6627e8d5u);
  EXPECT_EQ(random_bits(~uint64_t(0), ~uint64_t(0), ~uint64_t(0)), 0x41c83b0e408f276du);
  EXPECT_EQ(random_bits(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x0370734413198a2eu), 0x94fdccebd16cfe09u);
}

TEST(Random, UniformIsBelowOne) {
  EXPECT_EQ(uniform(0), 0);
  EXPECT_LT(uniform(~uint64_t(0)), 1);
  double sum = 0;
  for (uint64_t i = 0; i < 100'000; ++i) sum += uniform(random_bits(3, i));
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
  EXPECT_NE(random_bits(1, 2, 0), random_bits(1, 2, 1));
  EXPECT_NE(random_bits(1, 2, 0), random_bits(2, 1, 0));
  EXPECT_NE(random_seed(), random_seed());
}

TEST(SamplingMath, AgreesWithLibm) {
  const auto weight_of = [](float x) { return weights_of(Floats{} + x)[2]; };
  for (float x = 0; x > -24; x -= 0.0137f)
    EXPECT_NEAR(double(weight_of(x)), std::exp(double(x)), 2e-7 * std::exp(double(x)) + 0x1p-35) << x;
  EXPECT_EQ(weight_of(0), 1);
  EXPECT_EQ(weight_of(-30), 0);
  EXPECT_EQ(weight_of(-1e30f), 0);
  EXPECT_EQ(weight_of(-std::numeric_limits<float>::infinity()), 0);
  for (double x = -600; x < 600; x += 0.731) EXPECT_NEAR(exp_of(x) / std::exp(x), 1, 1e-13) << x;
  for (double x = 1e-30; x < 1e30; x *= 1.37)
    EXPECT_NEAR(log_of(x), std::log(x), 1e-15 + 4e-16 * std::abs(std::log(x)));
  EXPECT_EQ(exp_of(-1e9), 0);
  EXPECT_EQ(power_of(0, 0), 1);
  EXPECT_EQ(power_of(0, 2), 0);
  EXPECT_NEAR(power_of(1.75, 10), std::pow(1.75, 10), 1e-11);
}

}  // namespace
}  // namespace heddle::engine
