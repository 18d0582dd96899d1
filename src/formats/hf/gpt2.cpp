// GPT-2: learned positions, LayerNorm, and linear layers kept the other way round (Conv1D).
#include "formats/hf/pages.h"

namespace heddle::formats::hf {

Description gpt2_page(Config& config) {
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
  for (const char* part : {"h.", "wte.", "wpe.", "ln_f."})  // as the first files have it
    to.prefixes.emplace_back(part, std::string("transformer.") + part);
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

}  // namespace heddle::formats::hf
