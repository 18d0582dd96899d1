// Llama 4: layers that see only their chunk of the text and are rotated, in between layers that see all of it and are
// not, where queries grow with the position. One expert of all, beside one that sees every token. Rotated in pairs in
// the file, too.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/mixture.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

// A layer is rotated if and only if it has a chunk: that is what GGUF can say.
void put_chunks(Description& to, Config& config, const Sizes& sizes) {
  const std::vector<bool> chunks = read_rotated_layers(config, sizes);
  const std::vector<std::string> types = config.strings("layer_types");
  if (!types.empty() && types.size() != sizes.layers)
    config.refuse("layer_types", fmt::format("{} entries", sizes.layers));
  for (uint64_t i = 0; i < types.size(); ++i)
    if (types[i] != (chunks[i] ? "chunked_attention" : "full_attention"))
      config.refuse("layer_types", "\"chunked_attention\" where no_rope_layers is 1, \"full_attention\" where it is 0");
  to.set("attention.sliding_window", config.integer("attention_chunk_size", 8192));
  if (chunks != all_but_each(4, sizes)) to.set("attention.sliding_window_pattern", Value(Array::of(chunks)));
}

void add_llama4_experts(Layer& layer, const Sizes& sizes, uint64_t experts, uint64_t inner) {
  constexpr auto lies = Change::Lies::rather_in_columns;
  const std::string both = layer.file + "feed_forward.experts.gate_up_proj";
  layer.weight("ffn_gate_inp", "feed_forward.router", {sizes.hidden, experts});
  layer.to.add(layer.gguf + "ffn_gate_exps.weight", both, {sizes.hidden, inner, experts},
               {.kind = Change::Kind::first_half, .lies = lies});
  layer.to.add(layer.gguf + "ffn_up_exps.weight", both, {sizes.hidden, inner, experts},
               {.kind = Change::Kind::second_half, .lies = lies});
  layer.to.add(layer.gguf + "ffn_down_exps.weight", layer.file + "feed_forward.experts.down_proj",
               {inner, sizes.hidden, experts}, {.lies = lies});
  add_shared_expert(layer, sizes, inner, "feed_forward.shared_expert");
}

}  // namespace

Description describe_llama4(Config& config) {
  Sizes sizes = read_sizes(config, {202048, 5120, 8192, 48, 40, 8, 128, 131072, 1e-5, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
  const uint64_t inner = sizes.inner;  // of experts
  sizes.inner = config.integer("intermediate_size_mlp", 16384);
  const uint64_t experts = config.integer("num_local_experts", 16);
  const uint64_t step = config.integer("interleave_moe_layer_step", 1);
  std::vector<double> usual;
  for (uint64_t i = step - 1; i < sizes.layers; i += step) usual.push_back(static_cast<double>(i));
  if (config.find("moe_layers") && config.numbers("moe_layers") != usual)
    config.refuse("moe_layers", "what follows from interleave_moe_layer_step");
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("attention_bias", {false}, false);
  config.expect("use_qk_norm", {experts != 128}, true);  // GGUF says it by the number of experts
  config.ignore({"for_llm_compressor"});

  Description to("llama4");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  to.set("rope.dimension_count", sizes.head_dim);
  put_rope(to, read_rope(config, sizes, {.theta = 500000}), sizes.head_dim);
  put_chunks(to, config, sizes);
  const Json* tuning = config.find("attn_temperature_tuning");  // a number in some files
  const bool tuned = tuning && tuning->is_number() ? *tuning != 0 : config.boolean("attn_temperature_tuning", true);
  to.set("attention.temperature_scale", tuned ? config.number("attn_scale", 0.1) : 0);
  to.set("attention.temperature_length", config.integer("floor_scale", 8192));
  config.ignore({"attn_scale"});
  to.set("expert_count", experts);
  to.set("expert_used_count", config.integer("num_experts_per_tok", 1));
  to.set("expert_feed_forward_length", inner);
  to.set("interleave_moe_layer_step", step);

  add_ends(to, sizes);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {});
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    if ((i + 1) % step == 0) {
      add_llama4_experts(layer, sizes, experts, inner);
    } else {
      layer.weight("ffn_gate", "feed_forward.gate_proj", {sizes.hidden, sizes.inner});
      layer.weight("ffn_up", "feed_forward.up_proj", {sizes.hidden, sizes.inner});
      layer.weight("ffn_down", "feed_forward.down_proj", {sizes.inner, sizes.hidden});
    }
  }
  return to;
}

Description describe_llama4_with_images(Config& config) {
  const Json* text = config.find("text_config");
  if (!text) config.refuse("text_config", "an object");
  Config inner(*text, config.where() + ": text_config", &config);
  Description to = describe_llama4(inner);
  inner.finish();
  config.ignore({"vision_config", "boi_token_index", "eoi_token_index", "image_token_index", "tie_word_embeddings"});
  to.unneeded.insert(to.unneeded.end(), {"vision_model.", "multi_modal_projector."});
  to.text_only = true;
  to.prefixes = {{"language_model.", ""}};
  return to;
}

}  // namespace heddle::formats::hf
