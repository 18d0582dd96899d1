// Every small float by value: all codes decode to the value their format defines, and encoding finds the nearest code.
#include "base/f16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace heddle {
namespace {

static_assert(std::is_trivially_copyable_v<f16> && sizeof(f16) == 2);
static_assert(std::is_trivially_copyable_v<bf16> && sizeof(bf16) == 2);
static_assert(std::is_trivially_copyable_v<e4m3> && sizeof(e4m3) == 1);
static_assert(std::is_trivially_copyable_v<e5m2> && sizeof(e5m2) == 1);
static_assert(to_f16(1.0) == f16{0x3c00} && to_f32(f16{0x3c00}) == 1.0f);  // usable while building kernels

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// A format by its definition, computed with ldexp: shares nothing with the code under test.
struct F16 {
  using Type = f16;
  static constexpr const char* name = "f16";
  static constexpr int exponent_bits = 5, mantissa_bits = 10, bias = 15;
  static constexpr bool infinities = true, saturates = false;
  static Type encode(double x) { return to_f16(x); }
};
struct Bf16 {
  using Type = bf16;
  static constexpr const char* name = "bf16";
  static constexpr int exponent_bits = 8, mantissa_bits = 7, bias = 127;
  static constexpr bool infinities = true, saturates = false;
  static Type encode(double x) { return to_bf16(x); }
};
struct E4m3 {
  using Type = e4m3;
  static constexpr const char* name = "e4m3";
  static constexpr int exponent_bits = 4, mantissa_bits = 3, bias = 7;
  static constexpr bool infinities = false, saturates = true;
  static Type encode(double x) { return to_e4m3(x); }
};
struct E5m2 {
  using Type = e5m2;
  static constexpr const char* name = "e5m2";
  static constexpr int exponent_bits = 5, mantissa_bits = 2, bias = 15;
  static constexpr bool infinities = true, saturates = true;
  static Type encode(double x) { return to_e5m2(x); }
};

template <class Format>
double value_of(uint32_t code) {
  const uint32_t fraction = code % (1u << Format::mantissa_bits);
  const uint32_t exponent = (code >> Format::mantissa_bits) % (1u << Format::exponent_bits);
  const double sign = code >> (Format::mantissa_bits + Format::exponent_bits) ? -1 : 1;
  const bool top = exponent == (1u << Format::exponent_bits) - 1;
  if (top && Format::infinities) return fraction ? not_a_number : sign * infinity;
  if (top && fraction == (1u << Format::mantissa_bits) - 1) return not_a_number;
  const double scale = std::ldexp(1.0, -Format::mantissa_bits);
  return exponent ? sign * std::ldexp(1 + fraction * scale, static_cast<int>(exponent) - Format::bias)
                  : sign * std::ldexp(fraction * scale, 1 - Format::bias);
}

// The nearest code by search among all values, the even one of two as near.
template <class Format>
uint32_t nearest_code(double x) {
  constexpr uint32_t sign_bit = 1u << (Format::mantissa_bits + Format::exponent_bits);
  static const std::vector<double> finite = [] {  // values of the codes 0, 1, 2 ...: increasing
    std::vector<double> values;
    for (uint32_t code = 0; std::isfinite(value_of<Format>(code)); ++code) values.push_back(value_of<Format>(code));
    return values;
  }();
  if (std::isnan(x)) return sign_bit - 1;
  const uint32_t sign = std::signbit(x) ? sign_bit : 0;
  const double magnitude = std::fabs(x);
  const uint32_t largest = static_cast<uint32_t>(finite.size()) - 1;
  const double last_step = finite[largest] - finite[largest - 1];
  if (magnitude >= finite[largest] + last_step / 2) return sign | (Format::saturates ? largest : largest + 1);
  if (magnitude >= finite[largest]) return sign | largest;
  const auto above = static_cast<uint32_t>(std::upper_bound(finite.begin(), finite.end(), magnitude) - finite.begin());
  const double to_below = magnitude - finite[above - 1], to_above = finite[above] - magnitude;
  const uint32_t even = above % 2 ? above - 1 : above;
  return sign | (to_below < to_above ? above - 1 : to_above < to_below ? above : even);
}

template <class Format>
struct SmallFloat : testing::Test {};
using Formats = testing::Types<F16, Bf16, E4m3, E5m2>;
struct FormatName {
  template <class Format>
  static std::string GetName(int) {
    return Format::name;
  }
};
TYPED_TEST_SUITE(SmallFloat, Formats, FormatName);

template <class Format>
constexpr uint32_t codes = 2u << (Format::mantissa_bits + Format::exponent_bits);

template <class Format>
typename Format::Type from_code(uint32_t code) {
  return {static_cast<decltype(Format::Type::bits)>(code)};
}

TYPED_TEST(SmallFloat, EveryCodeDecodesToItsValue) {
  for (uint32_t code = 0; code < codes<TypeParam>; ++code) {
    const float decoded = to_f32(from_code<TypeParam>(code));
    const double expected = value_of<TypeParam>(code);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(decoded)) << code;
    } else {
      ASSERT_EQ(decoded, expected) << code;
      ASSERT_EQ(std::signbit(decoded), std::signbit(expected)) << code;
    }
  }
}

TYPED_TEST(SmallFloat, EveryFiniteCodeSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < codes<TypeParam>; ++code) {
    const float decoded = to_f32(from_code<TypeParam>(code));
    if (std::isfinite(decoded)) {
      ASSERT_EQ(TypeParam::encode(decoded).bits, code);
    }
  }
}

TYPED_TEST(SmallFloat, TiesGoToTheEvenCodeAndTheirNeighboursToTheNearest) {
  for (uint32_t code = 0; std::isfinite(value_of<TypeParam>(code + 1)); ++code) {
    // the midpoint has one bit more than the format: exact in double
    const double middle = (value_of<TypeParam>(code) + value_of<TypeParam>(code + 1)) / 2;
    const uint32_t sign = codes<TypeParam> / 2;
    ASSERT_EQ(TypeParam::encode(middle).bits, code + code % 2);
    ASSERT_EQ(TypeParam::encode(-middle).bits, sign | (code + code % 2));
    ASSERT_EQ(TypeParam::encode(std::nextafter(middle, 0.0)).bits, code);
    ASSERT_EQ(TypeParam::encode(std::nextafter(middle, infinity)).bits, code + 1);
  }
}

TYPED_TEST(SmallFloat, RandomFloatsFindTheNearestCode) {
  std::mt19937 random(1);
  for (int i = 0; i < 400'000; ++i) {
    const float x =
        std::bit_cast<float>(static_cast<uint32_t>(random()));  // every exponent alike, NaN and infinity too
    ASSERT_EQ(TypeParam::encode(x).bits, nearest_code<TypeParam>(x)) << std::hexfloat << x;
  }
}

TYPED_TEST(SmallFloat, RandomDoublesWithinTheRangeFindTheNearestCode) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> significand(-2, 2);
  std::uniform_int_distribution<int> exponent(-TypeParam::bias - TypeParam::mantissa_bits - 3, TypeParam::bias + 3);
  for (int i = 0; i < 400'000; ++i) {
    const double x = std::ldexp(significand(random), exponent(random));
    ASSERT_EQ(TypeParam::encode(x).bits, nearest_code<TypeParam>(x)) << std::hexfloat << x;
  }
}

TEST(F16, KnownValues) {
  EXPECT_EQ(to_f16(0.0).bits, 0x0000);
  EXPECT_EQ(to_f16(-0.0).bits, 0x8000);
  EXPECT_EQ(to_f16(65504.0).bits, 0x7bff);
  EXPECT_EQ(to_f16(65519.996).bits, 0x7bff);
  EXPECT_EQ(to_f16(65520.0).bits, 0x7c00);  // half a step beyond the largest: infinity
  EXPECT_EQ(to_f16(-1e30f).bits, 0xfc00);
  EXPECT_EQ(to_f16(0x1p-24).bits, 0x0001);
  EXPECT_EQ(to_f16(0x1p-25).bits, 0x0000);  // a tie with zero
  EXPECT_EQ(to_f16(0x1.000002p-25f).bits, 0x0001);
  EXPECT_EQ(to_f16(not_a_number).bits, 0x7fff);
  EXPECT_EQ(to_f16(-not_a_number).bits, 0x7fff);
}

TEST(F16, ADoubleIsRoundedOnce) {
  // By way of f32 this would become the tie 1 + 2^-11, then the even 1.
  EXPECT_EQ(to_f16(1 + 0x1p-11 + 0x1p-40).bits, 0x3c01);
  EXPECT_EQ(to_f16(static_cast<float>(1 + 0x1p-11 + 0x1p-40)).bits, 0x3c00);
  EXPECT_EQ(to_bf16(1 + 0x1p-8 + 0x1p-40).bits, 0x3f81);
  EXPECT_EQ(to_bf16(static_cast<float>(1 + 0x1p-8 + 0x1p-40)).bits, 0x3f80);
}

TEST(Bf16, KnownValues) {
  EXPECT_EQ(to_bf16(1.0).bits, 0x3f80);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::denorm_min()).bits, 0x0000);
  EXPECT_EQ(to_bf16(0x1p-133).bits, 0x0001);
  EXPECT_EQ(to_bf16(not_a_number).bits, 0x7fff);
}

TEST(Fp8, SaturatesAndKeepsNaN) {
  EXPECT_EQ(to_e4m3(448.0).bits, 0x7e);
  EXPECT_EQ(to_e4m3(1e9).bits, 0x7e);
  EXPECT_EQ(to_e4m3(-infinity).bits, 0xfe);
  EXPECT_EQ(to_e4m3(not_a_number).bits, 0x7f);
  EXPECT_EQ(to_e5m2(57344.0).bits, 0x7b);
  EXPECT_EQ(to_e5m2(infinity).bits, 0x7b);
  EXPECT_EQ(to_e5m2(-1e9).bits, 0xfb);
  EXPECT_EQ(to_e5m2(not_a_number).bits, 0x7f);
  EXPECT_EQ(to_f32(e5m2{0x7c}), infinity);
}

}  // namespace
}  // namespace heddle
