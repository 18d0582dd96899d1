// Command-R and Command-R7B (Cohere 2): attention and feed-forward side by side after one norm without a bias, and
// logits that are scaled. In Cohere 2, layers without a window are not rotated.
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

// `sizes.context` is the one to write.
Description cohere_family(Config& config, std::string_view architecture, const Sizes& sizes, bool head_norms) {
  config.expect("hidden_act", {"silu"}, "silu");
  const bool bias = config.boolean("attention_bias", false);
  Description to(architecture);
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_epsilon(to, config.number("layer_norm_eps", 1e-5));
  to.set("logit_scale", config.number("logit_scale", 0.0625));

  add_ends(to, sizes);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {false, bias, bias});
    if (head_norms) {  // weights of its own for each head
      layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.head_dim, sizes.heads});
      layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.head_dim, sizes.kv_heads});
    }
    add_gated(layer, sizes);
  }
  return to;
}

}  // namespace

Description describe_cohere(Config& config) {
  Sizes sizes = read_sizes(config, {256000, 8192, 22528, 40, 64, 0, 0, 8192, 0, true});
  const RopeDefaults defaults{.theta = 500000, .types = {RopeType::usual, RopeType::linear, RopeType::dynamic}};
  const Rope rope = read_rope(config, sizes, defaults);
  sizes.context = config.integer("model_max_length", sizes.context);  // what it was trained for
  Description to = cohere_family(config, "command-r", sizes, config.boolean("use_qk_norm", false));
  put_rope(to, rope, sizes.head_dim);
  return to;
}

Description describe_cohere2(Config& config) {
  const Sizes sizes = read_sizes(config, {256000, 8192, 22528, 40, 64, 0, 0, 8192, 0, true});
  Description to = cohere_family(config, "cohere2", sizes, false);
  // What the family is in any case.
  config.expect("order_of_interleaved_layers", {"local_attn_first"}, "local_attn_first");
  config.expect("position_embedding_type", {"rope_gptj"}, "rope_gptj");
  config.expect("rotary_pct", {1, 1.0}, 1);
  config.ignore({"use_embedding_sharing", "use_gated_activation", "use_parallel_block", "use_parallel_embedding"});
  const RopeDefaults defaults{.theta = 10000, .types = {RopeType::usual, RopeType::linear, RopeType::dynamic}};
  put_rope(to, read_rope(config, sizes, defaults), sizes.head_dim);
  to.set("rope.dimension_count", sizes.head_dim);

  if (config.is_null("sliding_window")) config.refuse("sliding_window", "a number");
  const uint64_t period = config.integer("sliding_window_pattern", config.integer("layer_switch", 4));
  put_windows(to, config.integer("sliding_window", 4096),
              read_window_layers(config, sizes, all_but_each(period, sizes)), 4, true);
  return to;
}

}  // namespace heddle::formats::hf
