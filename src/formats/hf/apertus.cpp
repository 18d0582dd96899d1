// Apertus: norms on each head of q and k, and a feed-forward without a gate whose activation, xIELU, has parameters in
// each layer.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Description describe_apertus(Config& config) {
  Sizes sizes = read_sizes(config, {131072, 4096, 14336, 32, 32, 0, 0, 65536, 1e-5, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
  config.expect("hidden_act", {"xielu"}, "xielu");
  // What the class is in any case.
  config.expect("post_norm", {false}, false);
  config.expect("qk_norm", {true}, true);
  config.expect("mlp_bias", {false}, false);
  const bool bias = config.boolean("attention_bias", false);

  Description to("apertus");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  to.set("rope.dimension_count", sizes.head_dim);
  Json llama3 = {{"rope_type", "llama3"},  {"factor", 8.0},           {"original_max_position_embeddings", 8192},
                 {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"rope_theta", 12e6}};
  const bool says_rope = config.find("rope_parameters") || config.find("rope_scaling") || config.find("rope_theta");
  const Rope rope = says_rope ? read_rope(config, sizes, {.theta = 12e6})
                              : read_rope_object(Config(llama3, config.where(), &config), sizes, {}, 12e6);
  put_rope(to, rope, sizes.head_dim);

  add_ends(to, sizes, {}, true);
  for (const char* name : {"alpha_n", "alpha_p", "beta", "eps"}) {
    std::vector<std::string> sources;
    for (uint64_t i = 0; i < sizes.layers; ++i)
      sources.push_back(fmt::format("model.layers.{}.mlp.act_fn.{}", i, name));
    to.lists.emplace_back(fmt::format("xielu.{}", name), std::move(sources));
  }
  to.unneeded.push_back(".mlp.act_fn.");  // they are in the lists
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "attention_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {false, bias, bias});
    layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.head_dim});
    layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.head_dim});
    layer.weight("ffn_norm", "feedforward_layernorm", {sizes.hidden});
    add_plain(layer, sizes, "mlp.up_proj", "mlp.down_proj", false);
  }
  return to;
}

}  // namespace heddle::formats::hf
