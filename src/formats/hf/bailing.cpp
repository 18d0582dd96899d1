// Ling and Ring 2.0 (BailingMoeV2): q, k and v as one matrix, a norm on each head, half of each head rotated, experts
// in groups chosen by sigmoid scores and a bias.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/mixture.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

Mixture read_bailing_mixture(Config& config) {
  Mixture mixture{.experts = config.integer("num_experts", 256),
                  .used = config.integer("num_experts_per_tok", 8),
                  .inner = config.integer("moe_intermediate_size", 512),
                  .dense = config.count("first_k_dense_replace", 1),
                  .shared = config.count("num_shared_experts", 1),
                  .sigmoid = true,
                  .normalised = config.boolean("norm_topk_prob", true),
                  .scale = config.number("routed_scaling_factor", 2.5),
                  .groups = config.integer("n_group", 8),
                  .groups_used = config.integer("topk_group", 4)};
  mixture.shared_inner = mixture.shared * config.integer("moe_shared_expert_intermediate_size", mixture.inner);
  if (mixture.experts % mixture.groups)
    config.refuse("n_group", fmt::format("a divisor of the {} experts", mixture.experts));
  if (mixture.groups_used > mixture.groups) config.refuse("topk_group", fmt::format("at most {}", mixture.groups));
  config.expect("score_function", {"sigmoid"}, "sigmoid");
  config.expect("moe_router_enable_expert_bias", {true}, true);
  config.ignore({"router_dtype", "moe_router_topk_scaling_factor"});
  return mixture;
}

}  // namespace

Description describe_bailing_moe2(Config& config) {
  Sizes sizes = read_sizes(config, {157184, 2048, 5120, 20, 16, 4, 128, 32768, 1e-6, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-6);
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("use_qkv_bias", {false}, false);
  config.expect("use_bias", {false}, false);
  config.expect("use_qk_norm", {true}, true);
  config.expect("use_rmsnorm", {true}, true);
  config.expect("norm_head", {false}, false);
  config.ignore({"max_window_layers", "output_dropout", "embedding_dropout"});
  expect_full_attention(config, sizes);
  const Mixture mixture = read_bailing_mixture(config);

  Description to("bailingmoe2");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  put_mixture(to, mixture);
  if (mixture.shared_inner) to.set("expert_shared_feed_forward_length", mixture.shared_inner);
  const Rope rope = read_rope(config, sizes,
                              {.theta = 600000,
                               .partial = 0.5,
                               .may_be_partial = true,
                               .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}});
  const uint64_t dimensions = rotated_dimensions(config, rope, sizes);
  config.expect("rotary_dim", {dimensions}, dimensions);
  to.set("rope.dimension_count", dimensions);
  put_rope(to, rope, dimensions);
  ignore_guessing_layers(to, config, sizes);

  const std::string embedding = "model.word_embeddings.weight";
  to.add("token_embd.weight", embedding, {sizes.hidden, sizes.vocabulary});
  to.add("output_norm.weight", "model.norm.weight", {sizes.hidden});
  add_output(to, sizes, embedding, true);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    layer.weight("attn_qkv", "attention.query_key_value",
                 {sizes.hidden, (sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim});
    layer.weight("attn_q_norm", "attention.query_layernorm", {sizes.head_dim});
    layer.weight("attn_k_norm", "attention.key_layernorm", {sizes.head_dim});
    layer.weight("attn_output", "attention.dense", {sizes.heads * sizes.head_dim, sizes.hidden});
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    if (i < mixture.dense)
      add_gated(layer, sizes);
    else
      add_mixture(layer, sizes, mixture, "mlp", "gate.expert_bias");
  }
  return to;
}

}  // namespace heddle::formats::hf
