// HunYuan V1, dense and with experts: norms on each head of q and k after the rotation, whose base may be stretched
// (alpha).
#include <cmath>

#include "formats/hf/classes.h"
#include "formats/hf/mixture.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

// "dynamic" with alpha is a larger base at any length.
void put_hunyuan_rope(Description& to, Config& config, const Sizes& sizes) {
  Json rope = Json::object();
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (const Json* found = config.find(key); found && found->is_object() && rope.empty()) rope = *found;
  Config object(rope, config.where() + ": rope_parameters", &config);
  const RopeDefaults defaults{.theta = 10000, .types = {RopeType::usual, RopeType::linear, RopeType::dynamic}};
  const std::string type = object.string("rope_type", object.string("type", "default"));
  if (type != "dynamic" || !object.find("alpha"))
    return put_rope(to, read_rope(config, sizes, defaults), sizes.head_dim);
  const double alpha = object.number("alpha", 1);
  if (!(alpha > 0) || sizes.head_dim < 4) object.refuse("alpha", "a number above 0, for heads of 4 values or more");
  const double theta = rope_base(object, "rope_theta", rope_base(config, "rope_theta", 10000));
  object.ignore({"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"});  // not used with alpha
  object.finish();
  const auto head = static_cast<double>(sizes.head_dim);
  put_rope(to, {.theta = theta * std::pow(alpha, head / (head - 2))}, sizes.head_dim);
}

// A number, or a list of the same number for each layer.
uint64_t uniform(Config& config, std::string_view key, uint64_t fallback) {
  const Json* value = config.find(key);
  if (!value || !value->is_array()) return config.integer(key, fallback);
  const std::vector<double> all = config.numbers(key);
  for (const double one : all)
    if (one != all[0] || one < 1 || one != std::floor(one)) config.refuse(key, "the same whole number in all layers");
  return all.empty() ? fallback : static_cast<uint64_t>(all[0]);
}

struct Hunyuan {
  Description to;
  Sizes sizes;
  bool bias;
};

Hunyuan hunyuan(Config& config, std::string_view architecture) {
  Hunyuan result{Description(architecture), read_sizes(config, {290943, 4096, 11008, 32, 32, 0, 0, 2048, 1e-5, false}),
                 config.boolean("attention_bias", false)};
  Sizes& sizes = result.sizes;
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("use_qk_norm", {true}, true);
  config.expect("use_cla", {false}, false);
  config.expect("mlp_bias", {false}, false);
  config.expect("attention_head_dim", {sizes.head_dim}, sizes.head_dim);
  config.expect("norm_type", {"rms"}, "rms");
  // Ids of tokens, and of a classifier.
  config.ignore({"eod_token_id", "im_start_id", "im_end_id", "im_newline_id", "mask_init_id", "text_start_id",
                 "text_end_id", "eot_token_id", "pad_id", "dense_list", "pool_type", "cla_share_factor",
                 "use_rotary_pos_emb"});
  put_sizes(result.to, sizes);
  put_head_length(result.to, sizes.head_dim);
  put_rms_epsilon(result.to, sizes);
  put_hunyuan_rope(result.to, config, sizes);
  add_ends(result.to, sizes);
  return result;
}

Layer hunyuan_attention(Hunyuan& model, uint64_t number) {
  const Sizes& sizes = model.sizes;
  Layer layer(model.to, "model.layers", number);
  layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
  add_attention(layer, sizes, {false, model.bias, model.bias});
  layer.weight("attn_q_norm", "self_attn.query_layernorm", {sizes.head_dim});
  layer.weight("attn_k_norm", "self_attn.key_layernorm", {sizes.head_dim});
  layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
  return layer;
}

}  // namespace

Description describe_hunyuan_dense(Config& config) {
  Hunyuan model = hunyuan(config, "hunyuan-dense");
  for (uint64_t i = 0; i < model.sizes.layers; ++i) {
    Layer layer = hunyuan_attention(model, i);
    add_gated(layer, model.sizes);
  }
  return std::move(model.to);
}

Description describe_hunyuan_moe(Config& config) {
  Hunyuan model = hunyuan(config, "hunyuan-moe");
  const Sizes& sizes = model.sizes;
  const uint64_t experts = uniform(config, "num_experts", 1);
  if (uniform(config, "num_shared_expert", 1) != 1) config.refuse("num_shared_expert", "1 in all layers");
  if (uniform(config, "moe_intermediate_size", sizes.inner) != sizes.inner)
    config.refuse("moe_intermediate_size", "intermediate_size in all layers");
  config.expect("norm_topk_prob", {true}, true);
  config.expect("routed_scaling_factor", {1.0, false}, 1.0);
  config.expect("use_mixed_mlp_moe", {true}, true);
  config.expect("moe_layer_num_skipped", {0}, 0);
  config.ignore({"moe_drop_tokens", "moe_random_routing_dropped_token", "capacity_factor", "num_local_experts"});
  model.to.set("expert_count", experts);
  model.to.set("expert_used_count", uniform(config, "moe_topk", 1));
  model.to.set("expert_feed_forward_length", sizes.inner);
  model.to.set("expert_shared_feed_forward_length", sizes.inner);
  model.to.set("expert_shared_count", uint64_t{1});
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer = hunyuan_attention(model, i);
    layer.weight("ffn_gate_inp", "mlp.gate.wg", {sizes.hidden, experts});
    add_experts(layer, sizes, experts, sizes.inner, "mlp", {"gate_proj", "up_proj", "down_proj"});
    add_shared_expert(layer, sizes, sizes.inner, "mlp.shared_mlp");
  }
  return std::move(model.to);
}

}  // namespace heddle::formats::hf
