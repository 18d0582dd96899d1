// BLOOM and MPT: no rotation; a key costs its distance times a number of the head (ALiBi).
#include "formats/hf/classes.h"

namespace heddle::formats::hf {

Description describe_bloom(Config& config) {
  Sizes sizes{};
  sizes.vocabulary = config.integer("vocab_size", 250880);
  sizes.hidden = config.integer("hidden_size", config.integer("n_embed", 64));
  sizes.layers = config.integer("n_layer", config.integer("num_hidden_layers", 2));
  sizes.heads = config.integer("n_head", config.integer("num_attention_heads", 8));
  sizes.kv_heads = sizes.heads;
  sizes.inner = 4 * sizes.hidden;
  sizes.context = config.integer("seq_length", 2048);
  sizes.tied = config.boolean("tie_word_embeddings", true);
  if (sizes.layers > 4096) config.refuse("n_layer", "at most 4096");
  if (sizes.hidden % sizes.heads) config.refuse("hidden_size", "a multiple of n_head");
  config.expect("apply_residual_connection_post_layernorm", {false}, false);
  config.expect("n_inner", {sizes.inner}, sizes.inner);
  config.ignore({"attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi",
                 "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact"});

  Description to("bloom");
  put_sizes(to, sizes);
  put_epsilon(to, config.number("layer_norm_epsilon", 1e-5));
  for (const char* prefix : {"h.", "word_embeddings.", "word_embeddings_layernorm.", "ln_f."})
    to.prefixes.emplace_back(prefix, std::string("transformer.") + prefix);  // as the first files have them
  const std::string embedding = "transformer.word_embeddings";
  to.add("token_embd.weight", embedding + ".weight", {sizes.hidden, sizes.vocabulary});
  to.add("token_embd_norm.weight", embedding + "_layernorm.weight", {sizes.hidden});
  to.add("token_embd_norm.bias", embedding + "_layernorm.bias", {sizes.hidden});
  to.add("output_norm.weight", "transformer.ln_f.weight", {sizes.hidden});
  to.add("output_norm.bias", "transformer.ln_f.bias", {sizes.hidden});
  add_output(to, sizes, embedding + ".weight");
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "transformer.h", i);
    const Change split{Change::Kind::split_qkv, sizes.heads};
    add_norm(layer, "attn_norm", "input_layernorm", sizes.hidden, true);
    layer.weight("attn_qkv", "self_attention.query_key_value", {sizes.hidden, 3 * sizes.hidden}, split);
    layer.bias("attn_qkv", "self_attention.query_key_value", 3 * sizes.hidden, split);
    layer.weight("attn_output", "self_attention.dense", {sizes.hidden, sizes.hidden});
    layer.bias("attn_output", "self_attention.dense", sizes.hidden);
    add_norm(layer, "ffn_norm", "post_attention_layernorm", sizes.hidden, true);
    add_plain(layer, sizes, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", true);
  }
  return to;
}

Description describe_mpt(Config& config) {
  Sizes sizes{};
  sizes.vocabulary = config.integer("vocab_size", 50368);
  sizes.hidden = config.integer("d_model", 2048);
  sizes.layers = config.integer("n_layers", 24);
  sizes.heads = config.integer("n_heads", 16);
  sizes.kv_heads = sizes.heads;
  sizes.inner = 4 * sizes.hidden;
  sizes.context = config.integer("max_seq_len", 2048);
  sizes.tied = config.boolean("tie_word_embeddings", true);
  if (sizes.layers > 4096) config.refuse("n_layers", "at most 4096");
  if (sizes.hidden % sizes.heads) config.refuse("d_model", "a multiple of n_heads");
  config.expect("expansion_ratio", {4}, 4);
  config.expect("no_bias", {true}, true);
  if (config.find("logit_scale")) config.refuse("logit_scale", "null");
  config.expect("norm_type", {"low_precision_layernorm", "layernorm"}, "low_precision_layernorm");
  config.ignore({"learned_pos_emb", "embedding_fraction", "use_pad_tok_in_ffn"});  // nothing to ALiBi, or to inference

  Description to("mpt");
  put_sizes(to, sizes);
  put_epsilon(to, config.number("layer_norm_epsilon", 1e-5));
  const Json none = Json::object();
  const Json* found = config.find("attn_config");
  Config attention(found ? *found : none, config.where() + ": attn_config", &config);
  attention.expect("attn_type", {"multihead_attention"}, "multihead_attention");
  attention.expect("alibi", {true}, true);
  attention.expect("qk_ln", {false}, false);
  attention.expect("prefix_lm", {false}, false);
  attention.ignore({"attn_impl", "attn_pdrop", "attn_uses_sequence_id"});
  if (attention.find("softmax_scale")) to.set("attention.scale", attention.number("softmax_scale", 0));
  put_clip(to, attention);
  to.set("attention.max_alibi_bias", attention.number("alibi_bias_max", 8));
  attention.finish();

  to.add("token_embd.weight", "transformer.wte.weight", {sizes.hidden, sizes.vocabulary});
  to.add("output_norm.weight", "transformer.norm_f.weight", {sizes.hidden});
  add_output(to, sizes, "transformer.wte.weight");
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "transformer.blocks", i);
    layer.weight("attn_norm", "norm_1", {sizes.hidden});
    layer.weight("attn_qkv", "attn.Wqkv", {sizes.hidden, 3 * sizes.hidden});
    layer.weight("attn_output", "attn.out_proj", {sizes.hidden, sizes.hidden});
    layer.weight("ffn_norm", "norm_2", {sizes.hidden});
    add_plain(layer, sizes, "ffn.up_proj", "ffn.down_proj", false);
  }
  return to;
}

}  // namespace heddle::formats::hf
