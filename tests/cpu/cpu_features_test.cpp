// Every feature of small_features.h on the fast backend and on the reference: alone, in pairs, and as the families of
// models have them.
#include <gtest/gtest.h>

#include "cpu/cpu.h"
#include "tests/cpu/small_features.h"

namespace heddle::test {
namespace {

using model::KvFormat;
using model::Limits;
using quant::Format;

constexpr Limits feature_limits{.rows = 64, .kv_blocks = 24, .block_tokens = 8};
constexpr Shape even{.layers = 2, .width = 64, .heads = 6, .kv_heads = 2, .head = 32, .inner = 96, .vocabulary = 67};
constexpr Shape odd{.layers = 2, .width = 36, .heads = 3, .kv_heads = 1, .head = 10, .inner = 53, .vocabulary = 37};

// A prompt in pieces and some single tokens; or one text, where each token sees all.
std::vector<uint32_t> pieces_for(const model::Model& model) {
  return model::is_causal(model) ? std::vector<uint32_t>{21, 1, 1, 9, 2} : std::vector<uint32_t>{34};
}

// The distance from the reference's logits, with f32 activations.
double distance(const model::Model& model, KvFormat kv = KvFormat::q8, const std::string& isa = "auto") {
  Limits limits = feature_limits;
  limits.kv = kv;
  const std::vector<uint32_t> pieces = pieces_for(model);
  const auto reference = cpu::make_reference(model, limits);
  const auto fast = cpu::make_cpu(model, limits, {.threads = 2, .isa = isa, .exact = true});
  return worst(run(model, *reference, limits, pieces), run(model, *fast, limits, pieces));
}

// The reference's cache is f32, or of the values that q8 keeps: there 2e-7 is usual, and 1e-4 where a value is rounded
// to its other neighbour.
constexpr double near = 2e-4, near_with_f16 = 3e-4;

class OneFeature : public testing::TestWithParam<SmallFeature> {};

TEST_P(OneFeature, LogitsAreThoseOfTheReference) {
  for (Shape shape : {even, odd})
    for (const std::string& isa : cpu::isa_names()) {
      Builder builder(shape);
      GetParam().add(builder);
      EXPECT_LT(distance(builder.model(), KvFormat::f16, isa), near_with_f16) << shape.width << ", " << isa;
      EXPECT_LT(distance(builder.model(), KvFormat::q8, isa), near) << shape.width << ", q8, " << isa;
    }
}

TEST_P(OneFeature, WeightsMayBeQuantised) {
  for (const Format format : {Format::q8_0, Format::mxfp4}) {
    Shape shape = even;
    shape.format = format;
    Builder builder(shape);
    GetParam().add(builder);
    const model::Model& model = builder.model();
    EXPECT_LT(distance(model), near) << quant::name(format);
    // int8 activations: a rounding may move a row to another expert
    const std::vector<uint32_t> pieces = pieces_for(model);
    const std::vector<float> expected = run(model, *cpu::make_reference(model, feature_limits), feature_limits, pieces);
    const std::vector<float> found = run(model, *cpu::make_cpu(model, feature_limits), feature_limits, pieces);
    const std::vector<double> all = cosines(expected, found, 67);
    EXPECT_GT(std::accumulate(all.begin(), all.end(), 0.0) / double(all.size()), 0.999) << quant::name(format);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OneFeature, testing::ValuesIn(small_features()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(CpuFeatures, PairsOfThem) {
  const std::vector<SmallFeature>& all = small_features();
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) {
      Builder builder(odd);
      all[i].add(builder);
      all[j].add(builder);
      EXPECT_LT(distance(builder.model()), near) << all[i].name << " and " << all[j].name;
    }
}

TEST(CpuFeatures, AsFamiliesHaveThem) {
  for (const auto& [name, features] : families())
    for (const bool parallel : {false, true}) {
      Builder builder(even);
      add_features(builder, features);
      for (model::Layer& layer : builder.model().layers) layer.parallel = parallel;
      EXPECT_LT(distance(builder.model()), near) << name << parallel;
    }
}

// A batch of texts whose tokens see each other: states of all rows, where the sequences are mixed in any order.
std::vector<float> states_of(const model::Model& model, model::Backend& backend, const std::vector<uint32_t>& sizes,
                             uint32_t first_text, bool mixed) {
  model::Batch batch;
  std::vector<std::pair<uint32_t, uint32_t>> rows;  // position and text
  for (uint32_t text = 0; text < sizes.size(); ++text)
    for (uint32_t i = 0; i < sizes[text]; ++i) rows.emplace_back(i, text);
  if (mixed) std::sort(rows.begin(), rows.end());
  uint32_t block = 0;
  for (const uint32_t size : sizes) {
    std::vector<uint32_t>& blocks = batch.blocks.emplace_back();
    for (uint32_t i = 0; i < size; i += 8) blocks.push_back(23 - block++);
  }
  for (const auto& [position, text] : rows) {
    batch.tokens.push_back(((first_text + text) * 31 + position * 7) % model.vocabulary);
    batch.positions.push_back(position);
    batch.sequences.push_back(text);
    batch.states.push_back(uint32_t(batch.states.size()));
  }
  model::forward(model, backend, batch);
  const std::span<const float> states = backend.result().states;
  std::vector<float> by_text;
  for (uint32_t text = 0; text < sizes.size(); ++text)
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i].second == text)
        by_text.insert(by_text.end(), states.begin() + long(i * model.width),
                       states.begin() + long((i + 1) * model.width));
  return by_text;
}

// An encoder has no output. Texts in one batch do not see each other.
TEST(CpuFeatures, TextsOfAnEncoder) {
  for (const bool windows : {false, true}) {
    Builder builder(even);
    add_features(builder, {"both_directions", "residual_norms", "embedding_norm", "slopes"});
    if (windows) add_features(builder, {"windows"});
    model::Model& model = builder.model();
    model.output = {};
    model.norm = {};
    const std::vector<uint32_t> sizes{9, 1, 17, 30, 2};
    const auto reference = cpu::make_reference(model, feature_limits);
    const std::vector<float> expected = states_of(model, *reference, sizes, 0, false);
    for (const std::string& isa : cpu::isa_names())
      for (const bool exact : {true, false}) {
        const auto fast = cpu::make_cpu(model, feature_limits, {.threads = 2, .isa = isa, .exact = exact});
        const std::vector<float> together = states_of(model, *fast, sizes, 0, false);
        EXPECT_LT(worst(expected, together), near_with_f16) << isa << exact;  // the weights are f32
        EXPECT_EQ(states_of(model, *fast, sizes, 0, true), together) << isa;
        std::vector<float> alone;
        for (uint32_t text = 0; text < sizes.size(); ++text) {
          const std::vector<float> one = states_of(model, *fast, {sizes[text]}, text, false);
          alone.insert(alone.end(), one.begin(), one.end());
        }
        EXPECT_EQ(alone, together) << isa;
      }
  }
}

// More positions than one pass over spans takes: states of 16 rows and 16 heads of 512 values on one thread. Positions
// between those fed are zeros in the cache of both.
TEST(CpuFeatures, SpansOfWideHeadsComeInSeveralPasses) {
  Builder builder({.layers = 1, .width = 64, .heads = 20, .inner = 64, .vocabulary = 41});
  add_latent(builder, 512, 16, 64, 16);
  const model::Model& model = builder.model();
  const Limits limits{.rows = 16, .kv_blocks = 64};
  const auto logits = [&](model::Backend& backend) {
    std::vector<float> all;
    for (const uint32_t first : {0u, 700u, 1990u}) {
      model::Batch batch;
      batch.blocks.resize(1);
      for (uint32_t i = 0; i < 64; ++i) batch.blocks[0].push_back(i);
      for (uint32_t i = 0; i < 16; ++i) {
        batch.tokens.push_back((first + i * 5) % 41);
        batch.positions.push_back(first + i);
        batch.sequences.push_back(0);
        batch.outputs.push_back(i);
      }
      model::forward(model, backend, batch);
      const std::span<const float> of_batch = backend.result().logits;
      all.insert(all.end(), of_batch.begin(), of_batch.end());
    }
    return all;
  };
  const std::vector<float> expected = logits(*cpu::make_reference(model, limits));
  const std::vector<float> one = logits(*cpu::make_cpu(model, limits, {.threads = 1, .exact = true}));
  EXPECT_LT(worst(expected, one), near_with_f16);
  EXPECT_EQ(logits(*cpu::make_cpu(model, limits, {.threads = 3, .exact = true})), one);
}

}  // namespace
}  // namespace heddle::test
