// Nemotron-H and Nemotron 3: each layer is one of Mamba-2, attention without rotation, a feed-forward, or a mixture.
// The activation is squared ReLU, without a gate.
#include <fmt/format.h>

#include <algorithm>

#include "formats/hf/classes.h"
#include "formats/hf/mamba.h"
#include "formats/hf/mixture.h"

namespace heddle::formats::hf {
namespace {

// layers_block_type, or the older hybrid_override_pattern.
std::vector<std::string> read_blocks(Config& config) {
  std::vector<std::string> blocks = config.strings("layers_block_type");
  const std::string pattern = config.string("hybrid_override_pattern", "");
  constexpr std::pair<char, std::string_view> letters[] = {
      {'M', "mamba"}, {'*', "attention"}, {'-', "mlp"}, {'E', "moe"}};
  if (blocks.empty())
    for (const char c : pattern) {
      const auto* found =
          std::find_if(std::begin(letters), std::end(letters), [c](auto one) { return one.first == c; });
      if (found == std::end(letters)) config.refuse("hybrid_override_pattern", "a text of M, *, - and E");
      blocks.emplace_back(found->second);
    }
  constexpr size_t max_layers = 4096;
  if (blocks.empty() || blocks.size() > max_layers)
    config.refuse("layers_block_type", "a list of up to 4096 of mamba, attention, mlp and moe");
  for (const std::string& block : blocks)
    if (block != "mamba" && block != "attention" && block != "mlp" && block != "moe")
      config.refuse("layers_block_type", "a list of mamba, attention, mlp and moe");
  return blocks;
}

// Some files have another name.
uint64_t either(Config& config, std::string_view key, std::string_view other, uint64_t fallback) {
  return config.integer(key, config.integer(other, fallback));
}

Mamba read_nemotron_mamba(Config& config) {
  Mamba mamba{.heads = config.integer("mamba_num_heads", 128),
              .head = config.integer("mamba_head_dim", 64),
              .state = config.integer("ssm_state_size", 128),
              .groups = either(config, "n_groups", "mamba_n_groups", 8),
              .width = either(config, "conv_kernel", "mamba_d_conv", 4),
              .bias = config.boolean("use_conv_bias", config.boolean("mamba_conv_bias", true))};
  read_step_limits(config, mamba);
  check_mamba(config, mamba);
  config.expect("mamba_hidden_act", {"silu"}, "silu");
  config.expect("mamba_proj_bias", {false}, false);
  return mamba;
}

void add_nemotron_mixture(Layer& layer, const Sizes& sizes, const Mixture& mixture, uint64_t latent) {
  const uint64_t outer = latent ? latent : sizes.hidden;
  layer.weight("ffn_gate_inp", "mixer.gate", {sizes.hidden, mixture.experts});
  layer.to.add(layer.gguf + "exp_probs_b.bias", layer.file + "mixer.gate.e_score_correction_bias", {mixture.experts});
  const auto experts = [&](const char* name, const char* source, Shape shape) {
    Wanted wanted;
    wanted.name = fmt::format("{}{}.weight", layer.gguf, name);
    wanted.shape = std::move(shape);
    for (uint64_t e = 0; e < mixture.experts; ++e)
      wanted.sources.push_back(fmt::format("{}mixer.experts.{}.{}.weight", layer.file, e, source));
    wanted.fused = fmt::format("{}mixer.experts.{}", layer.file, source);
    layer.to.tensors.push_back(std::move(wanted));
  };
  experts("ffn_up_exps", "up_proj", {outer, mixture.inner, mixture.experts});
  experts("ffn_down_exps", "down_proj", {mixture.inner, outer, mixture.experts});
  if (latent) {
    layer.weight("ffn_latent_down", "mixer.fc1_latent_proj", {sizes.hidden, latent});
    layer.weight("ffn_latent_up", "mixer.fc2_latent_proj", {latent, sizes.hidden});
  }
  layer.weight("ffn_up_shexp", "mixer.shared_experts.up_proj", {sizes.hidden, mixture.shared_inner});
  layer.weight("ffn_down_shexp", "mixer.shared_experts.down_proj", {mixture.shared_inner, sizes.hidden});
}

}  // namespace

Description describe_nemotron_h(Config& config) {
  const std::vector<std::string> blocks = read_blocks(config);
  Sizes sizes = read_sizes(config, {131072, 4096, 21504, blocks.size(), 32, 8, 128, 4096, 1e-5, false});
  sizes.layers = blocks.size();
  if (const uint64_t other = config.integer("attention_head_dim", sizes.head_dim); !config.find("head_dim"))
    sizes.head_dim = other;
  sizes.epsilon = config.number("layer_norm_epsilon", config.number("norm_eps", config.number("rms_norm_eps", 1e-5)));
  config.ignore({"norm_eps", "rms_norm_eps"});
  config.expect("mlp_hidden_act", {"relu2"}, "relu2");
  for (const char* key : {"attention_bias", "mlp_bias", "use_bias"}) config.expect(key, {false}, false);
  config.ignore({"sliding_window",  // no code reads it
                 "num_logits_to_keep",
                 "use_mamba_kernels",
                 "chunk_size",
                 "mamba_chunk_size",
                 "expand",
                 "mamba_expand",
                 "time_step_min",
                 "time_step_max",
                 "time_step_floor",
                 "mamba_ssm_cache_dtype",
                 "moe_shared_expert_overlap",
                 "mtp_layers_block_type",
                 "mtp_hybrid_override_pattern",
                 "num_nextn_predict_layers",
                 "residual_in_fp32",
                 "rescale_prenorm_residual",
                 "rope_theta",
                 "partial_rotary_factor",
                 "num_query_groups",
                 "is_mamba_block"});
  const Mamba mamba = read_nemotron_mamba(config);
  const bool experts = std::find(blocks.begin(), blocks.end(), "moe") != blocks.end();
  Mixture mixture =
      read_mixture(config, {.experts = 8, .used = 2, .inner = 7688, .shared = 1, .sigmoid = true, .normalised = true});
  mixture.shared_inner = config.integer("moe_shared_expert_intermediate_size", 7688);
  const uint64_t latent = config.find("moe_latent_size") ? config.integer("moe_latent_size", 0) : 0;

  Description to(experts ? "nemotron_h_moe" : "nemotron_h");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  put_epsilon(to, sizes.epsilon);  // llama.cpp wants it
  put_mamba(to, mamba);
  std::vector<int32_t> kv_heads, inner;
  for (const std::string& block : blocks) {
    kv_heads.push_back(block == "attention" ? int32_t(sizes.kv_heads) : 0);
    inner.push_back(block == "mlp" ? int32_t(sizes.inner) : block == "moe" ? int32_t(mixture.inner) : 0);
  }
  to.set("attention.head_count_kv", Value(Array::of(kv_heads)));
  to.set("feed_forward_length", Value(Array::of(inner)));
  if (experts) {
    put_mixture(to, mixture);
    to.set("expert_shared_feed_forward_length", mixture.shared_inner);
    if (latent) to.set("moe_latent_size", latent);
  }
  to.unneeded.push_back("mtp.");  // layers that guess further tokens
  to.prefixes = {{"backbone.embedding.weight", "model.embeddings.weight"}, {"backbone.", "model."}};

  to.add("token_embd.weight", "model.embeddings.weight", {sizes.hidden, sizes.vocabulary});
  to.add("output_norm.weight", "model.norm_f.weight", {sizes.hidden});
  add_output(to, sizes, "model.embeddings.weight");
  for (uint64_t i = 0; i < blocks.size(); ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "norm", {sizes.hidden});
    if (blocks[i] == "mamba") add_mamba(layer, sizes, mamba, "mixer");
    if (blocks[i] == "mlp") add_plain(layer, sizes, "mixer.up_proj", "mixer.down_proj", false);
    if (blocks[i] == "moe") add_nemotron_mixture(layer, sizes, mixture, latent);
    if (blocks[i] != "attention") continue;
    const uint64_t q = sizes.heads * sizes.head_dim, k = sizes.kv_heads * sizes.head_dim;
    layer.weight("attn_q", "mixer.q_proj", {sizes.hidden, q});
    layer.weight("attn_k", "mixer.k_proj", {sizes.hidden, k});
    layer.weight("attn_v", "mixer.v_proj", {sizes.hidden, k});
    layer.weight("attn_output", "mixer.o_proj", {q, sizes.hidden});
  }
  return to;
}

}  // namespace heddle::formats::hf
