// Llama and what shares its layer: Mistral, Mixtral, Granite, SmolLM3, Arcee, MiniCPM, InternLM 2. GGUF rotates
// neighbouring values of a head where the file rotates values half a head apart, so the rows of q and k are
// interleaved.
#include "formats/hf/llama.h"

#include <cmath>

#include "formats/hf/classes.h"
#include "formats/hf/granite.h"

namespace heddle::formats::hf {

Description llama_family(Config& config, std::string_view architecture, const Sizes& sizes, const LlamaFamily& options,
                         const RopeDefaults& rope) {
  Description to(architecture);
  config.expect("hidden_act", {options.activation}, options.activation);
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
    } else if (options.gated) {
      add_gated(layer, sizes, options.mlp_bias);
    } else {
      add_plain(layer, sizes, "mlp.up_proj", "mlp.down_proj", options.mlp_bias);
    }
  }
  return to;
}

Sizes llama_sizes(Config& config, const Sizes& defaults) {
  Sizes sizes = read_sizes(config, defaults);
  sizes.epsilon = config.number("rms_norm_eps", defaults.epsilon);
  if (sizes.head_dim % 2) config.refuse("head_dim", "an even number");
  return sizes;
}

LlamaFamily llama_biases(Config& config) {
  return {.attention_bias = config.boolean("attention_bias", false), .mlp_bias = config.boolean("mlp_bias", false)};
}

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

Description describe_llama(Config& config) {
  const Sizes sizes = llama_sizes(config, {32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6, false});
  config.ignore({"is_llama_config"});  // SmolLM2
  RopeDefaults rope;
  rope.types.push_back(RopeType::longrope);
  return llama_family(config, "llama", sizes, llama_biases(config), rope);
}

Description describe_mistral(Config& config) {
  const Sizes sizes = llama_sizes(config, {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6, false});
  Description to = llama_family(config, "llama", sizes, {}, {});
  put_sliding_window(to, config, 4096);
  return to;
}

// Mistral with a window in some of its layers.
Description describe_ministral(Config& config) {
  const Sizes sizes = llama_sizes(config, {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6, false});
  Description to = llama_family(config, "llama", sizes, {}, {});
  if (config.is_null("sliding_window"))
    config.ignore({"sliding_window", "layer_types"});
  else
    put_windows(to, config.integer("sliding_window", 4096),
                read_window_layers(config, sizes, std::vector<bool>(sizes.layers, true)), 0);
  return to;
}

Description describe_mixtral(Config& config) {
  const Sizes sizes = llama_sizes(config, {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-5, false});
  LlamaFamily options;
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
  Description to = llama_family(config, "granite", sizes, llama_biases(config), {});
  put_granite_scales(to, config);
  return to;
}

Description describe_smollm3(Config& config) {
  const Sizes sizes = llama_sizes(config, {128256, 2048, 11008, 36, 16, 4, 0, 32768, 1e-6, true});
  expect_full_attention(config, sizes);
  const std::vector<bool> rotated = read_rotated_layers(config, sizes);
  const RopeDefaults rope{.theta = 2e6,
                          .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}};
  Description to = llama_family(config, "smollm3", sizes, llama_biases(config), rope);
  if (rotated != all_but_each(4, sizes)) to.set("rope.rotated_layers", Value(Array::of(rotated)));  // heddle's own key
  return to;
}

// A feed-forward without a gate.
Description describe_arcee(Config& config) {
  const Sizes sizes = llama_sizes(config, {32000, 2560, 18432, 32, 32, 0, 0, 4096, 1e-5, false});
  LlamaFamily options = llama_biases(config);
  options.gated = false;
  options.activation = "relu2";
  return llama_family(config, "arcee", sizes, options, {});
}

Description describe_minicpm(Config& config) {
  const Sizes sizes = llama_sizes(config, {122753, 2304, 5760, 40, 36, 0, 0, 4096, 1e-5, true});
  RopeDefaults rope;
  rope.types.push_back(RopeType::longrope);
  Description to = llama_family(config, "minicpm", sizes, llama_biases(config), rope);
  const double base = config.number("dim_model_base", 1), depth = config.number("scale_depth", 1);
  if (!(base > 0)) config.refuse("dim_model_base", "a number above 0");
  to.set("embedding_scale", config.number("scale_emb", 1));
  to.set("residual_scale", depth / std::sqrt(static_cast<double>(sizes.layers)));
  to.set("logit_scale", static_cast<double>(sizes.hidden) / base);
  return to;
}

// Names of its own, and q, k and v in one matrix, group by group.
Description describe_internlm2(Config& config) {
  const Sizes sizes = llama_sizes(config, {103168, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6, false});
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("bias", {false}, false);
  Description to("internlm2");
  put_sizes(to, sizes);
  put_rms_epsilon(to, sizes);
  to.set("rope.dimension_count", sizes.head_dim);
  put_rope(to, read_rope(config, sizes, {.types = {RopeType::usual, RopeType::linear, RopeType::dynamic}}),
           sizes.head_dim);
  const std::string embedding = "model.tok_embeddings.weight", head = "output.weight";
  to.add("token_embd.weight", embedding, {sizes.hidden, sizes.vocabulary});
  to.add("output_norm.weight", "model.norm.weight", {sizes.hidden});
  to.add("output.weight", sizes.tied ? embedding : head, {sizes.hidden, sizes.vocabulary});
  if (sizes.tied) to.unneeded.push_back(head);
  const auto part = [&](Change::Kind kind) { return Change{kind, sizes.kv_heads, sizes.heads / sizes.kv_heads}; };
  const uint64_t kv = sizes.kv_heads * sizes.head_dim;
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "attention_norm", {sizes.hidden});
    layer.weight("attn_q", "attention.wqkv", {sizes.hidden, sizes.hidden}, part(Change::Kind::q_of_qkv));
    layer.weight("attn_k", "attention.wqkv", {sizes.hidden, kv}, part(Change::Kind::k_of_qkv));
    layer.weight("attn_v", "attention.wqkv", {sizes.hidden, kv}, part(Change::Kind::v_of_qkv));
    layer.weight("attn_output", "attention.wo", {sizes.hidden, sizes.hidden});
    layer.weight("ffn_norm", "ffn_norm", {sizes.hidden});
    layer.weight("ffn_gate", "feed_forward.w1", {sizes.hidden, sizes.inner});
    layer.weight("ffn_up", "feed_forward.w3", {sizes.hidden, sizes.inner});
    layer.weight("ffn_down", "feed_forward.w2", {sizes.inner, sizes.hidden});
  }
  return to;
}

}  // namespace heddle::formats::hf
