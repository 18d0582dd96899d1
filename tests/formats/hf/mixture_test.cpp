// The options of mixtures that most classes share, and classes with little beside them.
#include "formats/hf/mixture.h"

#include <gtest/gtest.h>

#include "tests/formats/hf/described.h"
#include "tests/formats/hf/hf_files.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;

hf::Description glm(const std::string& more) {
  return described(small_config("Glm4MoeForCausalLM", R"("n_routed_experts": 6, "num_experts_per_tok": 2,
    "moe_intermediate_size": 5, "num_key_value_heads": 1)" +
                                                          (more.empty() ? "" : ", " + more)));
}

TEST(HfMixture, SizesAreComparedWithEachOther) {
  EXPECT_REFUSED(glm(R"("n_group": 4)"), "n_group: expected a divisor of the 6 experts, found 4");
  EXPECT_REFUSED(glm(R"("n_group": 2, "topk_group": 3)"), "topk_group: expected at most 2, found 3");
  EXPECT_REFUSED(glm(R"("n_group": 6, "topk_group": 1)"),
                 "num_experts_per_tok: expected at most the 1 experts of 1 groups, found 2");
  EXPECT_REFUSED(described(small_config("Dots1ForCausalLM", R"("num_key_value_heads": 1)")),
                 "n_routed_experts: expected a number, found none");
}

TEST(HfMixture, Glm) {
  const auto model = glm(R"("use_qk_norm": true, "attention_bias": true, "n_shared_experts": 3)");
  EXPECT_EQ(model.metadata.integer("glm4moe.rope.dimension_count"), 2u);
  EXPECT_EQ(model.metadata.integer("glm4moe.expert_gating_func"), 2u);
  EXPECT_EQ(tensor_of(model, "blk.1.post_attention_norm.weight").sources[0],
            "model.layers.1.post_attention_layernorm.weight");
  EXPECT_TRUE(has_tensor(model, "blk.0.attn_q_norm.weight"));
  EXPECT_TRUE(has_tensor(model, "blk.0.attn_v.bias"));
  EXPECT_FALSE(has_tensor(model, "blk.0.attn_output.bias"));
  EXPECT_EQ(tensor_of(model, "blk.1.ffn_down_shexp.weight").shape, (std::vector<uint64_t>{15, 8}));
  EXPECT_FALSE(has_tensor(glm(""), "blk.0.attn_q_norm.weight"));
}

TEST(HfMixture, Dots) {
  const std::string experts = R"("n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
    "num_key_value_heads": 1)";
  const auto model = described(small_config("Dots1ForCausalLM", experts));
  EXPECT_EQ(model.metadata.integer("dots1.leading_dense_block_count"), 0u);
  EXPECT_TRUE(has_tensor(model, "blk.0.ffn_norm.weight"));
  EXPECT_REFUSED(described(small_config("Dots1ForCausalLM", experts + R"(, "sliding_window": 8,
    "max_window_layers": 1)")),
                 "max_window_layers: expected at least the number of layers");
}

TEST(HfMixture, MiniMax) {
  const std::string head = R"("head_dim": 4, "num_key_value_heads": 1, "num_local_experts": 4)";
  const auto model = described(small_config("MiniMaxM2ForCausalLM", head + R"(, "rotary_dim": 2,
    "attn_type_list": [1, 1], "use_qk_norm": true, "qk_norm_type": "per_layer", "use_routing_bias": true,
    "scoring_func": "sigmoid", "shared_intermediate_size": 0, "num_mtp_modules": 3)"));
  EXPECT_EQ(model.metadata.integer("minimax-m2.rope.dimension_count"), 2u);
  EXPECT_EQ(tensor_of(model, "blk.0.attn_k_norm.weight").shape, std::vector<uint64_t>{4});
  EXPECT_EQ(tensor_of(model, "blk.0.attn_q_norm.weight").shape, std::vector<uint64_t>{8});
  EXPECT_EQ(tensor_of(model, "blk.1.exp_probs_b.bias").sources[0],
            "model.layers.1.block_sparse_moe.e_score_correction_bias");
  EXPECT_REFUSED(described(small_config("MiniMaxM2ForCausalLM", head + R"(, "rotary_dim": 6)")),
                 "rotary_dim: expected an even number up to the head's 4");
  EXPECT_REFUSED(described(small_config("MiniMaxM2ForCausalLM", head + R"(, "attn_type_list": [1, 0])")),
                 "attn_type_list: expected 1 in all layers");
}

TEST(HfMixture, Ernie) {
  const std::string experts =
      R"("moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 5, "num_key_value_heads": 1)";
  const auto model = described(small_config("Ernie4_5_MoeForCausalLM", experts));
  EXPECT_EQ(model.metadata.integer("ernie4_5-moe.expert_shared_feed_forward_length"), 10u);
  EXPECT_EQ(model.metadata.integer("ernie4_5-moe.interleave_moe_layer_step"), 1u);
  EXPECT_TRUE(has_tensor(model, "blk.0.ffn_gate.weight"));
  EXPECT_EQ(tensor_of(model, "blk.1.exp_probs_b.bias").sources[0],
            "model.layers.1.mlp.moe_statics.e_score_correction_bias");
  EXPECT_FALSE(has_tensor(described(small_config("Ernie4_5_MoeForCausalLM", experts + R"(, "moe_layer_end_index": 0)")),
                          "blk.1.ffn_gate_inp.weight"));
  EXPECT_REFUSED(described(small_config("Ernie4_5_MoeForCausalLM", experts + R"(, "use_bias": true)")),
                 "use_bias: expected false");
  EXPECT_EQ(described(small_config("Ernie4_5_ForCausalLM")).metadata.integer("ernie4_5.attention.key_length"), 128u);
}

TEST(HfMixture, HunyuanStretchesItsBase) {
  const std::string experts = R"("head_dim": 4, "num_experts": 4, "moe_topk": [2, 2], "num_shared_expert": [1, 1],
    "moe_intermediate_size": [6, 6])";
  const auto model = described(small_config("HunYuanMoEV1ForCausalLM", experts + R"(, "rope_scaling": {"alpha": 9.0,
    "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "type": "dynamic"})"));
  EXPECT_NEAR(model.metadata.number("hunyuan-moe.rope.freq_base"), 10000 * 81, 0.1);  // 9^(4 / 2)
  EXPECT_EQ(model.metadata.integer("hunyuan-moe.expert_used_count"), 2u);
  EXPECT_EQ(tensor_of(model, "blk.0.ffn_gate_inp.weight").sources[0], "model.layers.0.mlp.gate.wg.weight");
  EXPECT_REFUSED(described(small_config("HunYuanMoEV1ForCausalLM", R"("moe_topk": [2, 1])")),
                 "moe_topk: expected the same whole number in all layers");
  EXPECT_REFUSED(described(small_config("HunYuanMoEV1ForCausalLM", R"("moe_intermediate_size": [5, 5])")),
                 "moe_intermediate_size: expected intermediate_size in all layers");
  EXPECT_REFUSED(described(small_config("HunYuanDenseV1ForCausalLM", R"("use_cla": true)")), "use_cla: expected false");
}

TEST(HfMixture, Granite) {
  const auto model = described(small_config("GraniteMoeSharedForCausalLM", R"("num_local_experts": 4,
    "shared_intermediate_size": 5, "attention_multiplier": 0.5, "logits_scaling": 4)"));
  EXPECT_EQ(model.metadata.integer("granitemoe.expert_shared_feed_forward_length"), 5u);
  EXPECT_EQ(model.metadata.number("granitemoe.logit_scale"), 4);
  const hf::Wanted& up = tensor_of(model, "blk.0.ffn_up_shexp.weight");
  EXPECT_EQ(up.sources[0], "model.layers.0.shared_mlp.input_linear.weight");
  EXPECT_EQ(up.change.kind, hf::Change::Kind::bottom_half);
}

TEST(HfMixture, Olmoe) {
  const auto model = described(small_config("OlmoeForCausalLM", R"("num_experts": 4, "clip_qkv": null)"));
  EXPECT_EQ(model.metadata.find("olmoe.expert_weights_norm"), nullptr);
  EXPECT_TRUE(described(small_config("OlmoeForCausalLM", R"("norm_topk_prob": true)"))
                  .metadata.boolean("olmoe.expert_weights_norm"));
  EXPECT_EQ(model.metadata.find("olmoe.attention.clamp_kqv"), nullptr);
  EXPECT_EQ(
      described(small_config("OlmoeForCausalLM", R"("clip_qkv": 8.0)")).metadata.number("olmoe.attention.clamp_kqv"),
      8);
  EXPECT_REFUSED(described(small_config("OlmoeForCausalLM", R"("clip_qkv": 0)")),
                 "clip_qkv: expected null, or a number above 0, found 0");
}

TEST(HfMixture, Bailing) {
  const std::string head = R"("head_dim": 4, "num_key_value_heads": 1, "num_experts": 8, "num_experts_per_tok": 2,
    "n_group": 4, "topk_group": 2)";
  const auto model = described(small_config("BailingMoeV2ForCausalLM", head));
  EXPECT_EQ(model.metadata.integer("bailingmoe2.rope.dimension_count"), 2u);
  EXPECT_EQ(tensor_of(model, "blk.0.attn_qkv.weight").shape, (std::vector<uint64_t>{8, 16}));
  EXPECT_EQ(tensor_of(model, "blk.1.exp_probs_b.bias").sources[0], "model.layers.1.mlp.gate.expert_bias");
  EXPECT_REFUSED(described(small_config("BailingMoeV2ForCausalLM", head + R"(, "norm_head": true)")),
                 "norm_head: expected false");
  EXPECT_REFUSED(described(small_config("BailingMoeV2ForCausalLM", head + R"(, "score_function": "softmax")")),
                 "score_function: expected \"sigmoid\"");
}

TEST(HfMixture, Phi) {
  const std::string biases = R"("attention_bias": true, "lm_head_bias": true, "num_key_value_heads": 2)";
  const auto model = described(small_config("PhiMoEForCausalLM", biases + R"(, "rope_scaling": {"type": "longrope",
    "long_factor": [1.0, 2.0], "short_factor": [1.0, 1.5], "long_mscale": 1.25, "short_mscale": 1.25,
    "original_max_position_embeddings": 16})"));
  EXPECT_EQ(model.metadata.number("phimoe.rope.scaling.attn_factor"), 1.25);
  EXPECT_EQ(model.metadata.number("phimoe.attention.layer_norm_rms_epsilon"), 1e-5f);
  EXPECT_TRUE(has_tensor(model, "blk.1.ffn_norm.bias"));
  EXPECT_REFUSED(described(small_config("PhimoeForCausalLM", biases + R"(, "router_jitter_noise": 0.1)")),
                 "router_jitter_noise: expected 0.01, found 0.1");
  EXPECT_REFUSED(described(small_config("PhimoeForCausalLM", biases + R"(, "rope_scaling": {"type": "longrope",
    "long_factor": [1.0, 2.0], "short_factor": [1.0, 1.5], "long_mscale": 1.25, "short_mscale": 1.0})")),
                 "short_mscale: expected the same as long_mscale, found 1.0");
}

}  // namespace
}  // namespace heddle::formats
