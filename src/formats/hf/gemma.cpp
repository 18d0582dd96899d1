// Gemma: norms are stored as weight - 1. Gemma 2 and 3: norms before and after each sublayer; layers with a window
// alternate with layers that see everything.
#include "formats/hf/gemma.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

const Change all_plus_one{Change::Kind::plus_one, 0};

// The usual period is not written: in GGUF it is part of the architecture.
void put_window(Description& to, Config& config, const Sizes& sizes, uint64_t usual_period) {
  const uint64_t window = config.integer("sliding_window", 4096);
  config.ignore({"sliding_window_size"});  // Gemma 2 9B has the window twice
  const uint64_t period =
      config.integer("sliding_window_pattern", config.integer("_sliding_window_pattern", usual_period));
  put_windows(to, window, read_window_layers(config, sizes, all_but_each(period, sizes)), usual_period);
}

Description gemma_family(Config& config, std::string_view architecture, const Sizes& sizes, bool head_norm,
                         uint64_t large_layers) {
  Description to(architecture);
  config.expect("hidden_activation", {"gelu_pytorch_tanh"}, "gelu_pytorch_tanh");
  config.ignore({"hidden_act"});  // replaced by hidden_activation, whatever its value
  config.expect("attention_bias", {false}, false);
  config.expect("use_bidirectional_attention", {architecture == "gemma-embedding"}, false);
  // Scores are scaled by the size of a head, in the largest model by hidden_size / heads; any other scale is named.
  const double usual = static_cast<double>(sizes.layers == large_layers ? sizes.hidden / sizes.heads : sizes.head_dim);
  const double scalar = config.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) config.refuse("query_pre_attn_scalar", "a number above 0");
  if (scalar != usual) to.set("attention.scale", 1 / std::sqrt(scalar));
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);

  add_ends(to, sizes, all_plus_one);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden}, all_plus_one);
    add_attention(layer, sizes, {});
    if (head_norm) {
      layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.head_dim}, all_plus_one);
      layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.head_dim}, all_plus_one);
    }
    layer.weight("post_attention_norm", "post_attention_layernorm", {sizes.hidden}, all_plus_one);
    layer.weight("ffn_norm", "pre_feedforward_layernorm", {sizes.hidden}, all_plus_one);
    add_gated(layer, sizes);
    layer.weight("post_ffw_norm", "post_feedforward_layernorm", {sizes.hidden}, all_plus_one);
  }
  return to;
}

}  // namespace

Sizes gemma_sizes(Config& config, const Sizes& defaults) {
  Sizes sizes = read_sizes(config, defaults);
  sizes.epsilon = config.number("rms_norm_eps", defaults.epsilon);
  return sizes;
}

void put_gemma3_rope(Description& to, Config& config, const Sizes& sizes) {
  const RopeDefaults defaults{.theta = 1e6, .types = {RopeType::usual, RopeType::linear}};
  const double global = rope_base(config, "rope_theta", 1e6);
  double local = rope_base(config, "rope_local_base_freq", 10000);
  const Json* parameters = config.find("rope_parameters");
  const Json* scaling = config.find("rope_scaling");
  const std::string where = config.where() + ": rope_parameters: ";
  Rope full;
  if (parameters && parameters->is_object() && parameters->contains("full_attention")) {
    full = read_rope_object(Config((*parameters)["full_attention"], where + "full_attention", &config), sizes, defaults,
                            global);
    if (parameters->contains("sliding_attention")) {
      const RopeDefaults plain{.theta = local, .types = {RopeType::usual}};
      const Config object((*parameters)["sliding_attention"], where + "sliding_attention", &config);
      local = read_rope_object(object, sizes, plain, local).theta;
    }
    Config rest(*parameters, config.where() + ": rope_parameters", &config);
    rest.ignore({"full_attention", "sliding_attention"});
    rest.expect("rope_type", {"default"}, "default");
    rest.finish();
  } else {
    const Json none = Json::object();
    full = read_rope_object(Config(parameters ? *parameters
                                   : scaling  ? *scaling
                                              : none,
                                   config.where() + ": rope_scaling", &config),
                            sizes, defaults, global);
  }
  put_rope(to, full, sizes.head_dim);
  to.set("rope.freq_base_swa", local);
}

Description describe_gemma(Config& config) {
  const Sizes sizes = gemma_sizes(config, {256000, 3072, 24576, 28, 16, 16, 256, 8192, 1e-6, true});
  if (!sizes.tied) config.refuse("tie_word_embeddings", "true");
  // The first files say "gelu" and mean the approximation that the models were trained with.
  config.expect("hidden_act", {"gelu_pytorch_tanh", "gelu"}, "gelu_pytorch_tanh");
  config.expect("hidden_activation", {"gelu_pytorch_tanh"}, "gelu_pytorch_tanh");
  config.expect("attention_bias", {false}, false);
  config.expect("use_bidirectional_attention", {false}, false);
  Description to("gemma");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  put_rope(to, read_rope(config, sizes, {.theta = 10000, .types = {RopeType::usual, RopeType::linear}}),
           sizes.head_dim);
  add_ends(to, sizes, all_plus_one);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden}, all_plus_one);
    add_attention(layer, sizes, {});
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden}, all_plus_one);
    add_gated(layer, sizes);
  }
  return to;
}

Description describe_gemma2(Config& config) {
  const Sizes sizes = gemma_sizes(config, {256000, 2304, 9216, 26, 8, 4, 256, 8192, 1e-6, true});
  if (!sizes.tied) config.refuse("tie_word_embeddings", "true");
  Description to = gemma_family(config, "gemma2", sizes, false, 46);
  put_rope(to, read_rope(config, sizes, {.theta = 10000, .types = {RopeType::usual, RopeType::linear}}),
           sizes.head_dim);
  put_window(to, config, sizes, 2);
  // null turns a cap off, which is 0 in GGUF.
  const auto cap = [&](const char* key, double fallback) {
    return config.is_null(key) ? 0 : config.number(key, fallback);
  };
  to.set("attn_logit_softcapping", cap("attn_logit_softcapping", 50));
  to.set("final_logit_softcapping", cap("final_logit_softcapping", 30));
  config.ignore({"attn_logit_softcapping", "final_logit_softcapping"});
  return to;
}

Description describe_gemma3(Config& config) {
  const Sizes sizes = gemma_sizes(config, {262208, 2304, 9216, 26, 8, 4, 256, 131072, 1e-6, true});
  Description to = gemma_family(config, "gemma3", sizes, true, 62);
  put_gemma3_rope(to, config, sizes);
  put_window(to, config, sizes, 6);
  if (config.find("attn_logit_softcapping")) config.refuse("attn_logit_softcapping", "null");
  if (config.find("final_logit_softcapping"))
    to.set("final_logit_softcapping", config.number("final_logit_softcapping", 0));
  return to;
}

Description describe_gemma_embedding(Config& config) {
  const Sizes sizes = gemma_sizes(config, {262208, 2304, 9216, 26, 8, 4, 256, 131072, 1e-6, true});
  if (!sizes.tied) config.refuse("tie_word_embeddings", "true");
  Description to = gemma_family(config, "gemma-embedding", sizes, true, 62);
  put_gemma3_rope(to, config, sizes);
  put_window(to, config, sizes, 6);
  config.ignore({"attn_logit_softcapping", "final_logit_softcapping"});  // of logits, which there are none of
  to.prefixes = {{"embed_tokens.", "model.embed_tokens."}, {"layers.", "model.layers."}, {"norm.", "model.norm."}};
  return to;
}

Description describe_gemma3_with_images(Config& config) {
  const Json* text = config.find("text_config");
  if (!text) config.refuse("text_config", "an object");
  Config inner(*text, config.where() + ": text_config", &config);
  Description to = describe_gemma3(inner);
  inner.finish();
  config.ignore({"vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index",
                 "tie_word_embeddings"});
  to.text_only = true;
  to.unneeded.insert(to.unneeded.end(), {"vision_tower.", "multi_modal_projector."});
  to.prefixes = {{"language_model.", ""}, {"model.language_model.", "model."}};
  return to;
}

}  // namespace heddle::formats::hf
