// Seed-OSS: Llama's layer rotated by halves of a head, with biases. GGUF calls the norm of its feed-forward
// post_attention_norm.
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Description describe_seed_oss(Config& config) {
  Sizes sizes = read_sizes(config, {155136, 4096, 27648, 64, 80, 8, 128, 524288, 1e-6, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-6);
  config.expect("hidden_act", {"silu"}, "silu");
  const bool qkv_bias = config.boolean("attention_bias", true),
             output_bias = config.boolean("attention_out_bias", false), mlp_bias = config.boolean("mlp_bias", false);

  Description to("seed_oss");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  const RopeDefaults defaults{.types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}};
  put_rope(to, read_rope(config, sizes, defaults), sizes.head_dim);
  add_ends(to, sizes);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {false, qkv_bias, output_bias});
    layer.weight("post_attention_norm", "post_attention_layernorm", {sizes.hidden});
    add_gated(layer, sizes, mlp_bias);
  }
  return to;
}

}  // namespace heddle::formats::hf
