// GLM-4.5 to 4.7 and dots.llm1: attention with a norm on each head, and experts chosen by sigmoid scores and a bias.
#include "formats/hf/classes.h"
#include "formats/hf/mixture.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

struct SigmoidFamily {
  std::string_view architecture, ffn_norm;
  bool qkv_bias = false, head_norm = false;
  bool always_output = false;  // llama.cpp wants it
};

Description sigmoid_family(Config& config, const Sizes& sizes, const Mixture& mixture, const SigmoidFamily& options) {
  config.expect("hidden_act", {"silu"}, "silu");
  Description to(options.architecture);
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  put_mixture(to, mixture);
  ignore_guessing_layers(to, config, sizes);

  add_ends(to, sizes, {}, options.always_output);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {false, options.qkv_bias, false});
    if (options.head_norm) {
      layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.head_dim});
      layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.head_dim});
    }
    layer.weight(options.ffn_norm, "post_attention_layernorm", {sizes.hidden});
    if (i < mixture.dense)
      add_gated(layer, sizes);
    else
      add_mixture(layer, sizes, mixture, "mlp", "gate.e_score_correction_bias");
  }
  return to;
}

}  // namespace

Description describe_glm4moe(Config& config) {
  Sizes sizes = read_sizes(config, {151552, 4096, 10944, 46, 96, 8, 0, 131072, 1e-5, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
  config.expect("topk_method", {"noaux_tc"}, "noaux_tc");
  const Mixture mixture = read_mixture(
      config, {.experts = 128, .used = 8, .inner = 1408, .dense = 1, .shared = 1, .sigmoid = true, .normalised = true});
  Description to = sigmoid_family(config, sizes, mixture,
                                  {.architecture = "glm4moe",
                                   .ffn_norm = "post_attention_norm",
                                   .qkv_bias = config.boolean("attention_bias", false),
                                   .head_norm = config.boolean("use_qk_norm", false)});
  const Rope rope = read_rope(config, sizes,
                              {.theta = 10000,
                               .partial = 0.5,
                               .may_be_partial = true,
                               .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}});
  const uint64_t dimensions = rotated_dimensions(config, rope, sizes);
  to.set("rope.dimension_count", dimensions);
  put_rope(to, rope, dimensions);
  return to;
}

Description describe_dots1(Config& config) {
  Sizes sizes = read_sizes(config, {152064, 4608, 10944, 62, 32, 32, 0, 2048, 1e-6, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-6);
  config.expect("attention_bias", {false}, false);
  config.expect("topk_method", {"noaux_tc"}, "noaux_tc");
  if (config.find("sliding_window") && config.count("max_window_layers", 62) < sizes.layers)
    config.refuse("max_window_layers", "at least the number of layers: none has a window");
  expect_full_attention(config, sizes);
  const Mixture mixture = read_mixture(config, {.experts = 0, .used = 0, .inner = 1408, .shared = 0, .sigmoid = true});
  Description to =
      sigmoid_family(config, sizes, mixture,
                     {.architecture = "dots1", .ffn_norm = "ffn_norm", .head_norm = true, .always_output = true});
  put_rope(to,
           read_rope(config, sizes,
                     {.theta = 10000, .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}}),
           sizes.head_dim);
  return to;
}

}  // namespace heddle::formats::hf
