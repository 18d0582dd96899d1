// OLMo 2: norms only after attention and feed-forward, and one over all of q and all of k.
#include "formats/hf/pages.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Description olmo2_page(Config& config) {
  Sizes sizes = read_sizes(config, {50304, 4096, 11008, 32, 32, 0, 0, 2048, 1e-5, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("attention_bias", {false}, false);

  Description to("olmo2");
  put_sizes(to, sizes);
  put_rms_epsilon(to, sizes);
  put_rope(to, read_rope(config, sizes, {.theta = 10000, .types = {"default", "linear", "dynamic", "yarn"}}),
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

}  // namespace heddle::formats::hf
