// The scalar decoders bit for bit against blocks that ggml encoded and decoded, and against the definitions.
#include "quant/format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/f16.h"
#include "tests/quant/reference_rows.h"

namespace heddle::quant {
namespace {

struct Hashed {
  Format format;
  std::vector<size_t> scales;  // bytes with the high half of an f16 (of iq1_m: with the high quarter)
  uint64_t hash;
};
// What ggml 0.27 decodes from blocks of random bytes with finite f16.
const std::vector<Hashed> hashed = {
    {Format::q4_0, {1}, 0xb7259f47cfd25725},    {Format::q4_1, {1, 3}, 0x67f8b2165e05d8e5},
    {Format::q5_0, {1}, 0x7f4f2af834d4a725},    {Format::q5_1, {1, 3}, 0x93ad469fc8904085},
    {Format::q8_0, {1}, 0xee3f7e8b27c5ed65},    {Format::q2_k, {81, 83}, 0xdb173bbd4b050395},
    {Format::q3_k, {109}, 0x38d56addbd64eba5},  {Format::q4_k, {1, 3}, 0x7d0b5d8781e2907e},
    {Format::q5_k, {1, 3}, 0x35777c950d116a5b}, {Format::q6_k, {209}, 0xd6845f4b199c617b},
    {Format::iq4_nl, {1}, 0x21a83ae8ceb1b325},  {Format::iq4_xs, {1}, 0xc3214137af31c57b},
    {Format::mxfp4, {}, 0x6ccb7acd1b4c2325},    {Format::nvfp4, {}, 0x370c1f1803a22325},
    {Format::iq1_s, {1}, 0xe7f193db1cdf6fa5},   {Format::iq1_m, {55}, 0xb9011e7e70c4d7c5},
    {Format::iq2_xxs, {1}, 0x9e56d815b5ec7219}, {Format::iq2_xs, {1}, 0x12e8df8dd8cd3151},
    {Format::iq2_s, {1}, 0x0863168872498ea9},   {Format::iq3_xxs, {1}, 0x74b7adf3b3178425},
    {Format::iq3_s, {1}, 0x963726a54a533ad5},   {Format::tq1_0, {53}, 0x7a519440974f8325},
    {Format::tq2_0, {65}, 0x6e8f5087071da325},  {Format::q1_0, {1}, 0xded71cc291dae325},
    {Format::q2_0, {1}, 0x4285d6c301b60325},
};

TEST(Format, RandomBlocksAreWhatGgmlDecodes) {
  for (const Hashed& h : hashed) {
    constexpr size_t count = 1024;  // every entry of every codebook occurs
    const size_t bytes = block_bytes(h.format), values = count * block_values(h.format);
    std::vector<uint8_t> blocks(count * bytes);
    uint32_t state = 1;
    for (auto& b : blocks) {
      state = state * 1664525 + 1013904223;
      b = uint8_t(state >> 24);
    }
    for (size_t i = 0; i < count; ++i)
      for (size_t s : h.scales) blocks[i * bytes + s] = uint8_t((blocks[i * bytes + s] & 0x8f) | 0x20);

    std::vector<float> out(values);
    decode(h.format, blocks.data(), values, out.data());
    uint64_t hash = 0xcbf29ce484222325;
    for (float v : out) hash = (hash ^ std::bit_cast<uint32_t>(v)) * 0x100000001b3;
    EXPECT_EQ(hash, h.hash) << name(h.format);
  }
}

TEST(Format, RowsAreWhatGgmlDecodes) {
  REFERENCE_ROWS(rows);
  size_t compared = 0;
  for (Format f : all_formats()) {
    if (!rows.has(f)) continue;
    EXPECT_EQ(rows.type(f), gguf_type(f));
    const std::vector<float> want = rows.decoded(f);
    std::vector<float> got(want.size());
    decode(f, rows.blocks(f), got.size(), got.data());
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i])) << name(f) << " value " << i;
    ++compared;
  }
  EXPECT_EQ(compared, 25u);
}

TEST(Format, EveryQuantisedFormatIsCompared) {
  for (Format f : all_formats()) {
    bool found = is_float(f) || is_integer(f) || f == Format::q8_1 || f == Format::q8_k;
    for (const Hashed& h : hashed) found |= h.format == f;
    EXPECT_TRUE(found) << name(f);
  }
}

// --- definitions ----------------------------------------------------------------------------------------------------
TEST(Format, FloatsAreThemselves) {
  const uint8_t bytes[] = {0x00, 0x3c, 0xc0, 0x3f};  // f16 1.0 and 1.9375; bf16 0.0078125 and 1.5; f32 1.5018311
  float out[2];
  decode(Format::f16, bytes, 2, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 1.9375f);
  decode(Format::bf16, bytes, 2, out);
  EXPECT_EQ(out[0], 0.0078125f);
  EXPECT_EQ(out[1], 1.5f);
  decode(Format::f32, bytes, 1, out);
  EXPECT_EQ(std::bit_cast<uint32_t>(out[0]), 0x3fc03c00u);
}

TEST(Format, F16IsDecodedAsInBase) {
  std::vector<uint8_t> bytes(2 * 65536);
  for (size_t i = 0; i < 65536; ++i) {
    bytes[2 * i] = uint8_t(i);
    bytes[2 * i + 1] = uint8_t(i >> 8);
  }
  std::vector<float> out(65536);
  decode(Format::f16, bytes.data(), 65536, out.data());
  for (uint32_t i = 0; i < 65536; ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(to_f32(f16{uint16_t(i)}))) << i;
}

template <class T>
std::vector<float> decoded(Format format, const std::vector<T>& values) {
  EXPECT_EQ(block_bytes(format), sizeof(T));
  std::vector<float> out(values.size());
  decode(format, reinterpret_cast<const uint8_t*>(values.data()), values.size(), out.data());
  return out;
}
TEST(Format, NumbersBecomeTheNearestF32) {
  EXPECT_EQ(decoded<int8_t>(Format::i8, {-128, 0, 127}), (std::vector<float>{-128, 0, 127}));
  EXPECT_EQ(decoded<int16_t>(Format::i16, {-32768, 255, 32767}), (std::vector<float>{-32768, 255, 32767}));
  EXPECT_EQ(decoded<int32_t>(Format::i32, {INT32_MIN, 16777217, INT32_MAX}),
            (std::vector<float>{-0x1p31f, 16777216, 0x1p31f}));
  EXPECT_EQ(decoded<int64_t>(Format::i64, {INT64_MIN, -1, INT64_MAX}), (std::vector<float>{-0x1p63f, -1, 0x1p63f}));
  EXPECT_EQ(decoded<double>(Format::f64, {-1.5, 0.1, 1e300, 1e-300}),
            (std::vector<float>{-1.5f, 0.1f, std::numeric_limits<float>::infinity(), 0}));
}

TEST(Format, Q8_1IsScaleSumAndBytes) {
  uint8_t block[36] = {0x00, 0x38, 0x34, 0x12, 0x80, 0x7f, 0xff};  // d = 0.5, a sum that is not looked at
  block[35] = 3;
  float out[32];
  decode(Format::q8_1, block, 32, out);
  EXPECT_EQ(out[0], -64.0f);
  EXPECT_EQ(out[1], 63.5f);
  EXPECT_EQ(out[2], -0.5f);
  EXPECT_EQ(out[30], 0.0f);
  EXPECT_EQ(out[31], 1.5f);
}

TEST(Format, Q8KIsScaleBytesAndSums) {
  std::vector<uint8_t> block(292, 0xcc);  // 0xcc is -52
  block[0] = 0x00;                        // f32 0.25
  block[1] = 0x00;
  block[2] = 0x80;
  block[3] = 0x3e;
  block[4] = 0x80;
  block[259] = 0x7f;
  float out[256];
  decode(Format::q8_k, block.data(), 256, out);
  EXPECT_EQ(out[0], -32.0f);
  EXPECT_EQ(out[1], -13.0f);
  EXPECT_EQ(out[255], 31.75f);
}

TEST(Format, Nvfp4ScalesAreE4M3WithoutSign) {
  uint8_t block[36] = {};
  for (int i = 4; i < 36; ++i) block[i] = 0xf7;  // entries 7 (6.0) and 15 (-6.0)
  for (int e = 0; e < 256; ++e) {
    block[1] = uint8_t(e);
    float out[64];
    decode(Format::nvfp4, block, 64, out);
    const float scale = e % 128 < 8 ? std::ldexp(float(e % 8), -9) : std::ldexp(1 + float(e % 8) / 8, e % 128 / 8 - 7);
    EXPECT_EQ(out[16], e == 0x7f ? 0 : 6 * scale) << e;
    EXPECT_EQ(out[31], e == 0x7f ? 0 : -6 * scale) << e;
    EXPECT_EQ(out[32], 0.0f);
  }
}

TEST(Format, Mxfp4ScalesOverAllExponents) {
  uint8_t block[17] = {0, 0x91};  // value 0 is entry 1 (0.5), value 16 entry 9 (-0.5)
  for (int e = 0; e < 256; ++e) {
    block[0] = uint8_t(e);
    float out[32];
    decode(Format::mxfp4, block, 32, out);
    EXPECT_EQ(out[0], std::ldexp(0.5f, e - 127)) << e;
    EXPECT_EQ(out[16], -std::ldexp(0.5f, e - 127)) << e;
    EXPECT_EQ(out[1], 0.0f);
  }
}

// The other direction, written from the other end: put 16 six-bit numbers into the 12 bytes of q4_k and q5_k.
void pack_scales(const uint8_t scale[8], const uint8_t min[8], uint8_t packed[12]) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = uint8_t(scale[j] | (scale[j + 4] >> 4) << 6);
    packed[j + 4] = uint8_t(min[j] | (min[j + 4] >> 4) << 6);
    packed[j + 8] = uint8_t((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
  }
}
void put(uint8_t* to, f16 v) {
  to[0] = uint8_t(v.bits);
  to[1] = uint8_t(v.bits >> 8);
}

TEST(Format, Q4KAndQ5KFindEveryScaleMinAndQuant) {
  std::mt19937 rng(2);
  for (int round = 0; round < 200; ++round) {
    uint8_t scale[8], min[8], quant[256], four[144] = {}, five[176] = {};
    for (int j = 0; j < 8; ++j) {
      scale[j] = uint8_t(rng() & 63);
      min[j] = uint8_t(rng() & 63);
    }
    for (auto& q : quant) q = uint8_t(rng() & 31);
    const f16 d = to_f16(std::ldexp(1 + double(rng() % 1024) / 1024, int(rng() % 20) - 14));
    const f16 dmin = to_f16(-std::ldexp(1 + double(rng() % 1024) / 1024, int(rng() % 20) - 14));
    for (uint8_t* block : {four, five}) {
      put(block, d);
      put(block + 2, dmin);
      pack_scales(scale, min, block + 4);
    }
    for (int v = 0; v < 256; ++v) {
      const int byte = v / 64 * 32 + v % 32, shift = v % 64 < 32 ? 0 : 4;
      four[16 + byte] |= uint8_t((quant[v] & 15) << shift);
      five[48 + byte] |= uint8_t((quant[v] & 15) << shift);
      five[16 + v % 32] |= uint8_t(quant[v] >> 4 << v / 32);
    }
    float got4[256], got5[256];
    decode(Format::q4_k, four, 256, got4);
    decode(Format::q5_k, five, 256, got5);
    for (int v = 0; v < 256; ++v) {
      // 11 + 6 + 5 bits: the products are exact in f32, so only the difference rounds
      const double unit = double(to_f32(d)) * scale[v / 32], offset = double(to_f32(dmin)) * min[v / 32];
      ASSERT_EQ(got4[v], float(unit * (quant[v] & 15) - offset)) << "value " << v;
      ASSERT_EQ(got5[v], float(unit * quant[v] - offset)) << "value " << v;
    }
  }
}

TEST(Format, GgufTypes) {
  for (Format f : all_formats()) EXPECT_EQ(format_of_gguf_type(gguf_type(f)), f) << name(f);
  EXPECT_EQ(format_of_gguf_type(0), Format::f32);
  EXPECT_EQ(format_of_gguf_type(12), Format::q4_k);
  EXPECT_EQ(format_of_gguf_type(42), Format::q2_0);
  for (uint32_t gone : {4, 5, 31, 32, 33, 36, 37, 38, 43, 1000}) EXPECT_FALSE(format_of_gguf_type(gone)) << gone;
}

TEST(Format, NamesAndSizes) {
  for (Format f : all_formats()) EXPECT_EQ(format_named(name(f)), f);
  EXPECT_EQ(row_bytes(Format::q4_k, 4096), 2304u);
  EXPECT_EQ(row_bytes(Format::q6_k, 512), 420u);
  EXPECT_EQ(row_bytes(Format::mxfp4, 96), 51u);
  EXPECT_EQ(row_bytes(Format::bf16, 7), 14u);
  EXPECT_EQ(row_bytes(Format::q8_0, 0), 0u);
}

std::string message(auto&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
TEST(Format, RefusesWithAReason) {
  float out[256];
  EXPECT_EQ(message([] { row_bytes(Format::q4_k, 100); }), "q4_k: 100 columns are not a multiple of its block of 256");
  EXPECT_EQ(message([&] { decode(Format::q8_0, nullptr, 33, out); }),
            "q8_0: 33 values are not a multiple of its block of 32");
  EXPECT_NE(message([] { format_named("q4_9"); }).find("\"q4_9\"; there are f32, f16"), std::string::npos);
}

}  // namespace
}  // namespace heddle::quant
