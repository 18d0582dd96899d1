// Qwen2 (biases on q, k and v), Qwen3 (a norm on each head of q and k), and their mixtures of experts.
#include "formats/hf/qwen.h"

#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

struct QwenFamily {
  std::string_view architecture;
  bool qkv_bias = false, output_bias = false, head_norm = false;
  QwenMixture mixture = {};
};

Description qwen_family(Config& config, const Sizes& sizes, const QwenFamily& options) {
  Description to(options.architecture);
  config.expect("hidden_act", {"silu"}, "silu");
  put_sizes(to, sizes);
  put_optional_windows(to, config, sizes);
  config.ignore({"use_mrope"});  // positions of pictures
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  put_rope(to,
           read_rope(config, sizes,
                     {.theta = 10000, .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}}),
           sizes.head_dim);

  add_ends(to, sizes, {}, options.mixture.shared_inner > 0);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {false, options.qkv_bias, options.output_bias});
    if (options.head_norm) {
      layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.head_dim});
      layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.head_dim});
    }
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    if (options.mixture.sparse.empty() || !options.mixture.sparse[i])
      add_gated(layer, sizes);
    else
      add_qwen_mixture(layer, sizes, options.mixture);
  }
  return to;
}

Sizes qwen_sizes(Config& config, const Sizes& defaults) {
  Sizes sizes = read_sizes(config, defaults);
  sizes.epsilon = config.number("rms_norm_eps", defaults.epsilon);
  return sizes;
}

}  // namespace

QwenMixture read_qwen_mixture(Config& config, const Sizes& sizes, const QwenMixture& usual) {
  QwenMixture to;
  to.experts = config.integer("num_experts", config.integer("num_local_experts", usual.experts));
  config.expect("num_local_experts", {to.experts}, to.experts);  // another name of it
  to.inner = config.integer("moe_intermediate_size", usual.inner);
  const uint64_t step = config.integer("decoder_sparse_step", 1);
  for (uint64_t i = 0; i < sizes.layers; ++i) to.sparse.push_back((i + 1) % step == 0);
  for (const double layer : config.numbers("mlp_only_layers")) {
    if (!(layer >= 0 && layer < static_cast<double>(sizes.layers)))
      config.refuse("mlp_only_layers", fmt::format("numbers of layers, from 0 to {}", sizes.layers - 1));
    to.sparse[static_cast<size_t>(layer)] = false;
  }
  return to;
}

void put_qwen_mixture(Description& to, const QwenMixture& mixture, uint64_t used, bool normalised, bool usual) {
  to.set("expert_count", mixture.experts);
  to.set("expert_used_count", used);
  to.set("expert_feed_forward_length", mixture.inner);
  if (mixture.shared_inner) to.set("expert_shared_feed_forward_length", mixture.shared_inner);
  if (normalised != usual) to.set("expert_weights_norm", Value(normalised));
}

void add_qwen_mixture(Layer& layer, const Sizes& sizes, const QwenMixture& mixture) {
  layer.weight("ffn_gate_inp", "mlp.gate", {sizes.hidden, mixture.experts});
  add_experts(layer, sizes, mixture.experts, mixture.inner, "mlp", {"gate_proj", "up_proj", "down_proj"});
  if (!mixture.shared_inner) return;
  layer.weight("ffn_gate_inp_shexp", "mlp.shared_expert_gate", {sizes.hidden});
  layer.weight("ffn_gate_shexp", "mlp.shared_expert.gate_proj", {sizes.hidden, mixture.shared_inner});
  layer.weight("ffn_up_shexp", "mlp.shared_expert.up_proj", {sizes.hidden, mixture.shared_inner});
  layer.weight("ffn_down_shexp", "mlp.shared_expert.down_proj", {mixture.shared_inner, sizes.hidden});
}

Description describe_qwen2(Config& config) {
  return qwen_family(config, qwen_sizes(config, {151936, 4096, 22016, 32, 32, 32, 0, 32768, 1e-6, false}),
                     {.architecture = "qwen2", .qkv_bias = true});
}

Description describe_qwen3(Config& config) {
  const bool bias = config.boolean("attention_bias", false);
  return qwen_family(config, qwen_sizes(config, {151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6, false}),
                     {.architecture = "qwen3", .qkv_bias = bias, .output_bias = bias, .head_norm = true});
}

Description describe_qwen2moe(Config& config) {
  const Sizes sizes = qwen_sizes(config, {151936, 2048, 5632, 24, 16, 16, 0, 32768, 1e-6, false});
  QwenFamily options{.architecture = "qwen2moe", .qkv_bias = config.boolean("qkv_bias", true)};
  options.mixture = read_qwen_mixture(config, sizes, {60, 1408, 0, {}});
  options.mixture.shared_inner = config.integer("shared_expert_intermediate_size", 5632);
  Description to = qwen_family(config, sizes, options);
  put_qwen_mixture(to, options.mixture, config.integer("num_experts_per_tok", 4),
                   config.boolean("norm_topk_prob", false), false);
  return to;
}

Description describe_qwen3moe(Config& config) {
  const Sizes sizes = qwen_sizes(config, {151936, 2048, 6144, 24, 32, 4, 0, 32768, 1e-6, false});
  const bool bias = config.boolean("attention_bias", false);
  QwenFamily options{.architecture = "qwen3moe", .qkv_bias = bias, .output_bias = bias, .head_norm = true};
  options.mixture = read_qwen_mixture(config, sizes, {128, 768, 0, {}});
  Description to = qwen_family(config, sizes, options);
  put_qwen_mixture(to, options.mixture, config.integer("num_experts_per_tok", 8),
                   config.boolean("norm_topk_prob", false), true);
  return to;
}

}  // namespace heddle::formats::hf
