// Falcon: attention and feed-forward side by side, after one norm or a norm each; q, k and v in one matrix, group by
// group.
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {

Description describe_falcon(Config& config) {
  Sizes sizes{};
  sizes.vocabulary = config.integer("vocab_size", 65024);
  sizes.hidden = config.integer("hidden_size", 4544);
  sizes.layers = config.integer("num_hidden_layers", config.integer("n_layer", 32));
  sizes.heads = config.integer("num_attention_heads", config.integer("n_head", 71));
  sizes.inner = config.integer("ffn_hidden_size", 4 * sizes.hidden);
  sizes.context = config.integer("max_position_embeddings", 2048);
  sizes.tied = config.boolean("tie_word_embeddings", true);
  const bool grouped = config.boolean("new_decoder_architecture", false);
  const bool one_key = config.boolean("multi_query", true) && !grouped;
  const uint64_t kv_heads = config.integer("num_kv_heads", config.integer("n_head_kv", sizes.heads));
  sizes.kv_heads = one_key ? 1 : grouped ? kv_heads : sizes.heads;
  if (sizes.layers > 4096) config.refuse("num_hidden_layers", "at most 4096");
  if (sizes.hidden % sizes.heads) config.refuse("hidden_size", "a multiple of the attention heads");
  if (sizes.heads % sizes.kv_heads) config.refuse("num_kv_heads", "a divisor of the attention heads");
  sizes.head_dim = sizes.hidden / sizes.heads;
  config.expect("activation", {"gelu"}, "gelu");
  config.expect("alibi", {false}, false);
  config.expect("bias", {false}, false);
  config.expect("parallel_attn", {true}, true);
  config.expect("apply_residual_connection_post_layernorm", {false}, false);
  const bool two_norms = grouped && config.integer("num_ln_in_parallel_attn", 2) == 2;

  Description to("falcon");
  put_sizes(to, sizes);
  put_epsilon(to, config.number("layer_norm_epsilon", 1e-5));
  to.set("tensor_data_layout", Value(std::string("jploski")));  // q, then k, then v
  const RopeDefaults defaults{.types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}};
  put_rope(to, read_rope(config, sizes, defaults), sizes.head_dim);

  const std::string embedding = "transformer.word_embeddings.weight";
  to.add("token_embd.weight", embedding, {sizes.hidden, sizes.vocabulary});
  to.add("output_norm.weight", "transformer.ln_f.weight", {sizes.hidden});
  to.add("output_norm.bias", "transformer.ln_f.bias", {sizes.hidden});
  add_output(to, sizes, embedding);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "transformer.h", i);
    add_norm(layer, "attn_norm", two_norms ? "ln_mlp" : "input_layernorm", sizes.hidden, true);
    if (two_norms) add_norm(layer, "attn_norm_2", "ln_attn", sizes.hidden, true);
    layer.weight("attn_qkv", "self_attention.query_key_value",
                 {sizes.hidden, (sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim},
                 {Change::Kind::split_qkv, sizes.kv_heads, sizes.heads / sizes.kv_heads});
    layer.weight("attn_output", "self_attention.dense", {sizes.hidden, sizes.hidden});
    add_plain(layer, sizes, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", false);
  }
  return to;
}

}  // namespace heddle::formats::hf
