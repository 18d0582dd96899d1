// StableLM: LayerNorm, a share of each head rotated. The largest has norms on q and k with weights of its own for each
// head, and attention and feed-forward side by side.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

void add_head_norms(Layer& layer, const char* name, const char* source, uint64_t head_dim, uint64_t heads) {
  Wanted wanted;
  wanted.name = fmt::format("{}{}.weight", layer.gguf, name);
  wanted.shape = {head_dim, heads};
  for (uint64_t i = 0; i < heads; ++i)
    wanted.sources.push_back(fmt::format("{}self_attn.{}.norms.{}.weight", layer.file, source, i));
  layer.to.tensors.push_back(std::move(wanted));
}

}  // namespace

Description describe_stablelm(Config& config) {
  const Sizes sizes = read_sizes(config, {50304, 2560, 6912, 32, 32, 32, 0, 4096, 1e-5, false});
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("rotary_scaling_factor", {1, 1.0}, 1);
  const bool qkv_bias = config.boolean("use_qkv_bias", false), head_norms = config.boolean("qk_layernorm", false),
             parallel = config.boolean("use_parallel_residual", false);

  // A tensor for each: a config alone could otherwise ask for more of them than memory holds.
  if (head_norms && sizes.heads * sizes.layers > 1'000'000)
    config.refuse("num_attention_heads", fmt::format("at most 1000000 in all {} layers", sizes.layers));

  Description to("stablelm");
  put_sizes(to, sizes);
  put_epsilon(to, config.number("layer_norm_eps", config.number("norm_eps", 1e-5)));
  to.set("use_parallel_residual", Value(parallel));
  const RopeDefaults defaults{.theta = 10000,
                              .partial = config.number("rope_pct", 0.25),  // as the first files call it
                              .may_be_partial = true,
                              .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}};
  const Rope rope = read_rope(config, sizes, defaults);
  const uint64_t dimensions = rotated_dimensions(config, rope, sizes);
  to.set("rope.dimension_count", dimensions);
  put_rope(to, rope, dimensions);

  add_ends(to, sizes, {}, true);
  to.add("output_norm.bias", "model.norm.bias", {sizes.hidden});
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    add_norm(layer, "attn_norm", "input_layernorm", sizes.hidden, true);
    add_attention(layer, sizes, {false, qkv_bias, false});
    if (head_norms) {
      add_head_norms(layer, "attn_q_norm", "q_layernorm", sizes.head_dim, sizes.heads);
      add_head_norms(layer, "attn_k_norm", "k_layernorm", sizes.head_dim, sizes.kv_heads);
    }
    if (!parallel) add_norm(layer, "ffn_norm", "post_attention_layernorm", sizes.hidden, true);
    add_gated(layer, sizes);
  }
  return to;
}

}  // namespace heddle::formats::hf
