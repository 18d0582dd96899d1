// Encoders, embedding models and rerankers, from the folder to embeddings and scores, against transformers.
#include "model/pooled.h"

#include <gtest/gtest.h>

#include <numeric>

#include "model/forward.h"
#include "tests/model/encoder_fixture.h"
#include "tests/support/closeness.h"
#include "tests/support/refused.h"
#include "tests/support/running.h"

namespace heddle::test {
namespace {

using model::Pooling;

// The states of several texts, in one batch.
std::vector<std::vector<float>> states_of(const model::Model& model, model::Backend& backend,
                                          const model::Limits& limits, const std::vector<std::vector<uint32_t>>& texts,
                                          const std::vector<std::vector<uint32_t>>& types) {
  model::Batch batch;
  uint32_t block = 0;
  for (uint32_t text = 0; text < texts.size(); ++text) {
    std::vector<uint32_t>& blocks = batch.blocks.emplace_back();
    for (uint32_t i = 0; i < texts[text].size(); ++i) {
      if (i % limits.block_tokens == 0) blocks.push_back(block++);
      batch.states.push_back(uint32_t(batch.tokens.size()));
      batch.tokens.push_back(texts[text][i]);
      batch.positions.push_back(i);
      batch.sequences.push_back(text);
      if (!types.empty()) batch.types.push_back(types[text][i]);
    }
  }
  model::forward(model, backend, batch);
  const std::span<const float> states = backend.result().states;
  std::vector<std::vector<float>> all;
  size_t at = 0;
  for (const auto& text : texts) {
    const std::span<const float> of = states.subspan(at, text.size() * model.width);
    all.emplace_back(of.begin(), of.end());
    at += of.size();
  }
  return all;
}

std::vector<float> result_of(const model::Model& model, const std::vector<float>& states, bool ranks) {
  const size_t width = model.width, tokens = states.size() / width;
  const Pooling pooling = model::pooling_of(model, ranks);
  std::vector<double> pooled(width);
  for (size_t t = 0; t < tokens; ++t)
    if (pooling == Pooling::mean || t == (pooling == Pooling::cls ? 0 : tokens - 1))
      for (size_t i = 0; i < width; ++i) pooled[i] += double(states[t * width + i]);
  if (pooling == Pooling::mean)
    for (double& value : pooled) value /= double(tokens);
  const std::vector<float> as_float(pooled.begin(), pooled.end());
  if (ranks) return model::label_logits(model, as_float);
  const std::vector<float> embedding = model::embedding_of(model, as_float);
  return model::with_length_1(std::vector<double>(embedding.begin(), embedding.end()));
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double(a[i]) * double(b[i]);
    aa += double(a[i]) * double(a[i]);
    bb += double(b[i]) * double(b[i]);
  }
  return ab / std::sqrt(aa * bb);
}

// Rows and blocks for all texts of a fixture at once.
struct Roomy {
  model::Model model;
  model::Limits limits{.rows = 256, .kv_blocks = 16};
  std::unique_ptr<model::Backend> backend;
  Roomy(const std::filesystem::path& path, const MakeBackend& make = cpu::make_reference)
      : model(model::load(formats::open_checkpoint(path))), backend(make(model, limits)) {}
  std::vector<std::vector<float>> results(const EncoderFixture& fixture) {
    std::vector<std::vector<float>> all;
    for (const auto& states : states_of(model, *backend, limits, fixture.texts, fixture.types))
      all.push_back(result_of(model, states, fixture.ranks));
    return all;
  }
};

// Against what transformers says: embeddings also by their cosine.
void expect_close(const EncoderFixture& fixture, const std::vector<std::vector<float>>& found, double distance) {
  ASSERT_EQ(found.size(), fixture.expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), fixture.expected[i].size()) << i;
    for (size_t j = 0; j < found[i].size(); ++j) EXPECT_NEAR(found[i][j], fixture.expected[i][j], distance) << i;
    if (fixture.ranks) continue;
    EXPECT_GE(cosine(found[i], fixture.expected[i]), 0.99999) << i;
  }
}

class Encoders : public testing::TestWithParam<std::string> {};

TEST_P(Encoders, EmbeddingsAndScoresAreThoseOfTransformers) {
  const EncoderFixture fixture(GetParam());
  const Folder folder;
  Roomy roomy(fixture.write_in(folder));
  expect_close(fixture, roomy.results(fixture), 3e-6);
}

TEST_P(Encoders, ATextIsTheSameAloneAndAmongOthers) {
  const EncoderFixture fixture(GetParam());
  const Folder folder;
  Roomy roomy(fixture.write_in(folder));
  const auto together = roomy.results(fixture);
  for (size_t i = 0; i < fixture.texts.size(); ++i) {
    std::vector<std::vector<uint32_t>> types;
    if (!fixture.types.empty()) types.push_back(fixture.types[i]);
    const auto alone = states_of(roomy.model, *roomy.backend, roomy.limits, {fixture.texts[i]}, types);
    EXPECT_EQ(result_of(roomy.model, alone[0], fixture.ranks), together[i]) << i;
  }
}

TEST_P(Encoders, AConvertedFileSaysTheSameToTheBit) {
  const EncoderFixture fixture(GetParam());
  const Folder folder;
  const auto path = fixture.write_in(folder);
  Roomy from_folder(path), from_file(converted(path, folder.file("m.gguf")));
  EXPECT_EQ(from_file.results(fixture), from_folder.results(fixture));
}

TEST_P(Encoders, TheFastBackendIsClose) {
  const EncoderFixture fixture(GetParam());
  const Folder folder;
  const auto path = fixture.write_in(folder);
  try {
    Roomy fast_one(path, fast(true));
    if (!fixture.types.empty() && !fast_one.backend->has_token_types()) GTEST_SKIP() << "no token types yet";
    expect_close(fixture, fast_one.results(fixture), 2e-3);
  } catch (const Error& error) {
    if (std::string(error.what()).find("cannot compute yet") == std::string::npos) throw;
    GTEST_SKIP() << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, Encoders, testing::ValuesIn(EncoderFixture::names()), [](const auto& of) {
  std::string name = of.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace heddle::test
