// Rotation in both spellings of config.json.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/formats/hf/hf_files.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;

Checkpoint with_rope(const std::string& more) {
  static const HfFiles files = tiny_llama();
  return files.model(tiny_llama_config(more));
}

TEST(HfRope, BothSpellingsMeanTheSame) {
  for (const char* more : {R"("rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0})",
                           R"("rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 4.0})",
                           R"("rope_parameters": {"rope_type": "linear", "rope_theta": 5e5, "factor": 4.0})"}) {
    const Checkpoint model = with_rope(more);
    EXPECT_EQ(model.metadata.number("llama.rope.freq_base"), 5e5) << more;
    EXPECT_EQ(model.metadata.string("llama.rope.scaling.type"), "linear") << more;
    EXPECT_EQ(model.metadata.number("llama.rope.scaling.factor"), 4) << more;
  }
  EXPECT_EQ(with_rope(R"("rope_scaling": null)").metadata.find("llama.rope.scaling.type"), nullptr);
  EXPECT_EQ(with_rope(R"("rope_parameters": {"rope_type": "default", "rope_theta": 7.0})")
                .metadata.number("llama.rope.freq_base"),
            7);
}

TEST(HfRope, DynamicBeginsBeyondTheContext) {
  const Checkpoint model = with_rope(R"("rope_scaling": {"type": "dynamic", "factor": 2.0})");
  EXPECT_EQ(model.metadata.find("llama.rope.scaling.type"), nullptr);
  EXPECT_EQ(model.metadata.integer("llama.context_length"), 128u);
}

TEST(HfRope, Yarn) {
  const Checkpoint model =
      with_rope(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32})");
  EXPECT_EQ(model.metadata.string("llama.rope.scaling.type"), "yarn");
  EXPECT_EQ(model.metadata.number("llama.rope.scaling.factor"), 4);
  EXPECT_EQ(model.metadata.integer("llama.rope.scaling.original_context_length"), 32u);
  EXPECT_EQ(model.metadata.find("llama.rope.scaling.attn_factor"), nullptr);

  const Checkpoint given = with_rope(R"("rope_scaling": {"rope_type": "yarn", "beta_fast": 16, "beta_slow": 2,
    "original_max_position_embeddings": 32, "attention_factor": 1.5})");
  EXPECT_EQ(given.metadata.number("llama.rope.scaling.factor"), 4);  // 128 / 32
  EXPECT_EQ(given.metadata.number("llama.rope.scaling.yarn_beta_fast"), 16);
  EXPECT_EQ(given.metadata.number("llama.rope.scaling.yarn_beta_slow"), 2);
  EXPECT_NEAR(given.metadata.number("llama.rope.scaling.attn_factor"), 1.5 / (0.1 * std::log(4.0) + 1), 1e-6);

  const Checkpoint scaled = with_rope(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0,
    "mscale_all_dim": 0.5, "original_max_position_embeddings": 32})");
  EXPECT_NEAR(scaled.metadata.number("llama.rope.scaling.attn_factor"), 1 / (0.05 * std::log(4.0) + 1), 1e-6);
  EXPECT_EQ(scaled.metadata.find("llama.rope.scaling.yarn_truncate"), nullptr);
  EXPECT_FALSE(with_rope(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "truncate": false})")
                   .metadata.boolean("llama.rope.scaling.yarn_truncate"));
}

TEST(HfRope, Llama3GivesATensorOfFactors) {
  // Two pairs: wavelengths 2 pi and 2 pi sqrt(theta).
  const Checkpoint model = with_rope(R"("rope_theta": 10000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024})");
  const Tensor& factors = model.tensor("rope_freqs.weight");
  EXPECT_EQ(factors.shape, std::vector<uint64_t>{2});
  EXPECT_EQ(factors.format, quant::Format::f32);
  const double wavelength = 2 * std::numbers::pi * 100, smooth = (1024 / wavelength - 1) / 3;
  const std::vector<float> values = values_of(factors);
  EXPECT_EQ(values[0], 1);
  EXPECT_NEAR(values[1], 1 / ((1 - smooth) / 8 + smooth), 1e-6);
  EXPECT_EQ(values_of(with_rope(R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 64})")
                          .tensor("rope_freqs.weight")),
            (std::vector<float>{1, 8}));
  // Llama 4: no wavelength lies between the two.
  EXPECT_EQ(values_of(with_rope(R"("rope_scaling": {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0,
    "high_freq_factor": 1.0, "original_max_position_embeddings": 64})")
                          .tensor("rope_freqs.weight")),
            (std::vector<float>{1, 16}));
}

TEST(HfRope, WhatIsNotKnownIsRefused) {
  EXPECT_REFUSED(with_rope(R"("rope_scaling": {"type": "longer", "factor": 2.0})"),
                 "folder: config.json: rope_scaling: type: expected one of default, linear", "found \"longer\"");
  EXPECT_REFUSED(with_rope(R"("rope_parameters": {"rope_type": "longrope"})"), "long_factor: expected a list");
  EXPECT_REFUSED(with_rope(R"("rope_scaling": {"type": "linear"})"), "factor: expected a number, found none");
  EXPECT_REFUSED(with_rope(R"("rope_scaling": {"type": "linear", "factor": 0.5})"),
                 "factor: expected a number from 1 on");
  EXPECT_EQ(with_rope(R"("rope_scaling": {"type": "linear", "factor": 2.0, "new": 3})").warnings,
            std::vector<std::string>{"folder: config.json: rope_scaling: options that heddle does not know and does "
                                     "without: new = 3"});
  EXPECT_REFUSED(with_rope(R"("rope_scaling": {"type": "linear", "factor": 2.0, "llama_4_scaling_beta": 0.1})"),
                 "rope_scaling: options that change the result", "llama_4_scaling_beta = 0.1");
  EXPECT_REFUSED(with_rope(R"("rope_scaling": 4)"), "rope_scaling: expected an object, found 4");
  EXPECT_REFUSED(with_rope(R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
    "high_freq_factor": 1.0})"),
                 "high_freq_factor: expected low_freq_factor or more");
}

}  // namespace
}  // namespace heddle::formats
