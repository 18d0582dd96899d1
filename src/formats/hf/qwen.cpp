// Qwen2 (biases on q, k and v), Qwen3 (a norm on each head of q and k), and their mixtures of experts.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

struct QwenFamily {
  std::string_view architecture;
  bool qkv_bias = false, output_bias = false, head_norm = false;
  uint64_t experts = 0, expert_inner = 0, shared_inner = 0;
  std::vector<bool> sparse;  // the layers that have them
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

  add_ends(to, sizes, {}, options.shared_inner > 0);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {false, options.qkv_bias, options.output_bias});
    if (options.head_norm) {
      layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.head_dim});
      layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.head_dim});
    }
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    if (options.sparse.empty() || !options.sparse[i]) {
      add_gated(layer, sizes);
      continue;
    }
    layer.weight("ffn_gate_inp", "mlp.gate", {sizes.hidden, options.experts});
    add_experts(layer, sizes, options.experts, options.expert_inner, "mlp", {"gate_proj", "up_proj", "down_proj"});
    if (!options.shared_inner) continue;
    layer.weight("ffn_gate_inp_shexp", "mlp.shared_expert_gate", {sizes.hidden});
    layer.weight("ffn_gate_shexp", "mlp.shared_expert.gate_proj", {sizes.hidden, options.shared_inner});
    layer.weight("ffn_up_shexp", "mlp.shared_expert.up_proj", {sizes.hidden, options.shared_inner});
    layer.weight("ffn_down_shexp", "mlp.shared_expert.down_proj", {options.shared_inner, sizes.hidden});
  }
  return to;
}

Sizes qwen_sizes(Config& config, const Sizes& defaults) {
  Sizes sizes = read_sizes(config, defaults);
  sizes.epsilon = config.number("rms_norm_eps", defaults.epsilon);
  return sizes;
}

void read_experts(Config& config, QwenFamily& options, const Sizes& sizes, uint64_t experts, uint64_t inner) {
  options.experts = config.integer("num_experts", config.integer("num_local_experts", experts));
  config.expect("num_local_experts", {options.experts}, options.experts);  // another name of it
  options.expert_inner = config.integer("moe_intermediate_size", inner);
  const uint64_t step = config.integer("decoder_sparse_step", 1);
  for (uint64_t i = 0; i < sizes.layers; ++i) options.sparse.push_back((i + 1) % step == 0);
  for (const double layer : config.numbers("mlp_only_layers")) {
    if (!(layer >= 0 && layer < static_cast<double>(sizes.layers)))
      config.refuse("mlp_only_layers", fmt::format("numbers of layers, from 0 to {}", sizes.layers - 1));
    options.sparse[static_cast<size_t>(layer)] = false;
  }
}

// In GGUF the architecture says whether the weights of experts are normalised to a sum of 1, which is `usual`; what is
// not usual has heddle's own key, as have layers without experts, which are seen by their tensors.
void put_experts(Description& to, const QwenFamily& options, uint64_t used, bool normalised, bool usual) {
  to.set("expert_count", options.experts);
  to.set("expert_used_count", used);
  to.set("expert_feed_forward_length", options.expert_inner);
  if (options.shared_inner) to.set("expert_shared_feed_forward_length", options.shared_inner);
  if (normalised != usual) to.set("expert_weights_norm", Value(normalised));
}

}  // namespace

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
  read_experts(config, options, sizes, 60, 1408);
  options.shared_inner = config.integer("shared_expert_intermediate_size", 5632);
  Description to = qwen_family(config, sizes, options);
  put_experts(to, options, config.integer("num_experts_per_tok", 4), config.boolean("norm_topk_prob", false), false);
  return to;
}

Description describe_qwen3moe(Config& config) {
  const Sizes sizes = qwen_sizes(config, {151936, 2048, 6144, 24, 32, 4, 0, 32768, 1e-6, false});
  const bool bias = config.boolean("attention_bias", false);
  QwenFamily options{.architecture = "qwen3moe", .qkv_bias = bias, .output_bias = bias, .head_norm = true};
  read_experts(config, options, sizes, 128, 768);
  Description to = qwen_family(config, sizes, options);
  put_experts(to, options, config.integer("num_experts_per_tok", 8), config.boolean("norm_topk_prob", false), true);
  return to;
}

}  // namespace heddle::formats::hf
