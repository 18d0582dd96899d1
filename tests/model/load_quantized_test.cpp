// Folders of every class with quantised weights: the weights of the fixtures are exact in 8 bits, and so are the
// logits.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "tests/model/eight_bits.h"
#include "tests/support/reference_models.h"
#include "tests/support/running.h"
#include "tests/support/shorter.h"

namespace heddle::test {
namespace {

class QuantizedModels : public testing::TestWithParam<std::string> {};

TEST_P(QuantizedModels, ExactWeightsGiveTheSameBits) {
  const Fixture fixture(GetParam());
  const Folder plain, quantized;
  fixture.write(plain, fixture.config);
  write_eight_bits(fixture, quantized);

  const formats::Checkpoint checkpoint = formats::open_checkpoint(quantized.path());
  EXPECT_TRUE(checkpoint.quantization_note().starts_with("weights: bitsandbytes int8, converted to "));
  const auto logits = [&](const std::filesystem::path& model) {
    return Running(model, fixture.context).all_logits(fixture.ids);
  };
  const std::vector<float> expected = logits(plain.path());
  EXPECT_EQ(logits(quantized.path()), expected);
  EXPECT_EQ(logits(converted(quantized.path(), quantized.file("m.gguf"))), expected);
  formats::write_gguf(checkpoint, formats::converted_metadata(checkpoint), formats::FileType::f32,
                      quantized.file("f32.gguf"));
  EXPECT_EQ(logits(quantized.file("f32.gguf")), expected);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedModels, testing::ValuesIn(fewer(Fixture::names())),
                         [](const auto& one) { return as_test_name(one.param); });

// gpt-oss with experts in MXFP4, and with the values that they stand for, as transformers has them where they are not
// packed: (experts, in, out).
struct PackedExperts {
  BuiltSafetensors packed, plain;
  uint32_t state = 1;

  uint32_t random(uint32_t below) { return ((state = state * 1664525 + 1013904223) >> 8) % below; }
  void add(const std::string& name, uint64_t experts, uint64_t in, uint64_t out) {
    constexpr float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    std::string blocks, scales;
    std::vector<float> plain_values(experts * in * out);
    for (uint64_t row = 0; row < experts * out; ++row)
      for (uint64_t block = 0; block < in / 32; ++block) {
        const uint32_t exponent = 120 + random(4);
        scales += static_cast<char>(exponent);
        for (uint64_t i = 0; i < 16; ++i) {
          const uint32_t nibbles[] = {random(16), random(16)};
          blocks += static_cast<char>(nibbles[0] | nibbles[1] << 4);
          for (uint64_t k = 0; k < 2; ++k) {
            const uint64_t col = block * 32 + 2 * i + k;
            const float value = std::ldexp(values[nibbles[k] % 8], static_cast<int>(exponent) - 127);
            plain_values[(row / out * in + col) * out + row % out] = nibbles[k] < 8 ? value : -value;
          }
        }
      }
    packed.put(name + "_blocks", "U8", {experts, out, in / 32, 16}, blocks);
    packed.put(name + "_scales", "U8", {experts, out, in / 32}, scales);
    plain.put(name, {experts, in, out}, plain_values);
  }
};

TEST(QuantizedFolders, GptOssInMxfp4IsReadAsItIs) {
  const Fixture fixture("gpt-oss-clamped");
  constexpr uint64_t inner = 32, experts = 5;
  Json config = fixture.config;
  config["intermediate_size"] = inner;
  config["num_hidden_layers"] = 2;
  config["layer_types"] = {"sliding_attention", "full_attention"};
  const uint64_t hidden = config.at("hidden_size").get<uint64_t>();
  PackedExperts files;
  for (const auto& [pattern, sizes] : fixture.json.at("tensors").items())
    for (const char layer : {'0', '1'}) {
      std::string name = pattern;
      if (const size_t at = name.find('*'); at != name.npos) name[at] = layer;
      if (pattern == name && layer == '1') continue;
      auto shape = sizes.get<std::vector<uint64_t>>();
      if (name.ends_with("gate_up_proj")) {
        files.add(name, experts, hidden, 2 * inner);
      } else if (name.ends_with("experts.down_proj")) {
        files.add(name, experts, inner, hidden);
      } else {
        if (name.ends_with("gate_up_proj_bias")) shape[1] = 2 * inner;
        for (BuiltSafetensors* file : {&files.packed, &files.plain}) file->put(name, shape, formula(name, shape, 1));
      }
    }
  const Folder plain, packed;
  plain.write("config.json", config.dump());
  plain.write("model.safetensors", files.plain.bytes());
  config["quantization_config"] = {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}};
  packed.write("config.json", config.dump());
  packed.write("model.safetensors", files.packed.bytes());

  const auto logits = [&](const std::filesystem::path& model) { return Running(model).all_logits(fixture.ids); };
  const std::vector<float> expected = logits(plain.path());
  EXPECT_EQ(logits(packed.path()), expected);
  const formats::Checkpoint checkpoint = formats::open_checkpoint(packed.path());
  EXPECT_EQ(checkpoint.quantization_note(), "");
  for (const auto type : {std::optional<formats::FileType>(), std::optional(formats::FileType::f32)}) {
    formats::write_gguf(checkpoint, formats::converted_metadata(checkpoint), type, packed.file("m.gguf"));
    const formats::Checkpoint converted = formats::open_checkpoint(packed.file("m.gguf"));
    for (const char* name : {"blk.1.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"})
      EXPECT_EQ(converted.tensor(name).format, quant::Format::mxfp4);
    EXPECT_EQ(logits(packed.file("m.gguf")), expected);
  }
}

}  // namespace
}  // namespace heddle::test
