// GPT-NeoX (Pythia): q, k and v of each head beside each other in one matrix, a part of each head rotated.
#include "formats/hf/pages.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Description gptneox_page(Config& config) {
  const Sizes sizes = read_sizes(config, {50432, 6144, 24576, 44, 64, 0, 0, 2048, 1e-5, false});
  if (sizes.kv_heads != sizes.heads) config.refuse("num_key_value_heads", "as many as attention heads");
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"gelu", "gelu_fast", "gelu_new", "gelu_pytorch_tanh"}, "gelu");
  config.expect("attention_bias", {true}, true);

  Description to("gptneox");
  put_sizes(to, sizes);
  to.set("attention.layer_norm_epsilon", config.number("layer_norm_eps", 1e-5));
  if (config.string("hidden_act", "gelu") != "gelu")
    to.set("hidden_activation", Value(std::string("gelu_pytorch_tanh")));
  to.set("use_parallel_residual", Value(config.boolean("use_parallel_residual", true)));
  const Rope rope = read_rope(
      config, sizes,
      {.theta = 10000, .partial = 0.25, .may_be_partial = true, .types = {"default", "linear", "dynamic", "yarn"}});
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
    both("attn_qkv", "attention.query_key_value", {sizes.hidden, 3 * sizes.hidden},
         {Change::Kind::split_qkv, sizes.heads});
    both("attn_output", "attention.dense", {sizes.hidden, sizes.hidden});
    both("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    both("ffn_up", "mlp.dense_h_to_4h", {sizes.hidden, sizes.inner});
    both("ffn_down", "mlp.dense_4h_to_h", {sizes.inner, sizes.hidden});
  }
  return to;
}

}  // namespace heddle::formats::hf
