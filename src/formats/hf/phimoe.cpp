// Phi-3.5-MoE: LayerNorm with biases, and two experts that are chosen and weighed one after the other (sparse mixer).
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

// The rotated values are multiplied by a number of this class's own instead of what longrope computes.
Json with_attention_factor(Config& config, const Json& rope) {
  Json object = rope;
  Config reader(rope, config.where() + ": rope_scaling");
  if (!reader.find("long_mscale")) return object;
  const double scale = reader.number("long_mscale", 1);
  if (reader.number("short_mscale", scale) != scale) reader.refuse("short_mscale", "the same as long_mscale");
  object["attention_factor"] = scale;
  object.erase("long_mscale");
  object.erase("short_mscale");
  return object;
}

}  // namespace

Description describe_phimoe(Config& config) {
  const Sizes sizes = read_sizes(config, {32064, 4096, 6400, 32, 32, 8, 0, 131072, 1e-5, false});
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("attention_bias", {true}, false);
  config.expect("lm_head_bias", {true}, false);
  config.expect("num_experts_per_tok", {2}, 2);
  config.expect("router_jitter_noise", {0.01}, 0.01);
  config.ignore({"input_jitter_noise"});
  const uint64_t experts = config.integer("num_local_experts", 16);

  Description to("phimoe");
  put_sizes(to, sizes);
  to.set("attention.layer_norm_rms_epsilon", config.number("rms_norm_eps", 1e-5));  // GGUF's name of it here
  to.set("rope.dimension_count", sizes.head_dim);
  const double theta = rope_base(config, "rope_theta", 1e6);
  const Json* parameters = config.find("rope_parameters");
  const Json* scaling = config.find("rope_scaling");
  const Json none = Json::object();
  Json object = with_attention_factor(config, parameters ? *parameters : scaling ? *scaling : none);
  if (const Json* original = config.find("original_max_position_embeddings"))
    object.emplace("original_max_position_embeddings", *original);
  const Rope rope = read_rope_object(Config(object, config.where() + ": rope_scaling", &config), sizes,
                                     {.theta = theta, .types = {RopeType::usual, RopeType::longrope}}, theta);
  to.set("rope.scaling.original_context_length", rope.original_context);
  put_rope(to, rope, sizes.head_dim);
  // 0: no window
  to.set("attention.sliding_window", config.find("sliding_window") ? config.integer("sliding_window", 1) : uint64_t{0});
  to.set("expert_count", experts);
  to.set("expert_used_count", uint64_t{2});

  add_ends(to, sizes, {}, true);
  to.add("output_norm.bias", "model.norm.bias", {sizes.hidden});
  to.add("output.bias", "lm_head.bias", {sizes.vocabulary});
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    layer.bias("attn_norm", "input_layernorm", sizes.hidden);
    add_attention(layer, sizes, {false, true, true});
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    layer.bias("ffn_norm", "post_attention_layernorm", sizes.hidden);
    layer.weight("ffn_gate_inp", "block_sparse_moe.gate", {sizes.hidden, experts});
    add_experts(layer, sizes, experts, sizes.inner, "block_sparse_moe", {"w1", "w3", "w2"});
  }
  return to;
}

}  // namespace heddle::formats::hf
