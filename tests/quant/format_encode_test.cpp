// The encoders: their error beside that of ggml's, rows at the ends of what floats can hold, layouts, refusals.
#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/f16.h"
#include "quant/format.h"
#include "quant/half.h"
#include "tests/quant/reference_rows.h"

namespace heddle::quant {
namespace {

std::vector<Format> encoded_formats() {
  std::vector<Format> list;
  for (Format f : all_formats())
    if (can_encode(f)) list.push_back(f);
  return list;
}
std::vector<uint8_t> encoded(Format format, const std::vector<float>& x) {
  std::vector<uint8_t> blocks(row_bytes(format, x.size()), 0xcc);
  encode(format, x.data(), x.size(), blocks.data());
  return blocks;
}
std::vector<float> there_and_back(Format format, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  decode(format, encoded(format, x).data(), x.size(), y.data());
  return y;
}
// Root mean square of the difference over that of x.
double error(const std::vector<float>& x, const std::vector<float>& y) {
  double difference = 0, square = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    difference += (double(y[i]) - x[i]) * (double(y[i]) - x[i]);
    square += double(x[i]) * x[i];
  }
  return std::sqrt(difference / square);
}
std::vector<float> normal_row(size_t count, int power = 1) {
  std::mt19937 rng(7);
  std::normal_distribution<double> normal;
  std::vector<float> x(count);
  for (auto& v : x) {
    const double z = normal(rng);
    v = float(0.02 * z * std::pow(std::abs(z), power - 1));
  }
  return x;
}

TEST(Encode, ErrorIsBelowTheReferences) {
  REFERENCE_ROWS(rows);
  const std::vector<float> source = rows.source();
  fmt::print("format    reference     heddle\n");
  for (Format f : encoded_formats()) {
    if (!rows.has(f)) continue;
    const double reference = error(source, rows.decoded(f)), own = error(source, there_and_back(f, source));
    fmt::print("{:8} {:10.6f} {:10.6f}\n", name(f), reference, own);
    EXPECT_LT(own, reference) << name(f);
  }
}

// What the search leaves of normal values and of their cubes, which have heavy tails. Without it q4_0 leaves 0.0829.
TEST(Encode, ErrorOfNormalAndHeavyTailedRows) {
  const struct {
    Format format;
    double normal, heavy;
  } bounds[] = {
      {Format::f32, 1e-09, 1e-09},      {Format::f16, 0.0002101, 0.0002105}, {Format::bf16, 0.001668, 0.001647},
      {Format::q4_0, 0.0804, 0.1074},   {Format::q4_1, 0.06981, 0.08608},    {Format::q5_0, 0.03977, 0.05787},
      {Format::q5_1, 0.03381, 0.04416}, {Format::q8_0, 0.005288, 0.008519},  {Format::q2_k, 0.2596, 0.2498},
      {Format::q3_k, 0.1436, 0.1476},   {Format::q4_k, 0.07037, 0.08814},    {Format::q5_k, 0.03471, 0.04688},
      {Format::q6_k, 0.01678, 0.02366}, {Format::iq4_nl, 0.0731, 0.08767},   {Format::iq4_xs, 0.07363, 0.08875},
      {Format::mxfp4, 0.1114, 0.132},   {Format::q8_1, 0.005288, 0.008519},  {Format::q8_k, 0.006741, 0.01524},
  };
  const std::vector<float> normal = normal_row(256 * 64), heavy = normal_row(256 * 64, 3);
  size_t bounded = 0;
  for (auto& b : bounds) {
    EXPECT_LT(error(normal, there_and_back(b.format, normal)), b.normal) << name(b.format);
    EXPECT_LT(error(heavy, there_and_back(b.format, heavy)), b.heavy) << name(b.format);
    ++bounded;
  }
  EXPECT_EQ(bounded, encoded_formats().size());
}

TEST(Encode, ZerosAreZeros) {
  for (float zero : {0.0f, -0.0f})
    for (Format f : encoded_formats())
      for (float v : there_and_back(f, std::vector<float>(512, zero))) ASSERT_EQ(v, 0.0f) << name(f);
}

TEST(Encode, ConstantRows) {
  for (Format f : encoded_formats())
    for (float c : {1.0f, -0.37f, 123.4f, 0.05f}) {
      const std::vector<float> x(512, c);
      // mxfp4 has no scale between powers of two: the worst lies between 4 and 6, or 6 and 8
      EXPECT_LT(error(x, there_and_back(f, x)), f == Format::mxfp4 ? 0.25 : 0.005) << name(f) << " " << c;
    }
}

TEST(Encode, OneValueAmongZeros) {
  for (Format f : encoded_formats())
    for (float peak : {3.0f, -3.0f})
      for (size_t place : {0u, 31u, 100u, 255u}) {
        std::vector<float> x(256, 0.0f);
        x[place] = peak;
        const std::vector<float> y = there_and_back(f, x);
        // iq4_nl and iq4_xs have no zero: 1 is the nearest to it when 127 is the largest
        for (size_t i = 0; i < 256; ++i) ASSERT_NEAR(y[i], x[i], 0.025) << name(f) << " " << i;
      }
}

TEST(Encode, OneLargeValueCostsItsGroupOnly) {
  std::vector<float> x = normal_row(256);
  x[70] = 5;
  for (Format f : encoded_formats()) {
    const std::vector<float> y = there_and_back(f, x);
    EXPECT_NEAR(y[70], 5.0f, f == Format::mxfp4 ? 1.01 : 0.1) << name(f);
    for (size_t i = 0; i < 256; ++i) {
      if (i / 32 == 70 / 32) continue;
      ASSERT_NEAR(y[i], x[i], 0.2) << name(f) << " " << i;
    }
  }
}

// Scales that are subnormal as f16, or below all f16: at worst everything is lost, and nothing explodes. (The middle
// between entries of iq4 is up to 12 units of the smallest scale away from them.)
TEST(Encode, TinyRows) {
  for (float size : {1e-5f, 1e-6f, 1e-7f, 1e-9f, 1e-20f, 1e-38f, 1e-44f}) {
    std::vector<float> x = normal_row(512);
    float largest = 0;
    for (auto& v : x) {
      v *= 50 * size;
      largest = std::max(largest, std::abs(v));
    }
    for (Format f : encoded_formats()) {
      const std::vector<float> y = there_and_back(f, x);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(std::abs(y[i] - x[i]), largest + 12 * 0x1p-24f) << name(f) << " " << size;
    }
  }
  // where the scale is an f32 or a power of two they are not even small
  std::vector<float> x = normal_row(512);
  for (auto& v : x) v *= 1e-30f;
  EXPECT_LT(error(x, there_and_back(Format::q8_k, x)), 0.01);
  EXPECT_LT(error(x, there_and_back(Format::mxfp4, x)), 0.12);
  EXPECT_LT(error(x, there_and_back(Format::bf16, x)), 0.002);
}

// Scales beyond f16 are cut: the largest value that the format has, of the right sign.
TEST(Encode, HugeRows) {
  for (float size : {1e5f, 1e7f, 1e10f, 1.3e12f, 1e30f, FLT_MAX}) {
    std::vector<float> x = normal_row(512);
    for (auto& v : x) v = v > 0.02f ? size : v < -0.02f ? -size : 0.0f;
    for (Format f : encoded_formats()) {
      const std::vector<float> y = there_and_back(f, x);
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_TRUE(std::isfinite(y[i])) << name(f) << " " << size;
        ASSERT_LE(std::abs(y[i]), 1.26 * size) << name(f) << " " << size;
        if (x[i] == 0) continue;
        ASSERT_GE(y[i] * std::copysign(1.0f, x[i]), 0.55f * std::min(size, 65504.0f))
            << name(f) << " " << size << " at " << i;
      }
    }
  }
  const std::vector<float> x(32, 1e9f);
  EXPECT_EQ(there_and_back(Format::f16, x)[0], 65504.0f);
  EXPECT_EQ(there_and_back(Format::q8_0, x)[0], 127 * 65504.0f);
  EXPECT_EQ(there_and_back(Format::q4_0, std::vector<float>(32, -1e9f))[0], -8 * 65504.0f);
}

// --- floats ---------------------------------------------------------------------------------------------------------
TEST(Encode, HalvesAreThoseOfBase) {
  auto compare = [](uint32_t bits) {
    const float v = std::bit_cast<float>(bits);
    ASSERT_EQ(f16_of_f32(v), to_f16(v).bits) << fmt::format("{:08x}", bits);
    ASSERT_EQ(bf16_of_f32(v), to_bf16(v).bits) << fmt::format("{:08x}", bits);
    if (!std::isfinite(v)) return;
    uint8_t half[2], brain[2];
    encode(Format::f16, &v, 1, half);
    encode(Format::bf16, &v, 1, brain);
    const float cut = std::clamp(v, -65504.0f, 65504.0f), largest = std::bit_cast<float>(0x7f7f0000u);
    ASSERT_EQ(half[0] | half[1] << 8, to_f16(cut).bits) << fmt::format("{:08x}", bits);
    ASSERT_EQ(brain[0] | brain[1] << 8, to_bf16(std::clamp(v, -largest, largest)).bits) << fmt::format("{:08x}", bits);
  };
  // every f16 and the middle between it and the next one, and what is beside these
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint32_t at = std::bit_cast<uint32_t>(to_f32(f16{uint16_t(i)})), next = at + 0x1000;
    const float after = to_f32(f16{uint16_t(i + 1)});
    const uint32_t middle =
        (i & 0x7fff) < 0x400 ? std::bit_cast<uint32_t>((std::bit_cast<float>(at) + after) / 2) : next;
    for (uint32_t bits : {at - 1, at, at + 1, middle - 1, middle, middle + 1}) compare(bits);
  }
  for (uint32_t i = 0; i < 65536; ++i)  // the same for bf16
    for (uint32_t low : {0u, 0x7fffu, 0x8000u, 0x8001u}) compare(i << 16 | low);
  std::mt19937 rng(3);
  for (int i = 0; i < 200'000; ++i) compare(uint32_t(rng()));
}

// --- layouts --------------------------------------------------------------------------------------------------------
TEST(Encode, Q8_1IsScaleSumAndBytes) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127;  // d = 1: halves go to the even neighbour
  x[1] = 2.5f;
  x[2] = 3.5f;
  x[31] = -100;
  const std::vector<uint8_t> block = encoded(Format::q8_1, x);
  ASSERT_EQ(block.size(), 36u);
  EXPECT_EQ(block[0] | block[1] << 8, to_f16(1).bits);
  EXPECT_EQ(block[2] | block[3] << 8, to_f16(127 + 2 + 4 - 100).bits);
  EXPECT_EQ(int8_t(block[4]), 127);
  EXPECT_EQ(int8_t(block[5]), 2);
  EXPECT_EQ(int8_t(block[6]), 4);
  EXPECT_EQ(int8_t(block[7]), 0);
  EXPECT_EQ(int8_t(block[35]), -100);
}

TEST(Encode, Q8KIsScaleBytesAndSums) {
  std::vector<float> x(256, 0.0f);
  x[0] = -254;  // d = 2
  x[1] = 100;
  x[17] = 6;
  x[255] = 2;
  const std::vector<uint8_t> block = encoded(Format::q8_k, x);
  ASSERT_EQ(block.size(), 292u);
  float d;
  std::memcpy(&d, block.data(), 4);
  EXPECT_EQ(d, 2.0f);
  EXPECT_EQ(int8_t(block[4]), -127);
  EXPECT_EQ(int8_t(block[5]), 50);
  EXPECT_EQ(int8_t(block[21]), 3);
  EXPECT_EQ(int8_t(block[259]), 1);
  auto sum = [&](size_t g) { return int16_t(block[260 + 2 * g] | block[261 + 2 * g] << 8); };
  EXPECT_EQ(sum(0), -77);
  EXPECT_EQ(sum(1), 3);
  EXPECT_EQ(sum(2), 0);
  EXPECT_EQ(sum(15), 1);
}

// Values that a format holds come back: every scale, min and quant has its place.
TEST(Encode, WhatIsOnTheGridStaysThere) {
  const struct {
    Format format;
    int lo, hi;
    float offset;
  } grids[] = {{Format::q4_0, -8, 7, 0},   {Format::q4_1, 0, 15, -3},    {Format::q5_0, -16, 15, 0},
               {Format::q5_1, 0, 31, 5},   {Format::q8_0, -127, 127, 0}, {Format::q3_k, -4, 3, 0},
               {Format::q6_k, -32, 31, 0}, {Format::q4_k, 0, 15, -2},    {Format::q5_k, 0, 31, -4},
               {Format::q2_k, 0, 3, -0.5f}};
  std::mt19937 rng(5);
  for (auto& g : grids) {
    std::vector<float> x(256);
    for (size_t i = 0; i < 256; ++i) {
      const int q = i % 16 == 0 ? g.lo : i % 16 == 1 ? g.hi : g.lo + int(rng() % uint32_t(g.hi - g.lo + 1));
      x[i] = 0.25f * float(q) + g.offset;
    }
    EXPECT_LT(error(x, there_and_back(g.format, x)), 0.0005) << name(g.format);  // of scales as f16
  }
}

// The same blocks on every machine, and in whatever pieces the values come.
TEST(Encode, BlocksAreTheSameEverywhere) {
  std::vector<float> x(10240);
  uint32_t state = 1;
  for (auto& v : x) {
    float sum = -2;  // of four uniform numbers: nearly normal
    for (int k = 0; k < 4; ++k) {
      state = state * 1664525 + 1013904223;
      sum += float(state >> 8) * 0x1p-24f;
    }
    v = sum * 0.03f;
  }
  const struct {
    Format format;
    uint64_t hash;
  } hashes[] = {
      {Format::f32, 0xdba0fecc3f6a4970},   {Format::f16, 0xbef493d943a14bbf},    {Format::bf16, 0x5c6a31cb1fb2ad88},
      {Format::q4_0, 0xbe23989ea32ba81e},  {Format::q4_1, 0x06851de5fd1aed67},   {Format::q5_0, 0x90d7bb9ff2e2321e},
      {Format::q5_1, 0x51b89edec7800eb5},  {Format::q8_0, 0xd1ad0ca031822a02},   {Format::q2_k, 0x26898373901d230f},
      {Format::q3_k, 0x4339a48f1df686f8},  {Format::q4_k, 0xc97df1bff1995d32},   {Format::q5_k, 0x8011d8c5276082dc},
      {Format::q6_k, 0x4ed78e303350c044},  {Format::iq4_nl, 0xe72573fd91f1c36b}, {Format::iq4_xs, 0xaff23921092a994a},
      {Format::mxfp4, 0x5879cdeb3c6e4c32}, {Format::q8_1, 0x5ac0de3e4c868f33},   {Format::q8_k, 0x41fa3c2fee5c605e},
  };
  size_t compared = 0;
  for (auto& [format, want] : hashes) {
    const std::vector<uint8_t> blocks = encoded(format, x);
    uint64_t hash = 0xcbf29ce484222325;
    for (uint8_t b : blocks) hash = (hash ^ b) * 0x100000001b3;
    EXPECT_EQ(hash, want) << fmt::format("{{Format::{}, 0x{:016x}}},", name(format), hash);
    std::vector<uint8_t> pieces;
    for (size_t i = 0; i < x.size(); i += 512) {
      const auto piece = encoded(format, std::vector<float>(x.begin() + long(i), x.begin() + long(i + 512)));
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(pieces, blocks) << name(format);
    ++compared;
  }
  EXPECT_EQ(compared, encoded_formats().size());
}

// --- refusals -------------------------------------------------------------------------------------------------------
std::string encode_message(Format format, const std::vector<float>& x) {
  std::vector<uint8_t> blocks(8 * x.size() + 512);
  try {
    encode(format, x.data(), x.size(), blocks.data());
  } catch (const Error& refused) {
    return refused.what();
  }
  return "";
}
TEST(Encode, RefusesWhatIsNotFinite) {
  for (Format f : encoded_formats()) {
    std::vector<float> x = normal_row(8192);
    EXPECT_EQ(encode_message(f, x), "");
    x[8191] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(encode_message(f, x), "value 8191 is inf") << name(f);
    x[5000] = -x[8191];
    EXPECT_EQ(encode_message(f, x), "value 5000 is -inf") << name(f);
    x[17] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(encode_message(f, x), "value 17 is nan") << name(f);
  }
}

TEST(Encode, RefusesWithAReason) {
  EXPECT_EQ(encode_message(Format::q4_k, std::vector<float>(100)),
            "q4_k: 100 values are not a multiple of its block of 256");
  EXPECT_EQ(encode_message(Format::iq2_xs, std::vector<float>(256)), "iq2_xs can be read but not written");
  EXPECT_EQ(encode_message(Format::q4_k, {}), "");
  EXPECT_EQ(encoded_formats().size(), 18u);
}

}  // namespace
}  // namespace heddle::quant
