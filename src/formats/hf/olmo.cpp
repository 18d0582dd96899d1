// OLMo: norms without weights, queries, keys and values that are clipped. OLMo 2 and 3: norms only after attention and
// feed-forward, and one over all of q and all of k; OLMo 3 has windows.
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

Description olmo2_family(Config& config, const Sizes& sizes) {
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("attention_bias", {false}, false);

  Description to("olmo2");
  put_sizes(to, sizes);
  put_rms_epsilon(to, sizes);
  put_rope(to,
           read_rope(config, sizes,
                     {.theta = 10000, .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}}),
           sizes.head_dim);
  add_ends(to, sizes, {}, true);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    add_attention(layer, sizes, {});
    layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.hidden});
    layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.kv_heads * sizes.head_dim});
    layer.weight("post_attention_norm", "post_attention_layernorm", {sizes.hidden});
    add_gated(layer, sizes);
    layer.weight("post_ffw_norm", "post_feedforward_layernorm", {sizes.hidden});
  }
  return to;
}

Sizes olmo2_sizes(Config& config) {
  Sizes sizes = read_sizes(config, {50304, 4096, 11008, 32, 32, 0, 0, 2048, 1e-5, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
  return sizes;
}

}  // namespace

Description describe_olmo(Config& config) {
  const Sizes sizes = read_sizes(config, {50304, 4096, 11008, 32, 32, 0, 0, 2048, 1e-5, false});
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("attention_bias", {false}, false);

  Description to("olmo");
  put_sizes(to, sizes);
  put_epsilon(to, 1e-5);
  put_clip(to, config);
  const RopeDefaults defaults{.types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}};
  put_rope(to, read_rope(config, sizes, defaults), sizes.head_dim);

  const std::string embedding = "model.embed_tokens.weight";
  to.add("token_embd.weight", embedding, {sizes.hidden, sizes.vocabulary});
  add_output(to, sizes, embedding);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    add_attention(layer, sizes, {.interleave = true});
    add_gated(layer, sizes);
  }
  return to;
}

Description describe_olmo2(Config& config) { return olmo2_family(config, olmo2_sizes(config)); }

Description describe_olmo3(Config& config) {
  const Sizes sizes = olmo2_sizes(config);
  Description to = olmo2_family(config, sizes);
  put_windows(to, config.integer("sliding_window", 4096), read_window_layers(config, sizes, all_but_each(4, sizes)), 4);
  return to;
}

}  // namespace heddle::formats::hf
