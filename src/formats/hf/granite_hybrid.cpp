// Granite 4: Mamba-2 or attention, then a feed-forward or a mixture with an expert that sees every token. Models of
// this class without Mamba layers are Granite 3's in GGUF.
#include <algorithm>

#include "formats/hf/classes.h"
#include "formats/hf/granite.h"
#include "formats/hf/mamba.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Description describe_granite_hybrid(Config& config) {
  const Sizes sizes = granite_sizes(config);
  const bool bias = config.boolean("attention_bias", false);
  const uint64_t experts = config.count("num_local_experts", 8), used = config.count("num_experts_per_tok", 2);
  const uint64_t shared = config.integer("shared_intermediate_size", 1024);
  std::vector<std::string> types = read_layer_types(config, "layer_types", sizes.layers, {"mamba", "attention"});
  if (types.empty()) types = read_layer_types(config, "layers_block_type", sizes.layers, {"mamba", "attention"});
  if (types.empty()) types.assign(sizes.layers, "mamba");
  config.ignore({"layers_block_type"});
  const bool hybrid = std::find(types.begin(), types.end(), "mamba") != types.end();
  config.expect("position_embedding_type", {"rope", "nope"}, "nope");
  const bool rotates = config.string("position_embedding_type", "nope") == "rope";
  if (!hybrid && !rotates) config.refuse("position_embedding_type", "rope in a model without Mamba layers");
  const uint64_t mamba_inner = config.integer("mamba_expand", 2) * sizes.hidden;
  const Mamba mamba = hybrid ? read_mamba(config, mamba_inner) : Mamba();
  if (!hybrid)
    config.ignore({"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv",
                   "mamba_conv_bias", "mamba_proj_bias", "mamba_chunk_size", "time_step_limit", "time_step_min",
                   "time_step_max"});
  config.ignore({"normalization_function", "init_method"});

  Description to(hybrid ? "granitehybrid" : experts ? "granitemoe" : "granite");
  Sizes with_inner = sizes;
  if (!experts) with_inner.inner = shared;
  put_sizes(to, with_inner);
  put_rms_epsilon(to, sizes);
  put_head_length(to, sizes.head_dim);
  to.set("rope.dimension_count", sizes.head_dim);
  put_rope(to, read_rope(config, sizes, {}), sizes.head_dim);
  put_granite_scales(to, config);
  if (experts) {
    to.set("expert_count", experts);
    to.set("expert_used_count", used);
    to.set("expert_shared_feed_forward_length", shared);
  }
  if (hybrid) {
    put_mamba(to, mamba);
    to.set("rope.scaling.finetuned", Value(rotates));  // which is how GGUF says it
    std::vector<int32_t> kv_heads;
    for (const std::string& type : types) kv_heads.push_back(type == "mamba" ? 0 : int32_t(sizes.kv_heads));
    to.set("attention.head_count_kv", Value(Array::of(kv_heads)));
  }

  add_ends(to, sizes);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    if (types[i] == "mamba")
      add_mamba(layer, sizes, mamba, "mamba");
    else
      add_attention(layer, sizes, {true, bias, bias});
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    add_granite_mixture(layer, sizes, experts, shared);
  }
  return to;
}

}  // namespace heddle::formats::hf
