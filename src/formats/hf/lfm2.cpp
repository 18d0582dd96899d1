// LFM2 and its mixture: short convolutions in most layers, attention with norms of its heads in the others.
#include <fmt/format.h>

#include <algorithm>

#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

// The width of the feed-forward, which the class adjusts unless it is told not to.
uint64_t read_inner(Config& config, uint64_t fallback) {
  uint64_t inner = config.integer("block_ff_dim", config.integer("intermediate_size", fallback));
  const bool adjusts = config.boolean("block_auto_adjust_ff_dim", true);
  const bool has_factor = !config.is_null("block_ffn_dim_multiplier");
  const double factor = config.number("block_ffn_dim_multiplier", 1);
  const uint64_t multiple = config.integer("block_multiple_of", 256);
  if (!adjusts) return inner;
  inner = 2 * inner / 3;
  if (!has_factor) return inner;
  if (!(factor > 0 && factor < 1024)) config.refuse("block_ffn_dim_multiplier", "a number above 0, below 1024");
  inner = static_cast<uint64_t>(factor * static_cast<double>(inner));
  return (inner + multiple - 1) / multiple * multiple;
}

// Which layers have attention.
std::vector<bool> read_attention_layers(Config& config, const Sizes& sizes) {
  const auto types = read_layer_types(config, "layer_types", sizes.layers, {"conv", "full_attention"});
  const std::vector<double> given = config.numbers("full_attn_idxs");
  std::vector<bool> full;
  for (uint64_t i = 0; i < sizes.layers; ++i)
    full.push_back(types.empty() ? given.empty() || std::find(given.begin(), given.end(), double(i)) != given.end()
                                 : types[i] == "full_attention");
  return full;
}

struct Lfm2Mixture {
  uint64_t experts = 0, used = 0, inner = 0, dense = 0;
  bool bias = false;
};

Lfm2Mixture read_lfm2_mixture(Description& to, Config& config) {
  const Lfm2Mixture mixture{.experts = config.integer("num_experts", 32),
                            .used = config.integer("num_experts_per_tok", 4),
                            .inner = config.integer("moe_intermediate_size", 1792),
                            .dense = config.count("num_dense_layers", 2),
                            .bias = config.boolean("use_expert_bias", true)};
  to.set("expert_count", mixture.experts);
  to.set("expert_used_count", mixture.used);
  to.set("expert_feed_forward_length", mixture.inner);
  to.set("leading_dense_block_count", mixture.dense);
  to.set("expert_gating_func", uint64_t{2});  // sigmoid
  to.set("expert_weights_scale", config.number("routed_scaling_factor", 1));
  if (!config.boolean("norm_topk_prob", true)) to.set("expert_weights_norm", Value(false));  // heddle's own key
  return mixture;
}

void add_lfm2_mixture(Layer& layer, const Sizes& sizes, const Lfm2Mixture& mixture) {
  layer.weight("ffn_gate_inp", "feed_forward.gate", {sizes.hidden, mixture.experts});
  if (mixture.bias)
    layer.to.add(layer.gguf + "exp_probs_b.bias", layer.file + "feed_forward.expert_bias", {mixture.experts});
  add_experts(layer, sizes, mixture.experts, mixture.inner, "feed_forward", {"w1", "w3", "w2"});
}

Description lfm2_family(Config& config, std::string_view architecture, const Sizes& defaults) {
  const bool experts = architecture == "lfm2moe";
  Sizes sizes = read_sizes(config, defaults);
  sizes.tied = config.boolean("tie_embedding", sizes.tied);
  sizes.epsilon = config.number("norm_eps", config.number("block_norm_eps", 1e-5));
  sizes.inner = experts ? config.integer("intermediate_size", defaults.inner) : read_inner(config, defaults.inner);
  config.expect("conv_bias", {false}, false);
  config.ignore({"conv_dim", "conv_dim_out", "conv_use_xavier_init", "block_dim", "block_mlp_init_scale",
                 "block_out_init_scale", "block_norm_eps", "block_use_swiglu", "block_use_xavier_init", "num_heads",
                 "theta", "use_pos_enc", "full_attn_idxs"});
  const std::vector<bool> full = read_attention_layers(config, sizes);
  const uint64_t width = config.integer("conv_L_cache", 3);

  Description to(architecture);
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  to.set("shortconv.l_cache", width);
  std::vector<int32_t> kv_heads;
  for (const bool attends : full) kv_heads.push_back(attends ? int32_t(sizes.kv_heads) : 0);
  to.set("attention.head_count_kv", Value(Array::of(kv_heads)));
  put_rope(to, read_rope(config, sizes, {.theta = 1e6}), sizes.head_dim);
  const Lfm2Mixture mixture = experts ? read_lfm2_mixture(to, config) : Lfm2Mixture{.dense = sizes.layers};

  to.add("token_embd.weight", "model.embed_tokens.weight", {sizes.hidden, sizes.vocabulary});
  to.add("token_embd_norm.weight", "model.embedding_norm.weight", {sizes.hidden});  // of the output
  add_output(to, sizes, "model.embed_tokens.weight");
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "operator_norm", {sizes.hidden});
    if (full[i]) {
      const uint64_t q = sizes.heads * sizes.head_dim, k = sizes.kv_heads * sizes.head_dim;
      layer.weight("attn_q", "self_attn.q_proj", {sizes.hidden, q});
      layer.weight("attn_k", "self_attn.k_proj", {sizes.hidden, k});
      layer.weight("attn_v", "self_attn.v_proj", {sizes.hidden, k});
      layer.weight("attn_output", "self_attn.out_proj", {q, sizes.hidden});
      layer.weight("attn_q_norm", "self_attn.q_layernorm", {sizes.head_dim});
      layer.weight("attn_k_norm", "self_attn.k_layernorm", {sizes.head_dim});
    } else {
      layer.weight("shortconv.in_proj", "conv.in_proj", {sizes.hidden, 3 * sizes.hidden});
      layer.weight("shortconv.conv", "conv.conv", {width, sizes.hidden});
      layer.weight("shortconv.out_proj", "conv.out_proj", {sizes.hidden, sizes.hidden});
    }
    layer.weight("ffn_norm", "ffn_norm", {sizes.hidden});
    if (i >= mixture.dense) {
      add_lfm2_mixture(layer, sizes, mixture);
      continue;
    }
    layer.weight("ffn_gate", "feed_forward.w1", {sizes.hidden, sizes.inner});
    layer.weight("ffn_up", "feed_forward.w3", {sizes.hidden, sizes.inner});
    layer.weight("ffn_down", "feed_forward.w2", {sizes.inner, sizes.hidden});
  }
  return to;
}

}  // namespace

Description describe_lfm2(Config& config) {
  return lfm2_family(config, "lfm2", {65536, 2560, 12288, 32, 32, 8, 0, 128000, 1e-5, true});
}

Description describe_lfm2moe(Config& config) {
  return lfm2_family(config, "lfm2moe", {65536, 2048, 7168, 32, 32, 8, 0, 128000, 1e-5, true});
}

}  // namespace heddle::formats::hf
