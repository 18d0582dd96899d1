// StarCoder 2: LayerNorm, a feed-forward without a gate, biases.
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Description describe_starcoder2(Config& config) {
  const Sizes sizes = read_sizes(config, {49152, 3072, 12288, 30, 24, 2, 0, 4096, 0, true});
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"gelu_pytorch_tanh", "gelu_new", "gelu_fast"}, "gelu_pytorch_tanh");
  const bool bias = config.boolean("use_bias", true);
  // What the class is in any case.
  config.expect("activation_function", {"gelu_pytorch_tanh"}, "gelu_pytorch_tanh");
  config.expect("mlp_type", {"default"}, "default");
  config.expect("norm_type", {"layer_norm"}, "layer_norm");
  config.expect("scale_attn_weights", {true}, true);
  config.ignore({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"});

  Description to("starcoder2");
  put_sizes(to, sizes);
  put_epsilon(to, config.number("norm_epsilon", 1e-5));
  const RopeDefaults defaults{.types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}};
  put_rope(to, read_rope(config, sizes, defaults), sizes.head_dim);
  if (config.find("sliding_window")) to.set("attention.sliding_window", config.integer("sliding_window", 1));

  add_ends(to, sizes);
  to.add("output_norm.bias", "model.norm.bias", {sizes.hidden});
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    add_norm(layer, "attn_norm", "input_layernorm", sizes.hidden, true);
    add_attention(layer, sizes, {false, bias, bias});
    add_norm(layer, "ffn_norm", "post_attention_layernorm", sizes.hidden, true);
    add_plain(layer, sizes, "mlp.c_fc", "mlp.c_proj", bias);
  }
  return to;
}

}  // namespace heddle::formats::hf
