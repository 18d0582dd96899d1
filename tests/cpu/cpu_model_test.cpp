// Whole forward passes of small models on the fast backend and on the reference: every feature of a layer, every
// format, and what must not change a result.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "cpu/cpu.h"
#include "cpu/isa.h"
#include "tests/cpu/small_model.h"
#include "tests/support/sanitized.h"

namespace heddle::test {
namespace {

using model::Limits;
using model::Norm;
using model::Rope;
using quant::Format;

constexpr Limits model_limits{.rows = 64, .kv_blocks = 8, .block_tokens = 16};

std::vector<float> on_reference(const model::Model& model, const std::vector<uint32_t>& batches,
                                const Limits& with = model_limits) {
  return run(model, *cpu::make_reference(model, with), with, batches);
}
std::vector<float> on_cpu(const model::Model& model, const std::vector<uint32_t>& batches,
                          const cpu::Options& options = {}, const Limits& with = model_limits) {
  return run(model, *cpu::make_cpu(model, with, options), with, batches);
}

// Instruction sets to run whole models on. With sanitizers, which do not optimise kernels, one: products_test has
// all.
std::vector<std::string> isas() {
  std::vector<std::string> all = cpu::isa_names();
  if (sanitized) all.resize(1);
  return all;
}

// f32 activations: only the cache is f16.
void expect_near(const model::Model& model, const std::vector<uint32_t>& batches, const Limits& with = model_limits) {
  const std::vector<float> expected = on_reference(model, batches, with);
  for (const std::string& isa : isas())
    EXPECT_LT(worst(expected, on_cpu(model, batches, {.threads = 2, .isa = isa, .exact = true}, with)), 1e-3) << isa;
}

TEST(CpuModel, PlainFloats) {
  for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
    Builder builder({.format = format});
    expect_near(builder.model(), {20, 1, 1, 5});
  }
}

// What a backend says of its activations is what its weights take.
TEST(CpuModel, ActivationsAreDescribed) {
  Builder floats({.format = Format::bf16}), quantised({.format = Format::q8_0});
  const auto of = [](const model::Model& model, const std::string& isa, bool exact) {
    const std::string all = cpu::make_cpu(model, model_limits, {.threads = 1, .isa = isa, .exact = exact})->describe();
    const size_t end = all.find(" activations"), begin = all.rfind(", ", end) + 2;
    return all.substr(begin, end - begin);
  };
  for (const std::string& isa : cpu::isa_names()) {
    EXPECT_EQ(of(quantised.model(), isa, false), "int8") << isa;
    EXPECT_EQ(of(quantised.model(), isa, true), "f32") << isa;
    const bool has_bf16 = isa == "neon-i8mm" || isa == "avx512-bf16" || isa == "avx512-amx";
    EXPECT_EQ(of(floats.model(), isa, false), has_bf16 ? "bf16" : "f32") << isa;
    EXPECT_EQ(of(floats.model(), isa, true), "f32") << isa;
  }
}

// A token whose embedding is a NaN spoils its own logits and those of the tokens that see it, on every backend and with
// every cache; what comes before stays as it was.
TEST(CpuModel, NanIsKept) {
  Builder builder({.layers = 2});
  model::Model& model = builder.model();
  const uint32_t bad = 5 * 7919 % model.vocabulary;  // the token at position 5: see run()
  std::vector<uint8_t> bytes(model.embedding.data.begin(), model.embedding.data.end());
  const float nan = NAN;
  std::memcpy(&bytes[bad * model.embedding.row_bytes()], &nan, sizeof nan);
  model.embedding.data = bytes;
  for (const model::KvFormat kv : {model::KvFormat::f16, model::KvFormat::q8}) {
    Limits with = model_limits;
    with.kv = kv;
    std::vector<std::vector<float>> all{on_reference(model, {9, 1}, with)};
    for (const std::string& isa : isas())
      for (const bool exact : {true, false})
        all.push_back(on_cpu(model, {9, 1}, {.threads = 2, .isa = isa, .exact = exact}, with));
    for (const std::vector<float>& logits : all)
      for (size_t i = 0; i < logits.size(); ++i)
        ASSERT_EQ(std::isnan(logits[i]), i / model.vocabulary >= 5) << i / model.vocabulary;
  }
}

TEST(CpuModel, OddSizes) {
  // nothing is a multiple of a vector
  Builder builder({.layers = 2, .width = 36, .heads = 3, .kv_heads = 1, .head = 10, .inner = 53, .vocabulary = 37});
  expect_near(builder.model(), {7, 1, 3});
}

TEST(CpuModel, HeadsOfManySizes) {
  for (const uint32_t head : {8u, 20u, 80u, 128u, 256u}) {
    Builder builder({.layers = 1, .heads = 5, .kv_heads = 5, .head = head});
    expect_near(builder.model(), {9, 1});
  }
}

TEST(CpuModel, NormsOfHeadsAndOutputs) {
  Builder builder({});
  for (model::Layer& layer : builder.model().layers) {
    layer.get<model::Attention>().q_norm = builder.norm(64);
    layer.get<model::Attention>().k_norm = builder.norm(64);
    layer.get<model::Attention>().output_norm = builder.norm(256);
    layer.get<model::FeedForward>().output_norm = builder.norm(256);
    layer.residual_scale = 0.5f;
  }
  builder.model().layers[1].get<model::Attention>().q_norm = builder.norm(256);  // over all heads
  builder.model().layers[1].get<model::Attention>().k_norm = builder.norm(128);
  builder.model().embedding_scale = 3;
  builder.model().logit_scale = 0.25f;
  expect_near(builder.model(), {17, 1});
}

TEST(CpuModel, LayerNormsBiasesPositionsAndNoGate) {
  Builder builder({});
  model::Model& model = builder.model();
  model.positions = builder.matrix(64, 256, 1);
  for (model::Layer& layer : model.layers) {
    model::Attention& a = layer.get<model::Attention>();
    a.norm = builder.norm(256, Norm::Kind::layer);
    layer.get<model::FeedForward>().norm = builder.norm(256, Norm::Kind::layer);
    a.rope = {};
    a.q_bias = builder.random(256, 0.5);
    a.k_bias = builder.random(128, 0.5);
    a.v_bias = builder.random(128, 0.5);
    a.output_bias = builder.random(256, 0.5);
    layer.get<model::FeedForward>().gate = {};
    layer.get<model::FeedForward>().activation = model::Activation::gelu_tanh;
    layer.get<model::FeedForward>().up_bias = builder.random(512, 0.5);
    layer.get<model::FeedForward>().down_bias = builder.random(256, 0.5);
  }
  model.layers[0].get<model::FeedForward>().activation = model::Activation::gelu;
  model.layers[1].get<model::FeedForward>().gate = builder.matrix(512, 256);
  model.layers[1].get<model::FeedForward>().gate_bias = builder.random(512, 0.5);
  model.norm = builder.norm(256, Norm::Kind::layer);
  model.output_bias = builder.random(203, 0.5);
  expect_near(model, {17, 1, 2});
}

TEST(CpuModel, WindowsSoftcapsAndRotations) {
  Builder builder({.layers = 3});
  model::Model& model = builder.model();
  model.layers[0].get<model::Attention>().window = 5;
  model.layers[1].get<model::Attention>().window = 33;
  model.layers[0].get<model::Attention>().rope = builder.rope(Rope::Style::pairs, 32);
  model.layers[1].get<model::Attention>().rope = builder.rope(Rope::Style::halves, 16, 500);
  model.layers[1].get<model::Attention>().rope.magnitude = 1.3;
  for (model::Layer& layer : model.layers) layer.get<model::Attention>().softcap = 2;
  model.logit_softcap = 3;
  expect_near(model, {40, 1, 1, 30, 3});
}

TEST(CpuModel, ParallelLayers) {
  Builder builder({});
  for (model::Layer& layer : builder.model().layers) layer.parallel = true;
  expect_near(builder.model(), {11, 1});
}

TEST(CpuModel, Mixture) {
  expect_near(mixture(Format::f32).model(), {13, 1, 2});
  Builder builder = mixture(Format::q8_0);
  const std::vector<float> expected = on_reference(builder.model(), {13, 1, 2});
  EXPECT_GT(least_cosine(expected, on_cpu(builder.model(), {13, 1, 2}), 203), 0.999);
}

TEST(CpuModel, MixtureBesideAttention) {
  Builder builder = mixture(Format::f32);
  for (model::Layer& layer : builder.model().layers) {
    layer.parallel = true;
    layer.residual_scale = 0.5f;
    layer.get<model::Mixture>().output_norm = builder.norm(256);
  }
  expect_near(builder.model(), {13, 1, 2});
}

TEST(CpuModel, ExpertsWithoutGatesAndASharedOneWithBiases) {
  Builder builder = mixture(Format::f32);
  auto& m = builder.model().layers[1].get<model::Mixture>();
  m.gate = {};
  m.activation = model::Activation::gelu;
  m.shared_router.clear();  // weight 1
  model::FeedForward& shared = m.shared.value();
  shared.gate_bias = builder.random(512, 0.5);
  shared.up_bias = builder.random(512, 0.5);
  shared.down_bias = builder.random(256, 0.5);
  shared.activation = model::Activation::gelu_tanh;
  expect_near(builder.model(), {13, 1, 2});
}

// Layers of any number of sublayers: each attention has its own cache and rotation.
TEST(CpuModel, SublayersInAnyNumber) {
  Builder builder({.layers = 3});
  model::Model& model = builder.model();
  model::Attention second = model.layers[2].get<model::Attention>();
  second.rope = builder.rope(Rope::Style::pairs, 16, 500);
  second.window = 6;
  model.layers[0].sublayers.insert(model.layers[0].sublayers.begin() + 1, second);
  model.layers[1].sublayers = {model::Sublayer(model.layers[1].get<model::FeedForward>())};
  model.layers[2].sublayers = {model::Sublayer(model.layers[2].get<model::Attention>())};
  expect_near(model, {17, 1, 2});
}

TEST(CpuModel, ContextsOfManySpansSlow) {
  Builder builder({.layers = 1, .heads = 2, .kv_heads = 1, .head = 16, .inner = 64, .vocabulary = 40});
  const Limits large{.rows = 512, .kv_blocks = 64, .block_tokens = 32};
  expect_near(builder.model(), {512, 512, 300, 1, 2}, large);
  builder.model().layers[0].get<model::Attention>().window = 700;
  expect_near(builder.model(), {512, 512, 300, 1, 2}, large);
}

TEST(CpuModel, BlocksOfAnySize) {
  Builder builder({.layers = 1});
  for (const uint32_t tokens : {1u, 3u, 8u, 48u})
    expect_near(builder.model(), {20, 1}, {.rows = 20, .kv_blocks = 30, .block_tokens = tokens});
}

class Quantised : public testing::TestWithParam<Format> {};

TEST_P(Quantised, LogitsAreThoseOfTheReference) {
  for (const bool tied : {false, true}) {
    Builder builder({.format = GetParam(), .tied = tied});
    const std::vector<float> expected = on_reference(builder.model(), {21, 1, 3});
    for (const std::string& isa : isas()) {
      const std::vector<float> found = on_cpu(builder.model(), {21, 1, 3}, {.threads = 2, .isa = isa});
      EXPECT_GT(least_cosine(expected, found, 203), 0.999) << isa;
      EXPECT_LT(worst(expected, on_cpu(builder.model(), {21, 1, 3}, {.threads = 2, .isa = isa, .exact = true})), 1e-3)
          << isa;
    }
  }
}

// Any number of threads, any batches: the same bits.
TEST_P(Quantised, ResultsDependOnTheirSequenceAloneSlow) {
  Builder builder({.format = GetParam(), .layers = 1});
  for (const std::string& isa : isas()) {
    const std::vector<float> expected = on_cpu(builder.model(), {50}, {.threads = 1, .isa = isa});
    EXPECT_EQ(on_cpu(builder.model(), {50}, {.threads = 5, .isa = isa}), expected) << isa;
    EXPECT_EQ(on_cpu(builder.model(), {1, 2, 3, 4, 5, 6, 7, 8, 9, 5}, {.threads = 2, .isa = isa}), expected) << isa;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Quantised,
                         testing::Values(Format::f32, Format::f16, Format::q4_0, Format::q4_1, Format::q5_0,
                                         Format::q5_1, Format::q8_0, Format::q2_k, Format::q3_k, Format::q4_k,
                                         Format::q5_k, Format::q6_k, Format::iq4_nl, Format::iq4_xs, Format::mxfp4,
                                         Format::q8_k, Format::nvfp4, Format::iq1_m, Format::iq2_xxs, Format::iq3_s,
                                         Format::tq1_0, Format::q1_0),
                         [](const auto& one) { return std::string(quant::name(one.param)); });

// A mixture too, and positions split over threads.
TEST(CpuModel, ResultsOfAMixtureAndOfSplitSpansDependOnTheirSequenceAlone) {
  Builder experts = mixture(Format::q4_k);
  const std::vector<float> expected = on_cpu(experts.model(), {40}, {.threads = 1});
  EXPECT_EQ(on_cpu(experts.model(), {7, 1, 20, 12}, {.threads = 3}), expected);

  Builder builder({.layers = 1, .heads = 2, .kv_heads = 1, .head = 16, .inner = 64, .vocabulary = 40});
  const Limits large{.rows = 512, .kv_blocks = 64, .block_tokens = 32};
  const std::vector<float> one = on_cpu(builder.model(), {512, 512, 10}, {.threads = 1}, large);
  EXPECT_EQ(on_cpu(builder.model(), {512, 500, 1, 1, 10, 10}, {.threads = 4}, large), one);
}

// Rows of several sequences in one batch are each as if alone.
TEST(CpuModel, SequencesDoNotMix) {
  Builder builder({.format = Format::q4_k});
  const model::Model& model = builder.model();
  const auto backend = cpu::make_cpu(model, model_limits);
  model::Batch batch;
  for (uint32_t i = 0; i < 9; ++i)
    for (uint32_t sequence = 0; sequence < 3; ++sequence) {
      batch.tokens.push_back(i * 21 + sequence * 17);
      batch.positions.push_back(i);
      batch.sequences.push_back(sequence);
    }
  batch.blocks = {{3}, {0}, {5}};
  batch.outputs = {24, 25, 26};
  model::forward(model, *backend, batch);
  const std::span<const float> logits = backend->result().logits;
  const std::vector<float> together(logits.begin(), logits.end());
  for (uint32_t sequence = 0; sequence < 3; ++sequence) {
    model::Batch one;
    for (uint32_t i = 0; i < 9; ++i) {
      one.tokens.push_back(i * 21 + sequence * 17);
      one.positions.push_back(i);
      one.sequences.push_back(0);
    }
    one.blocks = {{1}};
    one.outputs = {8};
    model::forward(model, *backend, one);
    const auto alone = backend->result().logits;
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + long(sequence * alone.size())));
  }
}

TEST(CpuModel, ABatchWithoutOutputsOrRows) {
  Builder builder({.format = Format::q4_k});
  const auto backend = cpu::make_cpu(builder.model(), model_limits);
  model::forward(builder.model(), *backend, {});
  EXPECT_TRUE(backend->result().logits.empty());
  EXPECT_NE(backend->describe().find("int8"), std::string::npos);
}

TEST(CpuModel, RefusesAnUnknownInstructionSet) {
  Builder builder({});
  EXPECT_THROW(cpu::make_cpu(builder.model(), model_limits, {.isa = "mmx"}), Error);
}

}  // namespace
}  // namespace heddle::test
