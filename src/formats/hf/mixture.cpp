// What is usual in GGUF's architectures is written all the same: it is data there too.
#include "formats/hf/mixture.h"

#include <fmt/format.h>

namespace heddle::formats::hf {

Mixture read_mixture(Config& config, const Mixture& defaults) {
  Mixture mixture = defaults;
  mixture.experts = config.integer("n_routed_experts", defaults.experts);
  mixture.used = config.integer("num_experts_per_tok", defaults.used);
  mixture.inner = config.integer("moe_intermediate_size", defaults.inner);
  if (!mixture.experts) config.refuse("n_routed_experts", "a number");
  if (!mixture.used) config.refuse("num_experts_per_tok", "a number");
  mixture.dense = config.count("first_k_dense_replace", defaults.dense);
  mixture.shared = config.count("n_shared_experts", defaults.shared);
  mixture.shared_inner = mixture.shared * mixture.inner;
  mixture.normalised = config.boolean("norm_topk_prob", defaults.normalised);
  mixture.scale = config.number("routed_scaling_factor", defaults.scale);
  mixture.groups = config.integer("n_group", defaults.groups);
  mixture.groups_used = config.integer("topk_group", defaults.groups_used);
  if (mixture.experts % mixture.groups)
    config.refuse("n_group", fmt::format("a divisor of the {} experts", mixture.experts));
  if (mixture.groups_used > mixture.groups) config.refuse("topk_group", fmt::format("at most {}", mixture.groups));
  if (mixture.used > mixture.experts / mixture.groups * mixture.groups_used)
    config.refuse("num_experts_per_tok",
                  fmt::format("at most the {} experts of {} groups",
                              mixture.experts / mixture.groups * mixture.groups_used, mixture.groups_used));
  if (mixture.sigmoid)
    config.expect("scoring_func", {"sigmoid", "noaux_tc"}, "sigmoid");  // dots.llm1 has the name of the method here
  else
    config.expect("scoring_func", {"softmax"}, "softmax");
  config.expect("moe_layer_freq", {1}, 1);
  config.ignore({"aux_loss_alpha", "seq_aux", "ep_size", "num_local_experts"});  // of training
  return mixture;
}

void put_mixture(Description& to, const Mixture& mixture) {
  to.set("expert_count", mixture.experts);
  to.set("expert_used_count", mixture.used);
  to.set("expert_feed_forward_length", mixture.inner);
  to.set("expert_shared_count", mixture.shared);
  to.set("leading_dense_block_count", mixture.dense);
  to.set("expert_gating_func", uint64_t{mixture.sigmoid ? 2u : 1u});
  to.set("expert_weights_norm", Value(mixture.normalised));
  to.set("expert_weights_scale", mixture.scale);
  if (mixture.groups == 1) return;
  to.set("expert_group_count", mixture.groups);
  to.set("expert_group_used_count", mixture.groups_used);
}

void add_shared_expert(Layer& layer, const Sizes& sizes, uint64_t inner, std::string_view folder) {
  layer.weight("ffn_gate_shexp", fmt::format("{}.gate_proj", folder), {sizes.hidden, inner});
  layer.weight("ffn_up_shexp", fmt::format("{}.up_proj", folder), {sizes.hidden, inner});
  layer.weight("ffn_down_shexp", fmt::format("{}.down_proj", folder), {inner, sizes.hidden});
}

void add_mixture(Layer& layer, const Sizes& sizes, const Mixture& mixture, std::string_view folder,
                 std::string_view bias) {
  layer.weight("ffn_gate_inp", fmt::format("{}.gate", folder), {sizes.hidden, mixture.experts});
  if (!bias.empty())
    layer.to.add(layer.gguf + "exp_probs_b.bias", fmt::format("{}{}.{}", layer.file, folder, bias), {mixture.experts});
  add_experts(layer, sizes, mixture.experts, mixture.inner, folder, {"gate_proj", "up_proj", "down_proj"});
  if (mixture.shared_inner)
    add_shared_expert(layer, sizes, mixture.shared_inner, fmt::format("{}.shared_experts", folder));
}

void ignore_guessing_layers(Description& to, Config& config, const Sizes& sizes) {
  for (uint64_t i = 0; i < config.count("num_nextn_predict_layers", 0); ++i)
    to.unneeded.push_back(fmt::format("model.layers.{}.", sizes.layers + i));
}

}  // namespace heddle::formats::hf
