// GPT-2: learned positions, LayerNorm, and linear layers stored transposed (Conv1D). GPT-NeoX (Pythia): q, k and v of
// each head beside each other in one matrix, a share of each head rotated.
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Description describe_gpt2(Config& config) {
  Sizes sizes{};
  sizes.vocabulary = config.integer("vocab_size", 50257);
  sizes.hidden = config.integer("n_embd", 768);
  sizes.layers = config.integer("n_layer", 12);
  sizes.heads = config.integer("n_head", 12);
  sizes.context = config.integer("n_positions", 1024);
  sizes.inner = config.integer("n_inner", 4 * sizes.hidden);
  sizes.kv_heads = sizes.heads;
  sizes.tied = config.boolean("tie_word_embeddings", true);
  if (sizes.layers > 4096) config.refuse("n_layer", "at most 4096");
  if (sizes.hidden % sizes.heads) config.refuse("n_embd", "a multiple of n_head");
  config.expect("activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"}, "gelu_new");
  config.expect("scale_attn_weights", {true}, true);
  config.expect("scale_attn_by_inverse_layer_idx", {false}, false);
  config.expect("add_cross_attention", {false}, false);

  Description to("gpt2");
  put_sizes(to, sizes);
  to.set("attention.layer_norm_epsilon", config.number("layer_norm_epsilon", 1e-5));
  for (const char* prefix : {"h.", "wte.", "wpe.", "ln_f."})  // as the first files have them
    to.prefixes.emplace_back(prefix, std::string("transformer.") + prefix);
  to.unneeded.insert(to.unneeded.end(), {".attn.bias", ".attn.masked_bias"});
  if (sizes.tied) to.unneeded.push_back("lm_head.weight");

  to.add("token_embd.weight", "transformer.wte.weight", {sizes.hidden, sizes.vocabulary});
  to.add("position_embd.weight", "transformer.wpe.weight", {sizes.hidden, sizes.context});
  to.add("output_norm.weight", "transformer.ln_f.weight", {sizes.hidden});
  to.add("output_norm.bias", "transformer.ln_f.bias", {sizes.hidden});
  if (!sizes.tied) to.add("output.weight", "lm_head.weight", {sizes.hidden, sizes.vocabulary});
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "transformer.h", i);
    const auto norm = [&](const char* name, const char* source) {
      layer.weight(name, source, {sizes.hidden});
      layer.bias(name, source, sizes.hidden);
    };
    const auto linear = [&](const char* name, const char* source, uint64_t in, uint64_t out) {
      layer.weight(name, source, {in, out}, {Change::Kind::transpose, 0});
      layer.bias(name, source, out);
    };
    norm("attn_norm", "ln_1");
    linear("attn_qkv", "attn.c_attn", sizes.hidden, 3 * sizes.hidden);
    linear("attn_output", "attn.c_proj", sizes.hidden, sizes.hidden);
    norm("ffn_norm", "ln_2");
    linear("ffn_up", "mlp.c_fc", sizes.hidden, sizes.inner);
    linear("ffn_down", "mlp.c_proj", sizes.inner, sizes.hidden);
  }
  return to;
}

Description describe_gptneox(Config& config) {
  const Sizes sizes = read_sizes(config, {50432, 6144, 24576, 44, 64, 0, 0, 2048, 1e-5, false});
  if (sizes.kv_heads != sizes.heads) config.refuse("num_key_value_heads", "as many as attention heads");
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"gelu", "gelu_fast", "gelu_new", "gelu_pytorch_tanh"}, "gelu");
  const bool attention_bias = config.boolean("attention_bias", true);

  Description to("gptneox");
  put_sizes(to, sizes);
  to.set("attention.layer_norm_epsilon", config.number("layer_norm_eps", 1e-5));
  if (config.string("hidden_act", "gelu") != "gelu")
    to.set("hidden_activation", Value(std::string("gelu_pytorch_tanh")));
  to.set("use_parallel_residual", Value(config.boolean("use_parallel_residual", true)));
  const Rope rope = read_rope(config, sizes,
                              {.theta = 10000,
                               .partial = 0.25,
                               .may_be_partial = true,
                               .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}});
  const uint64_t dimensions = rotated_dimensions(config, rope, sizes);
  to.set("rope.dimension_count", dimensions);
  put_rope(to, rope, dimensions);
  to.unneeded.insert(to.unneeded.end(), {".attention.bias", ".attention.masked_bias"});

  to.add("token_embd.weight", "gpt_neox.embed_in.weight", {sizes.hidden, sizes.vocabulary});
  to.add("output_norm.weight", "gpt_neox.final_layer_norm.weight", {sizes.hidden});
  to.add("output_norm.bias", "gpt_neox.final_layer_norm.bias", {sizes.hidden});
  to.add("output.weight", sizes.tied ? "gpt_neox.embed_in.weight" : "embed_out.weight",
         {sizes.hidden, sizes.vocabulary});
  if (sizes.tied) to.unneeded.push_back("embed_out.weight");
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "gpt_neox.layers", i);
    const auto both = [&](const char* name, const char* source, Shape shape, Change change = {}) {
      layer.bias(name, source, shape.back(), change);
      layer.weight(name, source, std::move(shape), change);
    };
    both("attn_norm", "input_layernorm", {sizes.hidden});
    const Change split{Change::Kind::split_qkv, sizes.heads};
    layer.weight("attn_qkv", "attention.query_key_value", {sizes.hidden, 3 * sizes.hidden}, split);
    layer.weight("attn_output", "attention.dense", {sizes.hidden, sizes.hidden});
    if (attention_bias) {
      layer.bias("attn_qkv", "attention.query_key_value", 3 * sizes.hidden, split);
      layer.bias("attn_output", "attention.dense", sizes.hidden);
    }
    both("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    both("ffn_up", "mlp.dense_h_to_4h", {sizes.hidden, sizes.inner});
    both("ffn_down", "mlp.dense_4h_to_h", {sizes.inner, sizes.hidden});
  }
  return to;
}

}  // namespace heddle::formats::hf
