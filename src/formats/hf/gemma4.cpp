// Gemma 4 and Gemma 3n: norms are stored as they are; the last layers may have no keys and values of their own; each
// layer may read an input of the token. Gemma 4: heads of another size in layers with a window, keys that are values,
// experts beside the dense feed-forward. Gemma 3n: AltUp, Laurel, cutoffs of activations.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "formats/hf/classes.h"
#include "formats/hf/gemma.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

constexpr float not_rotated = 1e30f;  // by which GGUF divides the frequency of a pair that stays as it is

// The last layers, which read the KV cache of another. Files may have their keys and values all the same.
uint64_t read_shared_layers(Description& to, Config& config, const Sizes& sizes, uint64_t fallback) {
  const uint64_t shared = config.count("num_kv_shared_layers", fallback);
  if (shared >= sizes.layers)
    config.refuse("num_kv_shared_layers", fmt::format("fewer than the {} layers", sizes.layers));
  to.set("attention.shared_kv_layers", shared);
  for (uint64_t i = sizes.layers - shared; i < sizes.layers; ++i)
    for (const char* name : {"k_proj", "v_proj", "k_norm", "v_norm"})
      to.unneeded.push_back(fmt::format("layers.{}.self_attn.{}.", i, name));
  return shared;
}

// The embedding of all layers' inputs may have fewer rows than the vocabulary: pictures and sound have none.
uint64_t add_token_inputs(Description& to, Config& config, const Sizes& sizes) {
  const uint64_t size = config.count("hidden_size_per_layer_input", 256);
  const uint64_t rows = config.integer("vocab_size_per_layer_input", 262144);
  to.set("embedding_length_per_layer_input", size);
  if (!size) return 0;
  if (rows > sizes.vocabulary)
    config.refuse("vocab_size_per_layer_input", fmt::format("at most vocab_size ({})", sizes.vocabulary));
  to.add("per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight", {size * sizes.layers, sizes.vocabulary});
  if (rows < sizes.vocabulary) to.tensors.back().rows = {0, rows};
  to.add("per_layer_model_proj.weight", "model.per_layer_model_projection.weight", {sizes.hidden, size * sizes.layers});
  to.add("per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight", {size});
  return size;
}

void add_layer_input(Layer& layer, const Sizes& sizes, uint64_t size) {
  if (!size) return;
  layer.weight("inp_gate", "per_layer_input_gate", {sizes.hidden, size});
  layer.weight("proj", "per_layer_projection", {size, sizes.hidden});
  layer.weight("post_norm", "post_per_layer_input_norm", {sizes.hidden});
}

void add_norms(Layer& layer, const Sizes& sizes) {
  layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
  layer.weight("post_attention_norm", "post_attention_layernorm", {sizes.hidden});
  layer.weight("ffn_norm", "pre_feedforward_layernorm", {sizes.hidden});
  layer.weight("post_ffw_norm", "post_feedforward_layernorm", {sizes.hidden});
}

// q, and k and v unless the layer reads the cache of another; `v_is_k`: it has no v of its own.
void add_attention_of(Layer& layer, const Sizes& sizes, bool reads_cache, bool v_is_k) {
  const uint64_t q = sizes.heads * sizes.head_dim, k = sizes.kv_heads * sizes.head_dim;
  layer.weight("attn_q", "self_attn.q_proj", {sizes.hidden, q});
  layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.head_dim});
  layer.weight("attn_output", "self_attn.o_proj", {q, sizes.hidden});
  if (reads_cache) return;
  layer.weight("attn_k", "self_attn.k_proj", {sizes.hidden, k});
  layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.head_dim});
  if (!v_is_k) layer.weight("attn_v", "self_attn.v_proj", {sizes.hidden, k});
}

// The pattern is written in any case: for these architectures llama.cpp takes no period.
std::vector<bool> put_window_layers(Description& to, Config& config, const Sizes& sizes, uint64_t period) {
  std::vector<bool> layers = read_window_layers(config, sizes, all_but_each(period, sizes));
  to.set("attention.sliding_window", config.integer("sliding_window", 512));
  to.set("attention.sliding_window_pattern", Value(Array::of(layers)));
  return layers;
}

void put_softcap(Description& to, Config& config, double fallback) {
  const bool none = config.is_null("final_logit_softcapping");
  to.set("final_logit_softcapping", none ? 0.0 : config.number("final_logit_softcapping", fallback));
}

void expect_usual(Config& config) {
  config.expect("hidden_activation", {"gelu_pytorch_tanh"}, "gelu_pytorch_tanh");
  config.expect("attention_bias", {false}, false);
}

std::vector<int32_t> as_list(const std::vector<uint64_t>& values) { return {values.begin(), values.end()}; }

// --- Gemma 4 ---------------------------------------------------------------------------------------------------------
void put_gemma4_rope(Description& to, Config& config, const Sizes& sizes, uint64_t full_head) {
  const Json usual = {
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
      {"full_attention", {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}}}};
  const Json* given = config.find("rope_parameters");
  const Json& ropes = given ? *given : usual;
  Config both(ropes, config.where() + ": rope_parameters", &config);
  const auto object = [&](const char* name, const RopeDefaults& defaults) {
    const Json* found = both.find(name);
    if (!found || !found->is_object()) both.refuse(name, "an object");
    return read_rope_object(Config(*found, both.where() + ": " + name, &config), sizes, defaults, defaults.theta);
  };
  const Rope full = object("full_attention", {.theta = 1e6, .may_be_partial = true, .types = {RopeType::proportional}});
  const Rope window = object("sliding_attention", {.theta = 10000, .types = {RopeType::usual}});
  both.finish();
  to.set("rope.freq_base", full.theta);
  to.set("rope.freq_base_swa", window.theta);
  to.set("rope.dimension_count", full_head);
  to.set("rope.dimension_count_swa", sizes.head_dim);
  std::vector<float> factors(full_head / 2, not_rotated);
  const auto rotated = static_cast<size_t>(full.partial * static_cast<double>(full_head) / 2);
  std::fill_n(factors.begin(), std::min(rotated, factors.size()), static_cast<float>(full.factor.value_or(1)));
  to.add("rope_freqs.weight", factors);
}

struct Gemma4Experts {
  uint64_t count = 0, inner = 0;
};
Gemma4Experts read_gemma4_experts(Description& to, Config& config) {
  const bool has = config.boolean("enable_moe_block", false);
  const uint64_t count = config.integer("num_experts", 0), inner = config.integer("moe_intermediate_size", 0),
                 used = config.integer("top_k_experts", 0);
  if (!has) return {};
  if (!count) config.refuse("num_experts", "a number");
  if (!inner) config.refuse("moe_intermediate_size", "a number");
  if (!used || used > count) config.refuse("top_k_experts", fmt::format("a number up to the {} experts", count));
  to.set("expert_count", count);
  to.set("expert_used_count", used);
  to.set("expert_feed_forward_length", inner);
  return {count, inner};
}

void add_gemma4_experts(Layer& layer, const Sizes& sizes, const Gemma4Experts& experts) {
  if (!experts.count) return;
  const auto add = [&](const char* name, const char* source, Shape shape) {
    layer.to.add(layer.gguf + name, layer.file + source, std::move(shape));
  };
  layer.weight("ffn_gate_inp", "router.proj", {sizes.hidden, experts.count});
  add("ffn_gate_inp.scale", "router.scale", {sizes.hidden});
  add("ffn_down_exps.scale", "router.per_expert_scale", {experts.count});
  add("ffn_gate_up_exps.weight", "experts.gate_up_proj", {sizes.hidden, 2 * experts.inner, experts.count});
  add("ffn_down_exps.weight", "experts.down_proj", {experts.inner, sizes.hidden, experts.count});
  layer.weight("post_ffw_norm_1", "post_feedforward_layernorm_1", {sizes.hidden});
  layer.weight("post_ffw_norm_2", "post_feedforward_layernorm_2", {sizes.hidden});
  layer.weight("pre_ffw_norm_2", "pre_feedforward_layernorm_2", {sizes.hidden});
}

// --- Gemma 3n --------------------------------------------------------------------------------------------------------
// The number of deviations above the mean that this share of a normal distribution is below.
double normal_quantile(double share) {
  double low = -10, high = 10;
  while (true) {
    const double middle = (low + high) / 2;
    if (middle == low || middle == high) return middle;
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < share ? low : high) = middle;
  }
}

void put_cutoffs(Description& to, Config& config, const Sizes& sizes) {
  std::vector<double> shares(sizes.layers, 0);
  if (const Json* given = config.find("activation_sparsity_pattern"); given && given->is_number())
    shares.assign(sizes.layers, config.number("activation_sparsity_pattern", 0));
  else if (given)
    shares = config.numbers("activation_sparsity_pattern");
  else if (sizes.layers > 10)
    std::fill_n(shares.begin(), 10, 0.95);
  if (shares.size() != sizes.layers)
    config.refuse("activation_sparsity_pattern", fmt::format("{} numbers, one per layer", sizes.layers));
  std::vector<float> cutoffs;
  for (const double share : shares) {
    if (!(share >= 0 && share < 1)) config.refuse("activation_sparsity_pattern", "numbers from 0 on, below 1");
    cutoffs.push_back(share > 0 ? static_cast<float>(normal_quantile(share)) : -std::numeric_limits<float>::infinity());
  }
  to.set("activation_sparsity_scale", Value(Array::of(cutoffs)));
}

std::vector<uint64_t> read_inner_of_layers(Config& config, const Sizes& sizes) {
  const char* key = "intermediate_size";
  const Json* given = config.find(key);
  if (!given || !given->is_array()) return std::vector<uint64_t>(sizes.layers, config.integer(key, 16384));
  std::vector<uint64_t> all;
  for (const double one : config.numbers(key)) {
    if (!(one >= 1 && one <= 1 << 30) || one != std::floor(one)) config.refuse(key, "whole numbers from 1 on");
    all.push_back(static_cast<uint64_t>(one));
  }
  if (all.size() != sizes.layers) config.refuse(key, fmt::format("{} numbers, one per layer", sizes.layers));
  return all;
}

// AltUp, whose projections of all streams are one stack in GGUF, and Laurel.
uint64_t add_streams(Description& to, Config& config, const Sizes& sizes) {
  const uint64_t streams = config.integer("altup_num_inputs", 4);
  if (streams < 2 || streams > 16) config.refuse("altup_num_inputs", "a number from 2 to 16");
  config.expect("altup_active_idx", {0}, 0);
  config.ignore({"altup_coef_clip"});  // of training
  to.set("altup.num_inputs", streams);
  to.set("altup.active_idx", uint64_t{0});
  for (const auto& [name, source] :
       {std::pair{"altup_proj", "altup_projections"}, {"altup_unembd_proj", "altup_unembed_projections"}}) {
    Wanted wanted;
    wanted.name = fmt::format("{}.weight", name);
    wanted.shape = {sizes.hidden, sizes.hidden, streams - 1};
    for (uint64_t i = 0; i + 1 < streams; ++i) wanted.sources.push_back(fmt::format("model.{}.{}.weight", source, i));
    wanted.fused = fmt::format("model.{}.weight", source);  // makes one of one a stack
    to.tensors.push_back(std::move(wanted));
  }
  return streams;
}

void add_layer_streams(Layer& layer, const Sizes& sizes, uint64_t streams, uint64_t rank, bool scaled) {
  layer.weight("altup_correct_coef", "altup.correction_coefs", {streams, streams});
  layer.weight("altup_predict_coef", "altup.prediction_coefs", {streams, streams * streams});
  layer.weight("altup_router", "altup.modality_router", {sizes.hidden, streams});
  layer.weight("altup_router_norm", "altup.router_norm", {sizes.hidden});
  if (scaled)
    layer.to.add(layer.gguf + "altup_correct_scale.weight", layer.file + "altup.correct_output_scale", {sizes.hidden});
  layer.weight("laurel_l", "laurel.linear_left", {sizes.hidden, rank});
  layer.weight("laurel_r", "laurel.linear_right", {rank, sizes.hidden});
  layer.weight("laurel_post_norm", "laurel.post_laurel_norm", {sizes.hidden});
}

// The text part of a class that sees and hears.
Description with_images(Config& config, Description (*describe)(Config&)) {
  const Json* text = config.find("text_config");
  if (!text || !text->is_object()) config.refuse("text_config", "an object");
  Config inner(*text, config.where() + ": text_config", &config);
  Description to = describe(inner);
  inner.finish();
  config.ignore({"vision_config", "audio_config", "vision_soft_tokens_per_image", "audio_soft_tokens_per_image",
                 "boi_token_id", "eoi_token_id", "image_token_id", "video_token_id", "boa_token_id", "eoa_token_id",
                 "eoa_token_index", "audio_token_id", "tie_word_embeddings"});
  to.text_only = true;
  to.unneeded.insert(to.unneeded.end(), {"vision_tower.", "audio_tower.", "embed_vision.", "embed_audio."});
  to.prefixes = {{"model.language_model.", "model."}, {"language_model.", ""}};
  return to;
}

}  // namespace

Description describe_gemma4(Config& config) {
  const Sizes sizes = gemma_sizes(config, {262144, 2304, 9216, 30, 8, 4, 256, 131072, 1e-6, true});
  Description to("gemma4");
  expect_usual(config);
  // "vision": pictures alone are seen in both directions.
  config.expect("use_bidirectional_attention", {nullptr, false, "vision"}, nullptr);
  // 0: as in layers with a window.
  const uint64_t global_head = config.count("global_head_dim", 512),
                 full_head = global_head ? global_head : sizes.head_dim;
  const bool v_is_k = config.boolean("attention_k_eq_v", false);
  const uint64_t global_kv_heads = config.integer("num_global_key_value_heads", sizes.kv_heads);
  const uint64_t full_kv_heads = v_is_k ? global_kv_heads : sizes.kv_heads;
  if (sizes.heads % full_kv_heads)
    config.refuse("num_global_key_value_heads", fmt::format("a divisor of the {} attention heads", sizes.heads));
  for (const auto& [key, head] : {std::pair{"head_dim", sizes.head_dim}, {"global_head_dim", full_head}})
    if (head % 2 || head > 1 << 16) config.refuse(key, "an even number, at most 65536");
  put_sizes(to, sizes);
  put_head_length(to, full_head);
  to.set("attention.key_length_swa", sizes.head_dim);
  to.set("attention.value_length_swa", sizes.head_dim);
  put_rms_epsilon(to, sizes);
  put_softcap(to, config, 0);
  put_gemma4_rope(to, config, sizes, full_head);
  std::vector<bool> windows = put_window_layers(to, config, sizes, 6);
  if (windows.back()) config.refuse("layer_types", "\"full_attention\" in the last layer");
  const uint64_t shared = read_shared_layers(to, config, sizes, 0);
  const bool wide = config.boolean("use_double_wide_mlp", false);
  const Gemma4Experts experts = read_gemma4_experts(to, config);

  add_ends(to, sizes);
  const uint64_t input = add_token_inputs(to, config, sizes);
  std::vector<uint64_t> kv_heads, inner;
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    const bool reads_cache = i >= sizes.layers - shared;
    Sizes own = sizes;
    if (!windows[i]) own.head_dim = full_head;
    if (!windows[i]) own.kv_heads = full_kv_heads;
    if (reads_cache && wide) own.inner *= 2;
    kv_heads.push_back(own.kv_heads);
    inner.push_back(own.inner);
    Layer layer(to, "model.layers", i);
    add_norms(layer, own);
    add_attention_of(layer, own, reads_cache, v_is_k && !windows[i]);
    add_gated(layer, own);
    add_gemma4_experts(layer, own, experts);
    add_layer_input(layer, own, input);
    to.add(layer.gguf + "layer_output_scale.weight", layer.file + "layer_scalar", {1});
  }
  to.set("attention.head_count_kv", Value(Array::of(as_list(kv_heads))));
  to.set("feed_forward_length", Value(Array::of(as_list(inner))));
  return to;
}

Description describe_gemma3n(Config& config) {
  const Sizes sizes = gemma_sizes(config, {262400, 2048, 0, 35, 8, 2, 256, 32768, 1e-6, true});
  Description to("gemma3n");
  expect_usual(config);
  if (config.count("hidden_size_per_layer_input", 256) == 0)
    config.refuse("hidden_size_per_layer_input", "a number above 0");
  const std::vector<uint64_t> inner = read_inner_of_layers(config, sizes);
  put_sizes(to, sizes);
  to.set("feed_forward_length", Value(Array::of(as_list(inner))));
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  put_softcap(to, config, 30);
  put_gemma3_rope(to, config, sizes);
  put_window_layers(to, config, sizes, 5);
  put_cutoffs(to, config, sizes);
  const uint64_t shared = read_shared_layers(to, config, sizes, 15);
  const uint64_t rank = config.integer("laurel_rank", 64);
  const bool scaled = config.boolean("altup_correct_scale", true);

  add_ends(to, sizes);
  const uint64_t input = add_token_inputs(to, config, sizes);
  const uint64_t streams = add_streams(to, config, sizes);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Sizes own = sizes;
    own.inner = inner[i];
    Layer layer(to, "model.layers", i);
    add_norms(layer, own);
    add_attention_of(layer, own, i >= sizes.layers - shared, false);
    add_gated(layer, own);
    add_layer_input(layer, own, input);
    add_layer_streams(layer, own, streams, rank, scaled);
  }
  if (!scaled) to.unneeded.push_back("altup.correct_output_scale");
  return to;
}

Description describe_gemma4_with_images(Config& config) { return with_images(config, describe_gemma4); }
Description describe_gemma3n_with_images(Config& config) { return with_images(config, describe_gemma3n); }

}  // namespace heddle::formats::hf
