// MiniMax M2: norms over all of q and all of k, a share of each head rotated, experts chosen by sigmoid scores and a
// bias.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/mixture.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Description describe_minimax_m2(Config& config) {
  Sizes sizes = read_sizes(config, {200064, 3072, 1536, 62, 48, 8, 128, 196608, 1e-6, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-6);
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("scoring_func", {"sigmoid"}, "sigmoid");
  config.expect("use_qk_norm", {true}, true);
  config.expect("qk_norm_type", {"per_layer"}, "per_layer");
  config.expect("use_routing_bias", {true}, true);
  config.expect("shared_intermediate_size", {0}, 0);
  for (const char* key : {"layernorm_full_attention_beta", "layernorm_linear_attention_beta", "layernorm_mlp_beta"})
    config.expect(key, {1.0}, 1.0);
  for (const double type : config.numbers("attn_type_list"))
    if (type != 1) config.refuse("attn_type_list", "1 in all layers");
  // Of layers that guess further tokens, of shared experts, which there are not, and of training.
  config.ignore({"use_mtp", "num_mtp_modules", "mtp_transformer_layers", "shared_moe_mode", "mlp_intermediate_size",
                 "router_z_loss_coef", "max_model_len"});

  Description to("minimax-m2");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  Mixture mixture{
      .used = config.integer("num_experts_per_tok", 8), .inner = sizes.inner, .sigmoid = true, .normalised = true};
  mixture.experts = config.integer("num_local_experts", config.integer("num_experts", 256));
  put_mixture(to, mixture);
  Rope rope = read_rope(config, sizes,
                        {.theta = 5e6,
                         .may_be_partial = true,
                         .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}});
  uint64_t dimensions = rotated_dimensions(config, rope, sizes);
  if (config.find("rotary_dim")) dimensions = config.integer("rotary_dim", dimensions);
  if (dimensions > sizes.head_dim || dimensions % 2)
    config.refuse("rotary_dim", fmt::format("an even number up to the head's {}", sizes.head_dim));
  to.set("rope.dimension_count", dimensions);
  put_rope(to, rope, dimensions);

  add_ends(to, sizes, {}, true);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {});
    layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.heads * sizes.head_dim});
    layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.kv_heads * sizes.head_dim});
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    layer.weight("ffn_gate_inp", "block_sparse_moe.gate", {sizes.hidden, mixture.experts});
    to.add(layer.gguf + "exp_probs_b.bias", layer.file + "block_sparse_moe.e_score_correction_bias", {mixture.experts});
    add_experts(layer, sizes, mixture.experts, mixture.inner, "block_sparse_moe", {"w1", "w3", "w2"});
  }
  return to;
}

}  // namespace heddle::formats::hf
