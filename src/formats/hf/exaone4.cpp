// EXAONE 4: norms only after attention and feed-forward, and on each head of q and k. Where there are windows, the
// layers without one are not rotated.
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

// "LLLG", or a number: the last of each period sees everything.
std::vector<bool> usual_windows(Config& config, const Sizes& sizes) {
  const Json* pattern = config.find("sliding_window_pattern");
  if (!pattern || !pattern->is_string()) return all_but_each(config.integer("sliding_window_pattern", 4), sizes);
  const std::string letters = pattern->get<std::string>();
  if (letters.empty() || letters.find_first_not_of("LG") != letters.npos)
    config.refuse("sliding_window_pattern", "a number, or the letters L and G");
  std::vector<bool> layers;
  for (uint64_t i = 0; i < sizes.layers; ++i) layers.push_back(letters[i % letters.size()] == 'L');
  return layers;
}

}  // namespace

Description describe_exaone4(Config& config) {
  Sizes sizes = read_sizes(config, {102400, 4096, 16384, 32, 32, 0, 0, 2048, 1e-5, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
  config.expect("hidden_act", {"silu"}, "silu");
  // What the class is in any case.
  config.expect("attn_implementation_type", {"default"}, "default");
  config.expect("layer_norm_type", {"rms"}, "rms");

  Description to("exaone4");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  put_rope(to, read_rope(config, sizes, {}), sizes.head_dim);
  if (config.is_null("sliding_window"))
    config.ignore({"sliding_window_pattern", "layer_types"});
  else
    put_windows(to, config.integer("sliding_window", 4096),
                read_window_layers(config, sizes, usual_windows(config, sizes)), 4, true);

  add_ends(to, sizes);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    add_attention(layer, sizes, {});
    layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.head_dim});
    layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.head_dim});
    layer.weight("post_attention_norm", "post_attention_layernorm", {sizes.hidden});
    add_gated(layer, sizes);
    layer.weight("post_ffw_norm", "post_feedforward_layernorm", {sizes.hidden});
  }
  return to;
}

}  // namespace heddle::formats::hf
