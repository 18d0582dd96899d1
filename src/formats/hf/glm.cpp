// GLM-4: neighbouring values of a head are rotated, as in GGUF; gate and up are one matrix. The later one (0414) has
// norms after attention and feed-forward too.
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

Description glm_family(Config& config, std::string_view architecture, bool output_norms) {
  Sizes sizes = read_sizes(config, {151552, 4096, 13696, 40, 32, 2, 128, 131072, 0, false});
  sizes.epsilon = config.number("rms_norm_eps", 1.5625e-7);
  config.expect("hidden_act", {"silu"}, "silu");
  const bool bias = config.boolean("attention_bias", true);

  Description to(architecture);
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  const RopeDefaults defaults{.theta = 10000,
                              .partial = 0.5,
                              .may_be_partial = true,
                              .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}};
  const Rope rope = read_rope(config, sizes, defaults);
  const uint64_t dimensions = rotated_dimensions(config, rope, sizes);
  to.set("rope.dimension_count", dimensions);
  put_rope(to, rope, dimensions);

  add_ends(to, sizes);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {false, bias, false});
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    layer.weight("ffn_up", "mlp.gate_up_proj", {sizes.hidden, 2 * sizes.inner});
    layer.weight("ffn_down", "mlp.down_proj", {sizes.inner, sizes.hidden});
    if (!output_norms) continue;
    layer.weight("post_attention_norm", "post_self_attn_layernorm", {sizes.hidden});
    layer.weight("post_ffw_norm", "post_mlp_layernorm", {sizes.hidden});
  }
  return to;
}

}  // namespace

Description describe_glm(Config& config) { return glm_family(config, "chatglm", false); }
Description describe_glm4(Config& config) { return glm_family(config, "glm4", true); }

}  // namespace heddle::formats::hf
