// Latent attention: the matrix that expands latents becomes two.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/formats/hf/described.h"
#include "tests/formats/hf/hf_files.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;
using Values = std::vector<float>;

const std::string latent_options = R"("kv_lora_rank": 3, "q_lora_rank": 5, "qk_nope_head_dim": 2, "qk_rope_head_dim": 4,
  "v_head_dim": 1, "n_routed_experts": 4, "moe_intermediate_size": 7, "num_experts_per_tok": 2, "num_key_value_heads": 2)";

std::string deepseek3_config(const std::string& more = {}) {
  return small_config("DeepseekV3ForCausalLM",
                      latent_options + R"(, "n_group": 2, "topk_group": 1)" + (more.empty() ? "" : ", " + more));
}

TEST(HfDeepseek, KeysAndValuesAreExpandedByMatricesOfTheirOwn) {
  HfFiles files;
  const std::string layer = "model.layers.0.", attention = layer + "self_attn.";
  files.add(attention + "kv_b_proj.weight", {6, 3});  // 0: rows k k v of each head
  files.add(attention + "q_proj.weight", {12, 8}).add(attention + "kv_a_proj_with_mqa.weight", {7, 8});
  files.add(attention + "kv_a_layernorm.weight", {3}).add(attention + "o_proj.weight", {8, 2});
  files.add(layer + "input_layernorm.weight", {8}).add(layer + "post_attention_layernorm.weight", {8});
  for (const char* name : {"gate_proj", "up_proj"}) files.add(layer + "mlp." + name + ".weight", {6, 8});
  files.add(layer + "mlp.down_proj.weight", {8, 6});
  files.add("model.embed_tokens.weight", {3, 8}).add("lm_head.weight", {3, 8}).add("model.norm.weight", {8});
  files.add("model.layers.1.eh_proj.weight", {8, 16});  // of a layer that guesses
  const std::string config = R"({"architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 8, "intermediate_size": 6,
    "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 3, "num_nextn_predict_layers": 1,
    "kv_lora_rank": 3, "q_lora_rank": null, "qk_nope_head_dim": 2, "qk_rope_head_dim": 4, "v_head_dim": 1,
    "num_key_value_heads": 2})";
  const Checkpoint model = files.model(config);
  const Tensor& keys = model.tensor("blk.0.attn_k_b.weight");
  EXPECT_EQ(keys.shape, (std::vector<uint64_t>{2, 3, 2}));
  EXPECT_EQ(values_of(keys), (Values{0, 3, 1, 4, 2, 5, 9, 12, 10, 13, 11, 14}));
  const Tensor& values = model.tensor("blk.0.attn_v_b.weight");
  EXPECT_EQ(values.shape, (std::vector<uint64_t>{3, 1, 2}));
  EXPECT_EQ(values_of(values), (Values{6, 7, 8, 15, 16, 17}));
  EXPECT_EQ(model.metadata.integer("deepseek2.block_count"), 1u);
  EXPECT_EQ(model.metadata.integer("deepseek2.attention.q_lora_rank"), 0u);
  EXPECT_REFUSED(files.add("model.layers.2.eh_proj.weight", {8, 16}).model(config),
                 "1 tensors that are not part of the model: model.layers.2.eh_proj.weight");
}

TEST(HfDeepseek, Keys) {
  const auto model = described(deepseek3_config(R"("first_k_dense_replace": 1, "n_shared_experts": 2)"));
  EXPECT_EQ(model.architecture, "deepseek2");
  for (const auto& [key, value] : {std::pair{"attention.head_count_kv", 1u},
                                   {"attention.key_length", 7u},
                                   {"attention.value_length", 3u},
                                   {"attention.key_length_mla", 6u},
                                   {"attention.value_length_mla", 1u},
                                   {"attention.q_lora_rank", 5u},
                                   {"rope.dimension_count", 4u},
                                   {"leading_dense_block_count", 1u},
                                   {"expert_gating_func", 2u},
                                   {"expert_group_count", 2u},
                                   {"expert_group_used_count", 1u},
                                   {"expert_shared_count", 2u}})
    EXPECT_EQ(model.metadata.integer(std::string("deepseek2.") + key), value) << key;
  EXPECT_EQ(model.metadata.number("deepseek2.expert_weights_scale"), 2.5);
  EXPECT_TRUE(has_tensor(model, "blk.0.ffn_gate.weight"));
  EXPECT_FALSE(has_tensor(model, "blk.0.ffn_gate_inp.weight"));
  EXPECT_EQ(tensor_of(model, "blk.1.exp_probs_b.bias").sources[0], "model.layers.1.mlp.gate.e_score_correction_bias");
  EXPECT_EQ(tensor_of(model, "blk.1.ffn_up_shexp.weight").shape, (std::vector<uint64_t>{8, 14}));
}

TEST(HfDeepseek, YarnScalesTheScores) {
  const auto with = [](const std::string& scales) {
    return described(deepseek3_config(R"("rope_scaling": {"type": "yarn", "factor": 40, )" + scales +
                                      R"("original_max_position_embeddings": 4096})"))
        .metadata;
  };
  const Metadata same = with(R"("mscale": 0.707, "mscale_all_dim": 0.707, )");
  EXPECT_NEAR(same.number("deepseek2.rope.scaling.yarn_log_multiplier"), 0.0707, 1e-8);
  EXPECT_EQ(same.find("deepseek2.rope.scaling.attn_factor"), nullptr);
  const Metadata other = with(R"("mscale": 1.0, "mscale_all_dim": 0.5, )");
  EXPECT_NEAR(other.number("deepseek2.rope.scaling.attn_factor"), (0.1 * std::log(40) + 1) / (0.05 * std::log(40) + 1),
              1e-6);
  EXPECT_EQ(with("").find("deepseek2.rope.scaling.yarn_log_multiplier"), nullptr);
}

TEST(HfDeepseek, Version2ChoosesAmongTheBestOrInGroups) {
  const auto with = [](const std::string& more) {
    return described(small_config("DeepseekV2ForCausalLM", latent_options + ", " + more));
  };
  const auto groups = with(R"("topk_method": "group_limited_greedy", "n_group": 2, "topk_group": 1)");
  EXPECT_EQ(groups.metadata.integer("deepseek2.expert_gating_func"), 1u);
  EXPECT_EQ(groups.metadata.integer("deepseek2.expert_group_count"), 2u);
  EXPECT_FALSE(has_tensor(groups, "blk.1.exp_probs_b.bias"));
  EXPECT_EQ(
      with(R"("topk_method": "greedy", "n_group": 2, "topk_group": 1)").metadata.find("deepseek2.expert_group_count"),
      nullptr);
  EXPECT_REFUSED(with(R"("topk_method": "noaux_tc")"), "topk_method: expected greedy or group_limited_greedy");
  EXPECT_REFUSED(with(R"("norm_topk_prob": true)"), "norm_topk_prob: expected false, found true");
}

TEST(HfDeepseek, WhatGgufCannotSayIsRefused) {
  EXPECT_REFUSED(described(deepseek3_config(R"("attention_bias": true)")), "attention_bias: expected false");
  EXPECT_REFUSED(described(deepseek3_config(R"("rope_interleave": false)")), "rope_interleave: expected true");
  EXPECT_REFUSED(described(deepseek3_config(R"("scoring_func": "softmax")")),
                 "scoring_func: expected \"sigmoid\" or \"noaux_tc\"");
  EXPECT_REFUSED(described(deepseek3_config(R"("moe_layer_freq": 2)")), "moe_layer_freq: expected 1, found 2");
  EXPECT_REFUSED(described(deepseek3_config(R"("qk_head_dim": 7)")), "qk_head_dim: expected 6, found 7");
  EXPECT_REFUSED(described(small_config("DeepseekV3ForCausalLM", R"("num_key_value_heads": 1)")),
                 "num_key_value_heads: expected as many as attention heads");
}

TEST(HfDeepseek, GlmFlashHasItsDenseLayersFirst) {
  const auto with = [](const std::string& types) {
    return described(small_config("Glm4MoeLiteForCausalLM", latent_options + R"(, "mlp_layer_types": )" + types));
  };
  EXPECT_EQ(with(R"(["dense", "sparse"])").metadata.integer("deepseek2.leading_dense_block_count"), 1u);
  EXPECT_EQ(with(R"(["sparse", "sparse"])").metadata.integer("deepseek2.leading_dense_block_count"), 0u);
  EXPECT_REFUSED(with(R"(["sparse", "dense"])"), "mlp_layer_types: expected \"dense\" in the first layers");
  EXPECT_REFUSED(with(R"(["dense"])"), "mlp_layer_types: expected 2 entries");
}

}  // namespace
}  // namespace heddle::formats
