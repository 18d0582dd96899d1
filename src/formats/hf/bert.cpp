// BERT, RoBERTa and XLM-RoBERTa, Nomic BERT: encoders with norms after each sum. GGUF has one architecture for the
// first three: the rows of RoBERTa's positions that no token has are left out.
#include <fmt/format.h>

#include <algorithm>

#include "formats/hf/classes.h"
#include "formats/hf/encoder.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

void ignore_bert_options(Config& config) {
  config.ignore({"output_past", "directionality", "pooler_fc_size", "pooler_num_attention_heads",
                 "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "sentence_transformers",
                 "sbert_ce_default_activation_function", "tie_word_embeddings", "adapters"});
  config.expect("position_embedding_type", {"absolute"}, "absolute");
  config.expect("add_cross_attention", {false}, false);
  config.expect("is_decoder", {false}, false);
}

Sizes bert_sizes(Config& config, const Sizes& defaults) {
  Sizes sizes = read_sizes(config, defaults);
  if (sizes.head_dim * sizes.heads != sizes.hidden)
    config.refuse("head_dim", fmt::format("hidden_size / num_attention_heads, {}", sizes.hidden / sizes.heads));
  if (sizes.kv_heads != sizes.heads) config.refuse("num_key_value_heads", fmt::format("{}", sizes.heads));
  sizes.epsilon = config.number("layer_norm_eps", defaults.epsilon);
  return sizes;
}

void add_token_types(Description& to, const Sizes& sizes, uint64_t types) {
  to.metadata.set("tokenizer.ggml.token_type_count", static_cast<uint32_t>(types));
  to.add("token_types.weight", "embeddings.token_type_embeddings.weight", {sizes.hidden, types});
}

void bert_layers(Description& to, const Sizes& sizes) {
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "encoder.layer", i);
    const auto both = [&](std::string_view name, std::string_view source, Shape shape) {
      const uint64_t rows = shape.back();
      layer.weight(name, source, std::move(shape));
      layer.bias(name, source, rows);
    };
    both("attn_q", "attention.self.query", {sizes.hidden, sizes.hidden});
    both("attn_k", "attention.self.key", {sizes.hidden, sizes.hidden});
    both("attn_v", "attention.self.value", {sizes.hidden, sizes.hidden});
    both("attn_output", "attention.output.dense", {sizes.hidden, sizes.hidden});
    both("attn_output_norm", "attention.output.LayerNorm", {sizes.hidden});
    both("ffn_up", "intermediate.dense", {sizes.hidden, sizes.inner});
    both("ffn_down", "output.dense", {sizes.inner, sizes.hidden});
    both("layer_output_norm", "output.LayerNorm", {sizes.hidden});
  }
}

// `offset`: rows of the positions before that of the first token.
Description bert_family(Config& config, Sizes sizes, uint64_t types, uint64_t offset) {
  Description to("bert");
  ignore_bert_options(config);
  put_activation(to, config, "hidden_act", "gelu");
  const uint64_t positions = sizes.context, all_types = config.integer("type_vocab_size", types);
  if (offset >= positions) config.refuse("max_position_embeddings", fmt::format("more than {}", offset));
  sizes.context = positions - offset;
  put_encoder(to, sizes);

  to.add("token_embd.weight", "embeddings.word_embeddings.weight", {sizes.hidden, sizes.vocabulary});
  to.add("position_embd.weight", "embeddings.position_embeddings.weight", {sizes.hidden, sizes.context});
  if (offset > 0) to.tensors.back().rows = Wanted::Rows{offset, positions};
  add_token_types(to, sizes, all_types);
  add_norm(to, "token_embd_norm", "embeddings.LayerNorm", sizes.hidden);
  bert_layers(to, sizes);
  to.prefixes = {{"bert.", ""}, {"roberta.", ""}, {"model.", ""}};
  // of masked language models, and the ids of positions in older files
  to.unneeded.insert(to.unneeded.end(), {"cls.predictions.", "cls.seq_relationship.", "lm_head.", "position_ids"});
  return to;
}

Description bert(Config& config) {
  return bert_family(config, bert_sizes(config, {30522, 768, 3072, 12, 12, 0, 0, 512, 1e-12, true}), 2, 0);
}
Description roberta(Config& config) {
  const Sizes sizes = bert_sizes(config, {50265, 768, 3072, 12, 12, 0, 0, 512, 1e-12, true});
  const double padding = config.number("pad_token_id", 1);
  if (!(padding >= 0 && padding < 1000)) config.refuse("pad_token_id", "a number from 0 to 999");
  return bert_family(config, sizes, 2, uint64_t(padding) + 1);
}

constexpr const char* pooler = "pooler.";  // of a state that only classifiers read

}  // namespace

void put_activation(Description& to, Config& config, std::string_view key, std::string_view usual) {
  std::string name = config.string(key, usual);
  if (name == "swish") name = "silu";
  if (name == "gelu_new" || name == "gelu_fast") name = "gelu_pytorch_tanh";
  if (name != "gelu" && name != "silu" && name != "gelu_pytorch_tanh")
    config.refuse(key, "gelu, gelu_new, gelu_pytorch_tanh or silu");
  if (name != usual) to.set("hidden_activation", Value(name));
}

void put_encoder(Description& to, const Sizes& sizes) {
  put_sizes(to, sizes);
  to.set("attention.layer_norm_epsilon", sizes.epsilon);
  to.set("attention.causal", Value(false));
}

void add_norm(Description& to, const std::string& name, const std::string& source, uint64_t size) {
  to.add(name + ".weight", source + ".weight", {size});
  to.add(name + ".bias", source + ".bias", {size});
}

uint64_t put_labels(Description& to, Config& config) {
  std::vector<std::string> labels{"LABEL_0", "LABEL_1"};  // where config.json has none
  if (const Json* names = config.find("id2label")) {
    if (!names->is_object() || names->empty() || names->size() > 100'000) config.refuse("id2label", "names by number");
    labels.assign(names->size(), "");
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto found = names->find(std::to_string(i));
      if (found == names->end() || !found->is_string())
        config.refuse("id2label", fmt::format("the names of 0 to {}", labels.size() - 1));
      labels[i] = found->get<std::string>();
    }
  }
  to.set("pooling_type", uint64_t(4));  // rank
  to.set("classifier.output_labels", Value(Array::of(labels)));
  return labels.size();
}

namespace {

// A product, tanh, and a product that has the labels.
void add_classifier(Description& to, Config& config, const std::string& dense, const std::string& output) {
  const uint64_t width = config.integer("hidden_size", 768), labels = put_labels(to, config);
  to.add("cls.weight", dense + ".weight", {width, width});
  to.add("cls.bias", dense + ".bias", {width});
  to.add("cls.output.weight", output + ".weight", {width, labels});
  to.add("cls.output.bias", output + ".bias", {labels});
}

}  // namespace

Description describe_bert(Config& config) {
  Description to = bert(config);
  to.unneeded.push_back(pooler);
  return to;
}

Description describe_bert_classifier(Config& config) {
  Description to = bert(config);
  add_classifier(to, config, "pooler.dense", "classifier");
  return to;
}

Description describe_roberta(Config& config) {
  Description to = roberta(config);
  to.unneeded.push_back(pooler);
  return to;
}

Description describe_roberta_classifier(Config& config) {
  Description to = roberta(config);
  add_classifier(to, config, "classifier.dense", "classifier.out_proj");
  to.unneeded.push_back(pooler);
  return to;
}

// config.json has the names of transformers, or those of the first files, which are GPT-2's.
Description describe_nomic_bert(Config& config) {
  const auto either = [&](const char* name, const char* first, uint64_t usual) {
    return config.integer(name, config.integer(first, usual));
  };
  Sizes sizes{either("vocab_size", "vocab_size", 30528),
              either("hidden_size", "n_embd", 768),
              either("intermediate_size", "n_inner", 3072),
              either("num_hidden_layers", "n_layer", 12),
              either("num_attention_heads", "n_head", 12),
              0,
              0,
              either("max_position_embeddings", "n_positions", 2048),
              config.number("layer_norm_eps", config.number("layer_norm_epsilon", 1e-12)),
              true};
  // Beyond what it was trained for, rotations would have to be scaled by the length of each text.
  sizes.context = std::min(sizes.context, config.integer("max_trained_positions", sizes.context));
  if (sizes.layers > 4096) config.refuse("num_hidden_layers", "at most 4096");
  if (sizes.hidden % sizes.heads) config.refuse("hidden_size", "a multiple of the heads");
  sizes.kv_heads = sizes.heads;
  sizes.head_dim = sizes.hidden / sizes.heads;
  config.expect("head_dim", {sizes.head_dim}, sizes.head_dim);

  Description to("nomic-bert");
  const std::string activation = config.string("activation_function", "swiglu");
  if (activation != "swiglu") config.refuse("activation_function", "\"swiglu\"");
  put_activation(to, config, "hidden_act", "silu");
  for (const char* no : {"causal", "mlp_fc1_bias", "mlp_fc2_bias", "qkv_proj_bias", "prenorm", "parallel_block",
                         "rotary_emb_interleaved", "scale_attn_by_inverse_layer_idx", "use_rms_norm"})
    config.expect(no, {false}, false);
  config.expect("rotary_emb_fraction", {1}, 1);
  config.expect("moe_every_n_layers", {0}, 0);
  config.ignore({"max_trained_positions", "rotary_scaling_factor", "rotary_emb_scale_base", "dense_seq_output",
                 "fused_bias_fc", "fused_dropout_add_ln", "pad_vocab_size_multiple", "parallel_block_tied_norm",
                 "scale_attn_weights", "use_flash_attn", "use_xentropy", "last_layer_subset", "tie_word_embeddings",
                 "max_position_embeddings", "n_positions", "sentence_transformers", "ffn_div"});
  const RopeDefaults rope{.theta = rope_base(config, "rotary_emb_base", 1000), .types = {RopeType::usual}};
  put_encoder(to, sizes);
  put_rope(to, read_rope(config, sizes, rope), sizes.head_dim);

  to.add("token_embd.weight", "embeddings.word_embeddings.weight", {sizes.hidden, sizes.vocabulary});
  add_token_types(to, sizes, config.integer("type_vocab_size", 2));
  add_norm(to, "token_embd_norm", "emb_ln", sizes.hidden);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "encoder.layers", i);
    layer.weight("attn_qkv", "attn.Wqkv", {sizes.hidden, 3 * sizes.hidden});
    layer.weight("attn_output", "attn.out_proj", {sizes.hidden, sizes.hidden});
    for (const auto& [name, source] : {std::pair{"attn_output_norm", "norm1"}, {"layer_output_norm", "norm2"}}) {
      layer.weight(name, source, {sizes.hidden});
      layer.bias(name, source, sizes.hidden);
    }
    layer.weight("ffn_up", "mlp.fc11", {sizes.hidden, sizes.inner});
    layer.weight("ffn_gate", "mlp.fc12", {sizes.hidden, sizes.inner});
    layer.weight("ffn_down", "mlp.fc2", {sizes.inner, sizes.hidden});
  }
  to.prefixes = {{"bert.", ""}};
  to.unneeded.insert(to.unneeded.end(), {"cls.predictions.", pooler});
  return to;
}

}  // namespace heddle::formats::hf
