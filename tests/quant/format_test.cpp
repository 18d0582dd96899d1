// The scalar decoders bit for bit against blocks that ggml made and decoded, and against the definitions.
#include "quant/format.h"

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "base/error.h"
#include "base/f16.h"
#include "tests/quant/ggml_samples.h"

namespace heddle::quant {
namespace {

void expect_bits(Format format, const uint8_t* blocks, const std::vector<uint32_t>& want) {
  std::vector<float> got(want.size());
  decode(format, blocks, got.size(), got.data());
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), want[i]) << name(format) << " value " << i;
}

TEST(Format, SamplesAreWhatGgmlDecodes) {
  for (const Sample& s : ggml_samples) {
    EXPECT_EQ(row_bytes(s.format, s.values.size()), s.blocks.size()) << name(s.format);
    expect_bits(s.format, s.blocks.data(), s.values);
  }
}

TEST(Format, EveryQuantisedFormatHasASample) {
  for (Format f : all_formats()) {
    bool found = is_float(f);
    for (const Sample& s : ggml_samples) found |= s.format == f;
    EXPECT_TRUE(found) << name(f);
  }
}

// --- whole tensors, where the files are beside the checkout ---------------------------------------------------------
std::filesystem::path shared_folder() {
  for (auto p = std::filesystem::current_path(); p != p.root_path(); p = p.parent_path())
    if (std::filesystem::exists(p / "shared/data/quant")) return p / "shared/data/quant";
  return {};
}
std::vector<uint8_t> read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
template <class T>
T number(const std::vector<uint8_t>& file, size_t at) {
  T v;
  std::memcpy(&v, file.data() + at, sizeof v);
  return v;
}
std::string text(const std::vector<uint8_t>& file, size_t& at) {
  const auto length = number<uint64_t>(file, at);
  std::string t(file.begin() + long(at) + 8, file.begin() + long(at + 8 + length));
  at += 8 + length;
  return t;
}

TEST(Format, WholeTensorsAreWhatGgmlDecodes) {
  const auto folder = shared_folder();
  if (folder.empty()) GTEST_SKIP() << "there is no shared/data/quant above the working folder";
  const auto gguf = read(folder / "ggml-quant-vectors.gguf");
  const auto decoded = read(folder / "ggml-quant-vectors.dequant-f32.safetensors");

  size_t at = 24;
  for (uint64_t i = 0; i < number<uint64_t>(gguf, 16); ++i) {
    text(gguf, at);
    ASSERT_EQ(number<uint32_t>(gguf, at), 8u) << "only texts are expected here";
    at += 4;
    text(gguf, at);
  }
  std::map<std::string, uint64_t> tensors;  // name -> offset
  for (uint64_t i = 0; i < number<uint64_t>(gguf, 8); ++i) {
    const std::string tensor = text(gguf, at);
    at += 4 + 8 * number<uint32_t>(gguf, at) + 4;
    tensors[tensor] = number<uint64_t>(gguf, at);
    at += 8;
  }
  const size_t data = (at + 31) / 32 * 32, header = number<uint64_t>(decoded, 0);
  const std::string json(decoded.begin() + 8, decoded.begin() + 8 + long(header));

  size_t compared = 0;
  for (Format f : all_formats()) {
    if (!tensors.count(std::string(name(f)))) continue;
    const size_t entry = json.find('"' + std::string(name(f)) + '"');
    ASSERT_NE(entry, json.npos);
    const size_t from = std::stoul(json.substr(json.find('[', json.find("data_offsets", entry)) + 1));
    std::vector<uint32_t> want(8 * 768);
    std::memcpy(want.data(), decoded.data() + 8 + header + from, want.size() * 4);
    expect_bits(f, gguf.data() + data + tensors[std::string(name(f))], want);
    ++compared;
  }
  EXPECT_EQ(compared, 13u);
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
void put(uint8_t* to, f16 v) { to[0] = uint8_t(v.bits), to[1] = uint8_t(v.bits >> 8); }

TEST(Format, Q4KAndQ5KFindEveryScaleMinAndQuant) {
  std::mt19937 rng(2);
  for (int round = 0; round < 200; ++round) {
    uint8_t scale[8], min[8], quant[256], four[144] = {}, five[176] = {};
    for (int j = 0; j < 8; ++j) scale[j] = uint8_t(rng() & 63), min[j] = uint8_t(rng() & 63);
    for (auto& q : quant) q = uint8_t(rng() & 31);
    const f16 d = to_f16(std::ldexp(1 + double(rng() % 1024) / 1024, int(rng() % 20) - 14));
    const f16 dmin = to_f16(-std::ldexp(1 + double(rng() % 1024) / 1024, int(rng() % 20) - 14));
    for (uint8_t* block : {four, five}) put(block, d), put(block + 2, dmin), pack_scales(scale, min, block + 4);
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
