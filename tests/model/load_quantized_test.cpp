// Folders of every class with quantised weights: the weights of the fixtures are exact in 8 bits, and so are the
// logits.
#include <gtest/gtest.h>

#include "formats/safetensors.h"
#include "tests/formats/built_files.h"
#include "tests/model/fixture.h"
#include "tests/support/reference_models.h"
#include "tests/support/running.h"

namespace heddle::test {
namespace {

// Every matrix as 8 bits of bitsandbytes: multiples of 1/256 with the scale 127/256.
std::string eight_bits(const std::string& safetensors) {
  Json header = Json::object();
  std::string data;
  const auto put = [&](const std::string& name, const char* type, std::vector<uint64_t> shape, std::string_view bytes) {
    std::reverse(shape.begin(), shape.end());
    header[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  };
  for (const formats::Tensor& tensor : formats::read_safetensors(formats::test::bytes_of(safetensors), "fixture")) {
    const std::string_view bytes(reinterpret_cast<const char*>(tensor.view.data()), tensor.view.size());
    if (tensor.shape.size() != 2 || !tensor.name.ends_with(".weight")) {
      put(tensor.name, "F32", tensor.shape, bytes);
      continue;
    }
    std::string quants, scales;
    for (size_t i = 0; i < tensor.values(); ++i) {
      float value;
      std::memcpy(&value, &bytes[4 * i], 4);
      quants += static_cast<char>(static_cast<int8_t>(value * 256));
    }
    for (uint64_t row = 0; row < tensor.rows(); ++row) scales += formats::test::raw(127.0f / 256);
    put(tensor.name, "I8", tensor.shape, quants);
    put(tensor.name.substr(0, tensor.name.size() - 6) + "SCB", "F32", {tensor.rows()}, scales);
  }
  return formats::test::safetensors(header.dump(), data);
}

class QuantizedModels : public testing::TestWithParam<std::string> {};

TEST_P(QuantizedModels, ExactWeightsGiveTheSameBits) {
  const Fixture fixture(GetParam());
  const Folder plain, quantized;
  fixture.write(plain, fixture.config);
  Json config = fixture.config;
  config["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}};
  quantized.write("config.json", config.dump());
  quantized.write("model.safetensors", eight_bits(fixture.safetensors()));

  const formats::Checkpoint checkpoint = formats::open_checkpoint(quantized.path());
  EXPECT_TRUE(checkpoint.quantization_note().starts_with("weights: bitsandbytes int8, converted to "));
  const auto logits = [&](const std::filesystem::path& model) {
    return Running(model, fixture.context).all_logits(fixture.ids);
  };
  const std::vector<float> expected = logits(plain.path());
  EXPECT_EQ(logits(quantized.path()), expected);
  EXPECT_EQ(logits(converted(quantized.path(), quantized.file("m.gguf"))), expected);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedModels, testing::ValuesIn(Fixture::names()),
                         [](const auto& one) { return as_test_name(one.param); });

}  // namespace
}  // namespace heddle::test
