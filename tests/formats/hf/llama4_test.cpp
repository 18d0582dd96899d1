// Llama 4: chunks, layers that are not rotated, experts that are transposed in the file.
#include <gtest/gtest.h>

#include "tests/formats/hf/described.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;

hf::Description llama4(const std::string& more = {}) {
  return described(small_config("Llama4ForCausalLM", R"("num_key_value_heads": 1, "head_dim": 4,
    "intermediate_size_mlp": 16, "num_local_experts": 2)" +
                                                         (more.empty() ? "" : ", " + more)));
}

TEST(HfLlama4, Keys) {
  const auto model = llama4(R"("interleave_moe_layer_step": 2, "moe_layers": [1], "attention_chunk_size": 32)");
  EXPECT_EQ(model.metadata.integer("llama4.feed_forward_length"), 16u);
  EXPECT_EQ(model.metadata.integer("llama4.expert_feed_forward_length"), 6u);
  EXPECT_EQ(model.metadata.integer("llama4.attention.sliding_window"), 32u);
  EXPECT_EQ(model.metadata.find("llama4.attention.sliding_window_pattern"), nullptr);
  EXPECT_EQ(model.metadata.number("llama4.attention.temperature_scale"), 0.1f);
  EXPECT_EQ(model.metadata.integer("llama4.attention.temperature_length"), 8192u);
  EXPECT_EQ(tensor_of(model, "blk.0.ffn_up.weight").shape, (std::vector<uint64_t>{8, 16}));
  const hf::Wanted& up = tensor_of(model, "blk.1.ffn_up_exps.weight");
  EXPECT_EQ(up.sources[0], "model.layers.1.feed_forward.experts.gate_up_proj");
  EXPECT_EQ(up.change.kind, hf::Change::Kind::second_half);
  EXPECT_EQ(llama4(R"("attn_temperature_tuning": false)").metadata.number("llama4.attention.temperature_scale"), 0);
  EXPECT_EQ(llama4(R"("attn_temperature_tuning": 4)").metadata.number("llama4.attention.temperature_scale"), 0.1f);
}

TEST(HfLlama4, WhatGgufCannotSayIsRefused) {
  EXPECT_REFUSED(llama4(R"("moe_layers": [0])"), "moe_layers: expected what follows from interleave_moe_layer_step");
  EXPECT_REFUSED(llama4(R"("use_qk_norm": false)"), "use_qk_norm: expected true, found false");
  EXPECT_REFUSED(llama4(R"("layer_types": ["full_attention", "full_attention"])"),
                 "layer_types: expected \"chunked_attention\" where no_rope_layers is 1");
  EXPECT_REFUSED(llama4(R"("no_rope_layers": [1])"), "no_rope_layers: expected 2 entries");
}

TEST(HfLlama4, WithImagesGivesItsText) {
  const auto model = described(R"({"architectures": ["Llama4ForConditionalGeneration"], "image_token_index": 200092,
    "vision_config": {"hidden_size": 8}, "text_config": {"hidden_size": 8, "num_hidden_layers": 1}})");
  EXPECT_EQ(model.architecture, "llama4");
  EXPECT_EQ(model.prefixes[0].first, "language_model.");
  EXPECT_REFUSED(described(R"({"architectures": ["Llama4ForConditionalGeneration"]})"),
                 "text_config: expected an object");
}

}  // namespace
}  // namespace heddle::formats
