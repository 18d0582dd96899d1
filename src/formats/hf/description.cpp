// What architectures share.
#include "formats/hf/description.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace heddle::formats::hf {
namespace {

// Beyond these config.json is wrong. A config alone could otherwise ask for more names of tensors than memory holds.
constexpr uint64_t max_layers = 4096, max_experts = 4096, max_head = 1 << 16, max_sources = 1'000'000;

}  // namespace

Description::Description(std::string_view name) : architecture(name) {
  metadata.set("general.architecture", architecture);
  // Buffers that older files have beside the weights.
  unneeded = {".rotary_emb.inv_freq", ".rotary_emb.cos_cached", ".rotary_emb.sin_cached"};
}

void Description::set(std::string_view key, Value value) {
  metadata.set(fmt::format("{}.{}", architecture, key), std::move(value));
}

void Description::add(std::string name, std::string source, Shape shape, Change change) {
  tensors.push_back({std::move(name), std::move(shape), {std::move(source)}, change, {}, {}, {}, {}});
}

void Description::add(std::string name, std::vector<float> values) {
  tensors.push_back({std::move(name), {values.size()}, {}, {}, {}, {}, {}, std::move(values)});
}

void Description::take_next_head() {
  tensors.insert(tensors.end(), next_head.begin(), next_head.end());
  set("block_count", metadata.integer(architecture + ".block_count") + 1);
  set("nextn_predict_layers", uint64_t{1});
  if (const Array* found = metadata.find_array(architecture + ".attention.recurrent_layers")) {
    std::vector<bool> recurrent;
    for (const int64_t layer : found->integers()) recurrent.push_back(layer != 0);
    recurrent.push_back(false);
    set("attention.recurrent_layers", Value(Array::of(recurrent)));
  }
  std::erase(unneeded, "mtp.");
}

Layer::Layer(Description& description, std::string_view file_layers, uint64_t number)
    : to(description), gguf(fmt::format("blk.{}.", number)), file(fmt::format("{}.{}.", file_layers, number)) {}

void Layer::weight(std::string_view name, std::string_view source, Shape shape, Change change) {
  to.add(fmt::format("{}{}.weight", gguf, name), fmt::format("{}{}.weight", file, source), std::move(shape), change);
}

void Layer::bias(std::string_view name, std::string_view source, uint64_t size, Change change) {
  to.add(fmt::format("{}{}.bias", gguf, name), fmt::format("{}{}.bias", file, source), {size}, change);
}

Sizes read_sizes(Config& config, const Sizes& defaults) {
  Sizes sizes = defaults;
  sizes.vocabulary = config.integer("vocab_size", defaults.vocabulary);
  sizes.hidden = config.integer("hidden_size", defaults.hidden);
  if (defaults.inner) sizes.inner = config.integer("intermediate_size", defaults.inner);
  sizes.layers = config.integer("num_hidden_layers", defaults.layers);
  sizes.heads = config.integer("num_attention_heads", defaults.heads);
  sizes.context = config.integer("max_position_embeddings", defaults.context);
  sizes.tied = config.boolean("tie_word_embeddings", defaults.tied);
  if (sizes.layers > max_layers) config.refuse("num_hidden_layers", fmt::format("at most {}", max_layers));

  const bool null_kv_heads = config.is_null("num_key_value_heads");
  sizes.kv_heads = config.integer("num_key_value_heads", null_kv_heads ? 0 : defaults.kv_heads);
  if (!sizes.kv_heads) sizes.kv_heads = sizes.heads;
  if (sizes.heads % sizes.kv_heads)
    config.refuse("num_key_value_heads", fmt::format("a divisor of the {} attention heads", sizes.heads));

  sizes.head_dim = config.integer("head_dim", defaults.head_dim);
  if (!sizes.head_dim) {
    if (sizes.hidden % sizes.heads)
      config.refuse("hidden_size", fmt::format("a multiple of the {} attention heads", sizes.heads));
    sizes.head_dim = sizes.hidden / sizes.heads;
  }
  if (sizes.head_dim > max_head)
    throw Error("{}: head_dim, or hidden_size / num_attention_heads: expected at most {}, found {}", config.where(),
                max_head, sizes.head_dim);
  return sizes;
}

void put_sizes(Description& to, const Sizes& sizes) {
  to.set("block_count", sizes.layers);
  to.set("context_length", sizes.context);
  to.set("embedding_length", sizes.hidden);
  to.set("feed_forward_length", sizes.inner);
  to.set("attention.head_count", sizes.heads);
  to.set("attention.head_count_kv", sizes.kv_heads);
  to.set("vocab_size", sizes.vocabulary);
}

void put_head_length(Description& to, uint64_t head_dim) {
  to.set("attention.key_length", head_dim);
  to.set("attention.value_length", head_dim);
}

void put_rms_epsilon(Description& to, const Sizes& sizes) { to.set("attention.layer_norm_rms_epsilon", sizes.epsilon); }

void put_epsilon(Description& to, double epsilon) { to.set("attention.layer_norm_epsilon", epsilon); }

void add_attention(Layer& layer, const Sizes& sizes, const Attention& attention) {
  const auto change = [&](uint64_t heads) {
    return attention.interleave ? Change{Change::Kind::interleave, heads} : Change{};
  };
  const struct {
    const char *name, *source;
    uint64_t heads;
    Change change;
  } projections[] = {{"attn_q", "self_attn.q_proj", sizes.heads, change(sizes.heads)},
                     {"attn_k", "self_attn.k_proj", sizes.kv_heads, change(sizes.kv_heads)},
                     {"attn_v", "self_attn.v_proj", sizes.kv_heads, {}}};
  for (const auto& p : projections) {
    layer.weight(p.name, p.source, {sizes.hidden, p.heads * sizes.head_dim}, p.change);
    if (attention.qkv_bias) layer.bias(p.name, p.source, p.heads * sizes.head_dim, p.change);
  }
  layer.weight("attn_output", "self_attn.o_proj", {sizes.heads * sizes.head_dim, sizes.hidden});
  if (attention.output_bias) layer.bias("attn_output", "self_attn.o_proj", sizes.hidden);
}

void add_gated(Layer& layer, const Sizes& sizes, bool bias) {
  layer.weight("ffn_gate", "mlp.gate_proj", {sizes.hidden, sizes.inner});
  layer.weight("ffn_up", "mlp.up_proj", {sizes.hidden, sizes.inner});
  layer.weight("ffn_down", "mlp.down_proj", {sizes.inner, sizes.hidden});
  if (!bias) return;
  layer.bias("ffn_gate", "mlp.gate_proj", sizes.inner);
  layer.bias("ffn_up", "mlp.up_proj", sizes.inner);
  layer.bias("ffn_down", "mlp.down_proj", sizes.hidden);
}

void add_plain(Layer& layer, const Sizes& sizes, std::string_view up, std::string_view down, bool bias) {
  layer.weight("ffn_up", up, {sizes.hidden, sizes.inner});
  layer.weight("ffn_down", down, {sizes.inner, sizes.hidden});
  if (!bias) return;
  layer.bias("ffn_up", up, sizes.inner);
  layer.bias("ffn_down", down, sizes.hidden);
}

void add_norm(Layer& layer, std::string_view name, std::string_view source, uint64_t size, bool bias, Change change) {
  layer.weight(name, source, {size}, change);
  if (bias) layer.bias(name, source, size);
}

void add_experts(Layer& layer, const Sizes& sizes, uint64_t experts, uint64_t inner, std::string_view folder,
                 const std::vector<std::string>& names) {
  if (experts > max_experts) throw Error("config.json: expected at most {} experts, found {}", max_experts, experts);
  if (3 * experts * sizes.layers > max_sources)
    throw Error("config.json: expected at most {} tensors of experts, found {} layers of {} experts", max_sources,
                sizes.layers, experts);
  const struct {
    const char *name, *fused;
    Shape shape;
    Change::Kind half;
  } matrices[] = {{"ffn_gate_exps", "gate_up_proj", {sizes.hidden, inner, experts}, Change::Kind::first_half},
                  {"ffn_up_exps", "gate_up_proj", {sizes.hidden, inner, experts}, Change::Kind::second_half},
                  {"ffn_down_exps", "down_proj", {inner, sizes.hidden, experts}, Change::Kind::none}};
  for (size_t i = 0; i < 3; ++i) {
    Wanted wanted;
    wanted.name = fmt::format("{}{}.weight", layer.gguf, matrices[i].name);
    wanted.shape = matrices[i].shape;
    for (uint64_t e = 0; e < experts; ++e)
      wanted.sources.push_back(fmt::format("{}{}.experts.{}.{}.weight", layer.file, folder, e, names[i]));
    wanted.fused = fmt::format("{}mlp.experts.{}", layer.file, matrices[i].fused);
    wanted.fused_change = {.kind = matrices[i].half, .lies = Change::Lies::rather_in_rows};
    layer.to.tensors.push_back(std::move(wanted));
  }
}

void add_output(Description& to, const Sizes& sizes, const std::string& embedding, bool always) {
  const std::string head = "lm_head.weight";
  if (sizes.tied) to.unneeded.push_back(head);  // it is the embedding again
  if (!sizes.tied || always) to.add("output.weight", sizes.tied ? embedding : head, {sizes.hidden, sizes.vocabulary});
}

void add_ends(Description& to, const Sizes& sizes, Change norm, bool always_output) {
  const std::string embedding = "model.embed_tokens.weight";
  to.add("token_embd.weight", embedding, {sizes.hidden, sizes.vocabulary});
  to.add("output_norm.weight", "model.norm.weight", {sizes.hidden}, norm);
  add_output(to, sizes, embedding, always_output);
}

std::vector<std::string> read_layer_types(Config& config, std::string_view key, uint64_t layers,
                                          std::initializer_list<std::string_view> allowed) {
  std::vector<std::string> types = config.strings(key);
  if (!types.empty() && types.size() != layers) config.refuse(key, fmt::format("{} entries", layers));
  for (const std::string& type : types)
    if (std::find(allowed.begin(), allowed.end(), type) == allowed.end())
      config.refuse(key, fmt::format("\"{}\" in each layer", fmt::join(allowed, "\" or \"")));
  return types;
}

std::vector<bool> read_window_layers(Config& config, const Sizes& sizes, std::vector<bool> usual) {
  const std::vector<std::string> types =
      read_layer_types(config, "layer_types", sizes.layers, {"full_attention", "sliding_attention"});
  if (types.empty()) return usual;
  std::vector<bool> layers;
  for (const std::string& type : types) layers.push_back(type == "sliding_attention");
  return layers;
}

std::vector<bool> all_but_each(uint64_t period, const Sizes& sizes) {
  std::vector<bool> layers;
  for (uint64_t i = 0; i < sizes.layers; ++i) layers.push_back((i + 1) % period != 0);
  return layers;
}

std::vector<bool> read_rotated_layers(Config& config, const Sizes& sizes) {
  const uint64_t interval = config.integer("no_rope_layer_interval", 4);
  const std::vector<double> given = config.numbers("no_rope_layers");
  if (given.empty()) return all_but_each(interval, sizes);
  if (given.size() != sizes.layers) config.refuse("no_rope_layers", fmt::format("{} entries", sizes.layers));
  std::vector<bool> layers;
  for (const double rotated : given) layers.push_back(rotated != 0);
  return layers;
}

void put_clip(Description& to, Config& config) {
  if (!config.find("clip_qkv")) return;
  const double clip = config.number("clip_qkv", 0);
  if (!(clip > 0)) config.refuse("clip_qkv", "null, or a number above 0");
  to.set("attention.clamp_kqv", clip);
}

void put_windows(Description& to, uint64_t window, const std::vector<bool>& layers, uint64_t usual_period,
                 bool always) {
  if (!always && std::find(layers.begin(), layers.end(), true) == layers.end()) return;
  to.set("attention.sliding_window", window);
  const auto has_period = [&](uint64_t period) {
    for (uint64_t i = 0; i < layers.size(); ++i)
      if (layers[i] != (period == 0 || (i + 1) % period != 0)) return false;
    return true;
  };
  if (has_period(usual_period)) return;
  const uint64_t first = uint64_t(std::find(layers.begin(), layers.end(), false) - layers.begin()) + 1;
  if (has_period(first))  // llama.cpp has no list for some architectures, but a period for all
    to.set("attention.sliding_window_pattern", first);
  else
    to.set("attention.sliding_window_pattern", Value(Array::of(layers)));
}

void put_optional_windows(Description& to, Config& config, const Sizes& sizes) {
  const bool slides = config.boolean("use_sliding_window", false) && !config.is_null("sliding_window");
  const uint64_t window = slides ? config.integer("sliding_window", 4096) : 0;
  config.ignore({"sliding_window"});
  const double first = config.number("max_window_layers", 28);  // those before it see everything
  std::vector<bool> usual;
  for (uint64_t i = 0; i < sizes.layers; ++i) usual.push_back(slides && static_cast<double>(i) >= first);
  const std::vector<bool> layers = read_window_layers(config, sizes, usual);
  if (!slides && std::find(layers.begin(), layers.end(), true) != layers.end())
    config.refuse("layer_types", "\"full_attention\" in all layers where use_sliding_window is not true");
  put_windows(to, window, layers, 0);
}

void expect_full_attention(Config& config, const Sizes& sizes) {
  config.ignore({"sliding_window"});  // of layers with a window, and there are none
  const double first = config.number("max_window_layers", 0);
  if (config.boolean("use_sliding_window", false) && first < static_cast<double>(sizes.layers))
    config.refuse("use_sliding_window", "false");
  for (const std::string& type : config.strings("layer_types"))
    if (type != "full_attention") config.refuse("layer_types", "\"full_attention\" in all layers");
}

}  // namespace heddle::formats::hf
