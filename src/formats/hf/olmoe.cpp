// OLMoE: norms over all of q and all of k.
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Description describe_olmoe(Config& config) {
  Sizes sizes = read_sizes(config, {50304, 2048, 2048, 16, 16, 0, 0, 4096, 1e-5, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("attention_bias", {false}, false);
  const uint64_t experts = config.integer("num_experts", config.integer("num_local_experts", 64));

  Description to("olmoe");
  put_sizes(to, sizes);
  put_rms_epsilon(to, sizes);
  put_clip(to, config);
  to.set("expert_count", experts);
  to.set("expert_used_count", config.integer("num_experts_per_tok", 8));
  if (config.boolean("norm_topk_prob", false)) to.set("expert_weights_norm", Value(true));  // heddle's own key
  put_rope(to,
           read_rope(config, sizes,
                     {.theta = 10000, .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}}),
           sizes.head_dim);
  add_ends(to, sizes, {}, true);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {});
    layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.hidden});
    layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.kv_heads * sizes.head_dim});
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    layer.weight("ffn_gate_inp", "mlp.gate", {sizes.hidden, experts});
    add_experts(layer, sizes, experts, sizes.inner, "mlp", {"gate_proj", "up_proj", "down_proj"});
  }
  return to;
}

}  // namespace heddle::formats::hf
