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
  Roomy fast_one(fixture.write_in(folder), fast(true));
  expect_close(fixture, fast_one.results(fixture), 2e-3);
}

INSTANTIATE_TEST_SUITE_P(All, Encoders, testing::ValuesIn(EncoderFixture::names()), [](const auto& of) {
  std::string name = of.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace heddle::test
