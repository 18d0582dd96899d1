// ERNIE 4.5, dense and with experts: Llama's layer, rotated in pairs in the file, too. A bias chooses among softmax
// scores.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/mixture.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

struct Ernie {
  Description to;
  Sizes sizes;
  bool bias;
};

Ernie ernie(Config& config, std::string_view architecture, const Sizes& defaults) {
  Ernie result{Description(architecture), read_sizes(config, defaults), config.boolean("use_bias", false)};
  Sizes& sizes = result.sizes;
  sizes.epsilon = config.number("rms_norm_eps", defaults.epsilon);
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("use_rmsnorm", {true}, true);
  config.expect("compression_ratio", {1.0}, 1.0);
  put_sizes(result.to, sizes);
  put_head_length(result.to, sizes.head_dim);
  put_rms_epsilon(result.to, sizes);
  put_rope(
      result.to,
      read_rope(config, sizes,
                {.theta = 500000, .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}}),
      sizes.head_dim);
  add_ends(result.to, sizes);
  return result;
}

Layer ernie_attention(Ernie& model, uint64_t number) {
  Layer layer(model.to, "model.layers", number);
  layer.weight("attn_norm", "input_layernorm", {model.sizes.hidden});
  add_attention(layer, model.sizes, {false, model.bias, model.bias});
  layer.weight("ffn_norm", "post_attention_layernorm", {model.sizes.hidden});
  return layer;
}

}  // namespace

Description describe_ernie4_5(Config& config) {
  Ernie model = ernie(config, "ernie4_5", {103424, 1024, 3072, 18, 16, 2, 128, 131072, 1e-5, true});
  for (uint64_t i = 0; i < model.sizes.layers; ++i) {
    Layer layer = ernie_attention(model, i);
    add_gated(layer, model.sizes, model.bias);
  }
  return std::move(model.to);
}

Description describe_ernie4_5_moe(Config& config) {
  Ernie model = ernie(config, "ernie4_5-moe", {103424, 2560, 12288, 28, 20, 4, 0, 131072, 1e-5, true});
  if (model.bias) config.refuse("use_bias", "false");
  const Sizes& sizes = model.sizes;
  Mixture mixture{.experts = config.integer("moe_num_experts", 64),
                  .used = config.integer("moe_k", 6),
                  .inner = config.integer("moe_intermediate_size", 1536),
                  .dense = config.count("moe_layer_start_index", 1),
                  .shared = config.count("moe_num_shared_experts", 2),
                  .normalised = true};
  mixture.shared_inner = mixture.shared * mixture.inner;
  const uint64_t step = config.integer("moe_layer_interval", 1);
  uint64_t last = sizes.layers - 1;  // which -1 stands for
  if (const Json* end = config.find("moe_layer_end_index"); end && *end != Json(-1))
    last = config.count("moe_layer_end_index", last);
  config.expect("moe_gate", {"topk"}, "topk");
  config.ignore({"moe_norm_min", "moe_capacity", "moe_use_aux_free", "num_nextn_predict_layers", "num_experts",
                 "num_experts_per_tok"});
  model.to.unneeded.insert(model.to.unneeded.end(), {"model.mtp_"});  // layers that guess further tokens
  put_mixture(model.to, mixture);
  model.to.set("interleave_moe_layer_step", step);
  if (mixture.shared_inner) model.to.set("expert_shared_feed_forward_length", mixture.shared_inner);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer = ernie_attention(model, i);
    if (i < mixture.dense || i > last || (i + 1) % step)
      add_gated(layer, sizes);
    else
      add_mixture(layer, sizes, mixture, "mlp", "moe_statics.e_score_correction_bias");
  }
  return std::move(model.to);
}

}  // namespace heddle::formats::hf
