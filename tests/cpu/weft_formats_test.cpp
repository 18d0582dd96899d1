// Trained weights in every format that can be encoded: the fast backend says what the reference says.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/parallel.h"
#include "tests/support/closeness.h"
#include "tests/support/running.h"

namespace heddle::test {
namespace {

using quant::Format;

std::filesystem::path weft() { return std::filesystem::path(HEDDLE_SOURCE_DIR) / "models/weft/weft-q8_0.gguf"; }

// weft with all its matrices in one format.
struct WeftIn : testing::TestWithParam<Format> {
  model::Model model = model::load(formats::open_checkpoint(weft()));
  std::map<const uint8_t*, std::vector<uint8_t>> changed;  // by what it was: the embedding is the output as well

  void SetUp() override {
    change(model.embedding);
    change(model.output);
    for (model::Layer& layer : model.layers) {
      auto& a = layer.get<model::Attention>();
      auto& f = layer.get<model::FeedForward>();
      for (model::Matrix* matrix : {&a.q, &a.k, &a.v, &a.output, &f.gate, &f.up, &f.down}) change(*matrix);
    }
  }
  void change(model::Matrix& matrix) {
    std::vector<uint8_t>& bytes = changed[matrix.data.data()];
    if (bytes.empty()) {
      const size_t row_bytes = quant::row_bytes(GetParam(), matrix.cols);
      bytes.resize(matrix.rows * row_bytes);
      parallel_for(matrix.rows, 0, [&](size_t row) {
        std::vector<float> values(matrix.cols);
        quant::decode(matrix.format, matrix.slice(row, 1).data.data(), matrix.cols, values.data());
        quant::encode(GetParam(), values.data(), matrix.cols, &bytes[row * row_bytes]);
      });
    }
    matrix.format = GetParam();
    matrix.data = bytes;
  }
};

// "Once upon a time", then what the exact backend makes of it. Where the reference, which is given the same tokens,
// prefers at each place the one that follows, it would have told the same story.
TEST_P(WeftIn, TheFastBackendTellsTheStoryOfTheReferenceSlow) {
  const std::vector<uint32_t> prompt = {0, 403, 402, 263, 380};
  const std::vector<uint32_t> story = Running(model, fast(true)).greedy(prompt, 45);
  Running reference(model, cpu::make_reference);
  const std::vector<float> expected = reference.all_logits(story);
  for (size_t i = prompt.size(); i < story.size(); ++i)
    EXPECT_EQ(reference.best({&expected[(i - 1) * model.vocabulary], model.vocabulary}), story[i]) << "token " << i;

  const auto cosines_of = [&](bool exact) {
    return cosines(expected, Running(model, fast(exact), 13).all_logits(story), model.vocabulary);
  };
  const std::vector<double> exact = cosines_of(true), with_bytes = cosines_of(false);
  const double mean = std::accumulate(with_bytes.begin(), with_bytes.end(), 0.0) / double(story.size());
  EXPECT_GT(*std::min_element(exact.begin(), exact.end()), 1 - 1e-6);
  // Activations have a scale per block of the weights' format: the wider it is, the coarser they are.
  const bool wide = quant::block_values(GetParam()) == 256;
  EXPECT_GT(*std::min_element(with_bytes.begin(), with_bytes.end()), wide ? 0.997 : 0.9995);
  EXPECT_GT(mean, wide ? 0.9995 : 0.9999);
}

std::vector<Format> formats_to_try() {
  std::vector<Format> all;
  for (const Format format : quant::all_formats())
    if (quant::can_encode(format)) all.push_back(format);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, WeftIn, testing::ValuesIn(formats_to_try()),
                         [](const auto& one) { return std::string(quant::name(one.param)); });

}  // namespace
}  // namespace heddle::test
