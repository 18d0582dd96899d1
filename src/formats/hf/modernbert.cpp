// ModernBERT: an encoder with norms before each sublayer, a gated feed-forward, rotations, and windows in most layers.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/encoder.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

struct ModernBert {
  Sizes sizes;
  bool norm_bias;
};

// Layers without a window: every third one from the first on, or as a list says.
void put_modern_windows(Description& to, Config& config, const Sizes& sizes) {
  to.set("attention.sliding_window", config.integer("local_attention", 128));
  const uint64_t period = config.integer("global_attn_every_n_layers", 3);
  const std::vector<std::string> types = config.strings("layer_types");
  if (!types.empty() && types.size() != sizes.layers)
    config.refuse("layer_types", fmt::format("{} entries", sizes.layers));
  std::vector<bool> windows;
  bool periodic = true;
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    const bool usual = i % period != 0;
    if (!types.empty() && types[i] != "full_attention" && types[i] != "sliding_attention")
      config.refuse("layer_types", "\"full_attention\" and \"sliding_attention\"");
    windows.push_back(types.empty() ? usual : types[i] == "sliding_attention");
    periodic = periodic && windows.back() == usual;
  }
  if (periodic)
    to.set("attention.sliding_window_pattern", period);
  else
    to.set("attention.sliding_window_pattern", Value(Array::of(windows)));
}

void put_modern_rope(Description& to, Config& config, const Sizes& sizes) {
  double full = rope_base(config, "global_rope_theta", 160000);
  // null: as the others
  double local = config.is_null("local_rope_theta") ? full : rope_base(config, "local_rope_theta", 10000);
  config.ignore({"local_rope_theta"});
  if (const Json* parameters = config.find("rope_parameters")) {
    const auto theta = [&](const char* name, double usual) {
      if (!parameters->is_object() || !parameters->contains(name)) return usual;
      const RopeDefaults plain{.theta = usual, .types = {RopeType::usual}};
      return read_rope_object(Config((*parameters)[name], config.where() + ": rope_parameters: " + name), sizes, plain,
                              usual)
          .theta;
    };
    full = theta("full_attention", full);
    local = theta("sliding_attention", local);
  }
  to.set("rope.freq_base", full);
  to.set("rope.freq_base_swa", local);
}

ModernBert modern_bert(Config& config, Description& to) {
  Sizes sizes = read_sizes(config, {50368, 768, 1152, 22, 12, 0, 0, 8192, 1e-5, true});
  sizes.epsilon = config.number("norm_eps", 1e-5);
  put_activation(to, config, "hidden_activation", "gelu");
  put_encoder(to, sizes);
  put_modern_windows(to, config, sizes);
  put_modern_rope(to, config, sizes);
  config.ignore({"initializer_cutoff_factor", "cls_token_id", "embedding_dropout", "mlp_dropout", "decoder_bias",
                 "deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index", "reference_compile",
                 "repad_logits_with_grad", "layer_norm_eps", "position_embedding_type", "tie_word_embeddings",
                 "sentence_transformers", "classifier_pooling", "classifier_activation", "classifier_bias"});
  const bool norm_bias = config.boolean("norm_bias", false), qkv_bias = config.boolean("attention_bias", false),
             ffn_bias = config.boolean("mlp_bias", false);
  const auto norm = [&](Layer& layer, std::string_view name, std::string_view source) {
    layer.weight(name, source, {sizes.hidden});
    if (norm_bias) layer.bias(name, source, sizes.hidden);
  };

  to.add("token_embd.weight", "embeddings.tok_embeddings.weight", {sizes.hidden, sizes.vocabulary});
  for (const auto& [name, source] : {std::pair{"token_embd_norm", "embeddings.norm"}, {"output_norm", "final_norm"}}) {
    to.add(fmt::format("{}.weight", name), fmt::format("{}.weight", source), {sizes.hidden});
    if (norm_bias) to.add(fmt::format("{}.bias", name), fmt::format("{}.bias", source), {sizes.hidden});
  }
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "layers", i);
    if (i > 0) norm(layer, "attn_norm", "attn_norm");
    layer.weight("attn_qkv", "attn.Wqkv", {sizes.hidden, 3 * sizes.hidden});
    layer.weight("attn_output", "attn.Wo", {sizes.hidden, sizes.hidden});
    if (qkv_bias) layer.bias("attn_qkv", "attn.Wqkv", 3 * sizes.hidden);
    if (qkv_bias) layer.bias("attn_output", "attn.Wo", sizes.hidden);
    norm(layer, "ffn_norm", "mlp_norm");
    layer.weight("ffn_up", "mlp.Wi", {sizes.hidden, 2 * sizes.inner});
    layer.weight("ffn_down", "mlp.Wo", {sizes.inner, sizes.hidden});
    if (ffn_bias) layer.bias("ffn_up", "mlp.Wi", 2 * sizes.inner);
    if (ffn_bias) layer.bias("ffn_down", "mlp.Wo", sizes.hidden);
  }
  to.prefixes = {{"model.", ""}};
  return {sizes, norm_bias};
}

}  // namespace

Description describe_modern_bert(Config& config) {
  Description to("modern-bert");
  modern_bert(config, to);
  to.unneeded.insert(to.unneeded.end(), {"head.", "decoder."});  // of the masked language model
  return to;
}

Description describe_modern_bert_classifier(Config& config) {
  Description to("modern-bert");
  const auto [sizes, norm_bias] = modern_bert(config, to);
  const uint64_t labels = put_labels(to, config);
  config.expect("classifier_pooling", {"cls", "mean"}, "cls");
  // GGUF's heads of this architecture take the mean, and GELU; other ones are named.
  if (config.string("classifier_pooling", "cls") == "cls") to.set("classifier.pooling_type", uint64_t(2));
  config.expect("classifier_activation", {"gelu", "tanh", "relu", "silu"}, "gelu");
  const std::string activation = config.string("classifier_activation", "gelu");
  if (activation != "gelu") to.set("classifier.activation", Value(activation));
  to.add("cls.weight", "head.dense.weight", {sizes.hidden, sizes.hidden});
  if (config.boolean("classifier_bias", false)) to.add("cls.bias", "head.dense.bias", {sizes.hidden});
  to.add("cls.norm.weight", "head.norm.weight", {sizes.hidden});
  if (norm_bias) to.add("cls.norm.bias", "head.norm.bias", {sizes.hidden});
  to.add("cls.output.weight", "classifier.weight", {sizes.hidden, labels});
  to.add("cls.output.bias", "classifier.bias", {labels});
  return to;
}

}  // namespace heddle::formats::hf
