// Nemotron (Minitron): LayerNorm stored as weight - 1, and a feed-forward without a gate.
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Description describe_nemotron(Config& config) {
  const Sizes sizes = read_sizes(config, {256000, 6144, 24576, 32, 48, 0, 0, 4096, 1e-5, false});
  config.expect("hidden_act", {"relu2"}, "relu2");
  const bool attention_bias = config.boolean("attention_bias", false), mlp_bias = config.boolean("mlp_bias", false);
  const Change plus_one{Change::Kind::plus_one, 0};

  Description to("nemotron");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_epsilon(to, config.number("norm_eps", 1e-5));
  const RopeDefaults defaults{
      .theta = 10000, .partial = 0.5, .may_be_partial = true, .types = {RopeType::usual, RopeType::linear}};
  const Rope rope = read_rope(config, sizes, defaults);
  const uint64_t dimensions = rotated_dimensions(config, rope, sizes);
  to.set("rope.dimension_count", dimensions);
  put_rope(to, rope, dimensions);

  add_ends(to, sizes, plus_one, true);
  to.add("output_norm.bias", "model.norm.bias", {sizes.hidden});
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    add_norm(layer, "attn_norm", "input_layernorm", sizes.hidden, true, plus_one);
    add_attention(layer, sizes, {false, attention_bias, attention_bias});
    add_norm(layer, "ffn_norm", "post_attention_layernorm", sizes.hidden, true, plus_one);
    add_plain(layer, sizes, "mlp.up_proj", "mlp.down_proj", mlp_bias);
  }
  return to;
}

}  // namespace heddle::formats::hf
