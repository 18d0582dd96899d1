// Llama and what shares its layer: Mistral, Mixtral, Granite, SmolLM3; and OLMo 2. GGUF rotates neighbouring values of
// a head where the file rotates values half a head apart, so the rows of q and k are interleaved (not those of OLMo 2).
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

struct Family {
  bool attention_bias = false, mlp_bias = false;
  uint64_t experts = 0;  // 0: a dense layer
};

Description llama_family(Config& config, std::string_view architecture, Sizes sizes, const Family& options,
                         const RopeDefaults& rope) {
  Description to(architecture);
  config.expect("hidden_act", {"silu"}, "silu");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  to.set("rope.dimension_count", sizes.head_dim);
  put_rope(to, read_rope(config, sizes, rope), sizes.head_dim);

  add_ends(to, sizes);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {true, options.attention_bias, options.attention_bias});
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    if (options.experts) {
      layer.weight("ffn_gate_inp", "block_sparse_moe.gate", {sizes.hidden, options.experts});
      add_experts(layer, sizes, options.experts, sizes.inner, "block_sparse_moe", {"w1", "w3", "w2"});
    } else {
      add_gated(layer, sizes, options.mlp_bias);
    }
  }
  return to;
}

Sizes llama_sizes(Config& config, Sizes defaults) {
  Sizes sizes = read_sizes(config, defaults);
  sizes.epsilon = config.number("rms_norm_eps", defaults.epsilon);
  if (sizes.head_dim % 2) config.refuse("head_dim", "an even number");
  return sizes;
}

Family biases(Config& config) {
  return {config.boolean("attention_bias", false), config.boolean("mlp_bias", false), 0};
}

// Mistral's and Mixtral's: all layers or none.
void put_sliding_window(Description& to, Config& config, uint64_t fallback) {
  const bool none = config.is_null("sliding_window");
  const uint64_t window = config.integer("sliding_window", none ? 0 : fallback);
  bool slides = window > 0;
  const std::vector<std::string> types = config.strings("layer_types");
  for (const std::string& type : types)
    if (type != types[0] || (type != "full_attention" && type != "sliding_attention"))
      config.refuse("layer_types", "the same in all layers, \"full_attention\" or \"sliding_attention\"");
  if (!types.empty() && types[0] == "full_attention") slides = false;
  if (slides) to.set("attention.sliding_window", window);
}

}  // namespace

Description describe_llama(Config& config) {
  const Sizes sizes = llama_sizes(config, {32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6, false});
  return llama_family(config, "llama", sizes, biases(config), {});
}

Description describe_mistral(Config& config) {
  const Sizes sizes = llama_sizes(config, {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6, false});
  Description to = llama_family(config, "llama", sizes, {}, {});
  put_sliding_window(to, config, 4096);
  return to;
}

Description describe_mixtral(Config& config) {
  const Sizes sizes = llama_sizes(config, {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-5, false});
  Family options;
  options.experts = config.integer("num_local_experts", 8);
  const RopeDefaults rope{.theta = 1e6};
  Description to = llama_family(config, "llama", sizes, options, rope);
  to.set("expert_count", options.experts);
  to.set("expert_used_count", config.integer("num_experts_per_tok", 2));
  put_sliding_window(to, config, 0);
  return to;
}

Description describe_granite(Config& config) {
  const Sizes sizes = llama_sizes(config, {32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6, false});
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  Description to = llama_family(config, "granite", sizes, biases(config), {});
  to.set("attention.scale", config.number("attention_multiplier", 1));
  to.set("embedding_scale", config.number("embedding_multiplier", 1));
  to.set("residual_scale", config.number("residual_multiplier", 1));
  to.set("logit_scale", config.number("logits_scaling", 1));
  return to;
}

Description describe_smollm3(Config& config) {
  const Sizes sizes = llama_sizes(config, {128256, 2048, 11008, 36, 16, 4, 0, 32768, 1e-6, true});
  expect_full_attention(config, sizes);
  config.expect("attention_bias", {false}, false);
  config.expect("mlp_bias", {false}, false);
  config.expect("no_rope_layer_interval", {4}, 4);
  // GGUF has no key for it: every fourth layer is not rotated.
  const std::vector<double> rotated = config.numbers("no_rope_layers");
  for (size_t i = 0; i < rotated.size(); ++i)
    if ((rotated[i] != 0) != ((i + 1) % 4 != 0))
      config.refuse("no_rope_layers", "0 in every fourth layer, 1 elsewhere");
  const RopeDefaults rope{.theta = 2e6,
                          .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}};
  return llama_family(config, "smollm3", sizes, {}, rope);
}

// Norms only after attention and feed-forward, and one over all of q and all of k.
Description describe_olmo2(Config& config) {
  Sizes sizes = read_sizes(config, {50304, 4096, 11008, 32, 32, 0, 0, 2048, 1e-5, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
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

}  // namespace heddle::formats::hf
