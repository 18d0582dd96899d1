// Folders of every class with quantised weights: the weights of the fixtures are exact in 8 bits, and so are the
// logits.
#include <gtest/gtest.h>

#include "tests/model/eight_bits.h"
#include "tests/support/reference_models.h"
#include "tests/support/running.h"

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

INSTANTIATE_TEST_SUITE_P(All, QuantizedModels, testing::ValuesIn(Fixture::names()),
                         [](const auto& one) { return as_test_name(one.param); });

}  // namespace
}  // namespace heddle::test
