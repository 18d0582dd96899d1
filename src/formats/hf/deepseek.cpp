// DeepSeek V2 and V3 (also R1 and Kimi K2) and GLM-4.7-Flash: keys and values from one latent vector per token. GGUF
// has the matrix that expands it as two, one of them transposed, so that attention can work on the latents themselves.
#include <fmt/format.h>

#include <algorithm>

#include "formats/hf/classes.h"
#include "formats/hf/mixture.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

struct Latent {
  uint64_t q_rank, kv_rank, plain, rotated, value;  // q_rank 0: queries are not compressed
};

Latent read_latent(Config& config, const Latent& defaults) {
  Latent latent{};
  latent.q_rank = config.is_null("q_lora_rank") ? 0 : config.integer("q_lora_rank", defaults.q_rank);
  latent.kv_rank = config.integer("kv_lora_rank", defaults.kv_rank);
  latent.plain = config.integer("qk_nope_head_dim", defaults.plain);
  latent.rotated = config.integer("qk_rope_head_dim", defaults.rotated);
  latent.value = config.integer("v_head_dim", defaults.value);
  if (latent.rotated % 2) config.refuse("qk_rope_head_dim", "an even number");
  config.expect("qk_head_dim", {latent.plain + latent.rotated}, latent.plain + latent.rotated);
  config.ignore({"q_lora_rank", "head_dim"});
  return latent;
}

void put_latent(Description& to, const Latent& latent) {
  to.set("attention.head_count_kv", uint64_t{1});  // one latent for all heads
  to.set("attention.q_lora_rank", latent.q_rank);  // 0, too: llama.cpp wants it in most cases
  to.set("attention.kv_lora_rank", latent.kv_rank);
  to.set("attention.key_length", latent.kv_rank + latent.rotated);
  to.set("attention.value_length", latent.kv_rank);
  to.set("attention.key_length_mla", latent.plain + latent.rotated);
  to.set("attention.value_length_mla", latent.value);
  to.set("rope.dimension_count", latent.rotated);
}

void add_latent_attention(Layer& layer, const Sizes& sizes, const Latent& latent) {
  const uint64_t queries = sizes.heads * (latent.plain + latent.rotated);
  if (latent.q_rank) {
    layer.weight("attn_q_a", "self_attn.q_a_proj", {sizes.hidden, latent.q_rank});
    layer.weight("attn_q_a_norm", "self_attn.q_a_layernorm", {latent.q_rank});
    layer.weight("attn_q_b", "self_attn.q_b_proj", {latent.q_rank, queries});
  } else {
    layer.weight("attn_q", "self_attn.q_proj", {sizes.hidden, queries});
  }
  layer.weight("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", {sizes.hidden, latent.kv_rank + latent.rotated});
  layer.weight("attn_kv_a_norm", "self_attn.kv_a_layernorm", {latent.kv_rank});
  layer.weight("attn_k_b", "self_attn.kv_b_proj", {latent.plain, latent.kv_rank, sizes.heads},
               {.kind = Change::Kind::latent_keys, .other = latent.value});
  layer.weight("attn_v_b", "self_attn.kv_b_proj", {latent.kv_rank, latent.value, sizes.heads},
               {.kind = Change::Kind::latent_values, .other = latent.plain});
  layer.weight("attn_output", "self_attn.o_proj", {sizes.heads * latent.value, sizes.hidden});
}

Description latent_family(Config& config, const Sizes& sizes, const Latent& latent, const Mixture& mixture) {
  if (sizes.kv_heads != sizes.heads) config.refuse("num_key_value_heads", "as many as attention heads");
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("attention_bias", {false}, false);
  config.expect("mlp_bias", {false}, false);
  config.expect("rope_interleave", {true}, true);
  config.ignore({"use_mla"});

  Description to("deepseek2");
  put_sizes(to, sizes);
  put_rms_epsilon(to, sizes);
  put_latent(to, latent);
  put_mixture(to, mixture);
  put_rope(to,
           read_rope(config, sizes,
                     {.theta = 10000,
                      .latent = true,
                      .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}}),
           latent.rotated);
  ignore_guessing_layers(to, config, sizes);

  add_ends(to, sizes);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_latent_attention(layer, sizes, latent);
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    if (i < mixture.dense)
      add_gated(layer, sizes);
    else
      add_mixture(layer, sizes, mixture, "mlp", mixture.sigmoid ? "gate.e_score_correction_bias" : "");
  }
  return to;
}

Sizes latent_sizes(Config& config, const Sizes& defaults) {
  Sizes sizes = read_sizes(config, defaults);
  sizes.epsilon = config.number("rms_norm_eps", defaults.epsilon);
  return sizes;
}

}  // namespace

Description describe_deepseek2(Config& config) {
  const Sizes sizes = latent_sizes(config, {32000, 4096, 11008, 32, 32, 0, 64, 2048, 1e-6, false});
  Mixture mixture = read_mixture(config, {.experts = 64, .used = 1, .inner = 1407, .shared = 2});
  config.expect("norm_topk_prob", {false}, false);
  const std::string method = config.string("topk_method", "greedy");
  if (method == "greedy")
    mixture.groups = mixture.groups_used = 1;
  else if (method != "group_limited_greedy")
    config.refuse("topk_method", "greedy or group_limited_greedy");
  return latent_family(config, sizes, read_latent(config, {1536, 512, 128, 64, 128}), mixture);
}

Description describe_deepseek3(Config& config) {
  const Sizes sizes = latent_sizes(config, {129280, 7168, 18432, 61, 128, 128, 64, 4096, 1e-6, false});
  config.expect("topk_method", {"noaux_tc"}, "noaux_tc");
  const Mixture mixture = read_mixture(config, {.experts = 256,
                                                .used = 8,
                                                .inner = 2048,
                                                .dense = 3,
                                                .shared = 1,
                                                .sigmoid = true,
                                                .normalised = true,
                                                .scale = 2.5,
                                                .groups = 8,
                                                .groups_used = 4});
  return latent_family(config, sizes, read_latent(config, {1536, 512, 128, 64, 128}), mixture);
}

Description describe_glm4moelite(Config& config) {
  const Sizes sizes = latent_sizes(config, {154880, 2048, 10240, 47, 20, 20, 64, 202752, 1e-5, false});
  config.expect("topk_method", {"noaux_tc"}, "noaux_tc");
  Mixture mixture = read_mixture(config, {.experts = 64,
                                          .used = 4,
                                          .inner = 1536,
                                          .dense = 1,
                                          .shared = 1,
                                          .sigmoid = true,
                                          .normalised = true,
                                          .scale = 1.8});
  const std::vector<std::string> types = config.strings("mlp_layer_types");
  if (!types.empty()) {
    if (types.size() != sizes.layers) config.refuse("mlp_layer_types", fmt::format("{} entries", sizes.layers));
    mixture.dense = static_cast<uint64_t>(std::find(types.begin(), types.end(), "sparse") - types.begin());
    for (size_t i = 0; i < types.size(); ++i)
      if (types[i] != (i < mixture.dense ? "dense" : "sparse"))
        config.refuse("mlp_layer_types", "\"dense\" in the first layers and \"sparse\" in all others");
  }
  return latent_family(config, sizes, read_latent(config, {768, 512, 192, 64, 256}), mixture);
}

}  // namespace heddle::formats::hf
