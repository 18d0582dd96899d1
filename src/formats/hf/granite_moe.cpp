// Granite with experts, and with one that sees every token (GraniteMoeShared): gate and up are one matrix in the file.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/granite.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Sizes granite_sizes(Config& config) {
  Sizes sizes = read_sizes(config, {32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-6);
  if (sizes.head_dim % 2) config.refuse("head_dim", "an even number");
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"silu"}, "silu");
  return sizes;
}

void put_granite_scales(Description& to, Config& config) {
  to.set("attention.scale", config.number("attention_multiplier", 1));
  to.set("embedding_scale", config.number("embedding_multiplier", 1));
  to.set("residual_scale", config.number("residual_multiplier", 1));
  to.set("logit_scale", config.number("logits_scaling", 1));
}

void add_granite_mixture(Layer& layer, const Sizes& sizes, uint64_t experts, uint64_t shared) {
  const std::string in = "block_sparse_moe.input_linear", shared_in = "shared_mlp.input_linear";
  if (experts) {
    layer.weight("ffn_gate_inp", "block_sparse_moe.router.layer", {sizes.hidden, experts});
    layer.weight("ffn_gate_exps", in, {sizes.hidden, sizes.inner, experts}, {.kind = Change::Kind::first_half});
    layer.weight("ffn_up_exps", in, {sizes.hidden, sizes.inner, experts}, {.kind = Change::Kind::second_half});
    layer.weight("ffn_down_exps", "block_sparse_moe.output_linear", {sizes.inner, sizes.hidden, experts});
  }
  if (!shared) return;
  const std::string suffix = experts ? "_shexp" : "";
  layer.weight("ffn_gate" + suffix, shared_in, {sizes.hidden, shared}, {.kind = Change::Kind::top_half});
  layer.weight("ffn_up" + suffix, shared_in, {sizes.hidden, shared}, {.kind = Change::Kind::bottom_half});
  layer.weight("ffn_down" + suffix, "shared_mlp.output_linear", {shared, sizes.hidden});
}

Description describe_granitemoe(Config& config) {
  const Sizes sizes = granite_sizes(config);
  const bool bias = config.boolean("attention_bias", false);
  const uint64_t experts = config.integer("num_local_experts", 8);
  const uint64_t shared = config.count("shared_intermediate_size", 0);

  Description to("granitemoe");
  put_sizes(to, sizes);
  put_rms_epsilon(to, sizes);
  to.set("rope.dimension_count", sizes.head_dim);
  put_rope(to, read_rope(config, sizes, {}), sizes.head_dim);
  put_granite_scales(to, config);
  to.set("expert_count", experts);
  to.set("expert_used_count", config.integer("num_experts_per_tok", 2));
  if (shared) to.set("expert_shared_feed_forward_length", shared);

  add_ends(to, sizes);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {true, bias, bias});
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    add_granite_mixture(layer, sizes, experts, shared);
  }
  return to;
}

}  // namespace heddle::formats::hf
