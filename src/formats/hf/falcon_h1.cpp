// Falcon-H1: attention beside Mamba-2 in every layer. Its multipliers (mu-P) are in the weights of a GGUF file.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/mamba.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

// All rows by one number.
Change times(const Sizes& sizes, double by) { return by == 1 ? Change{} : Change{.scales = {{sizes.hidden, by}}}; }

std::vector<double> read_multipliers(Config& config, std::string_view key, size_t count) {
  std::vector<double> all = config.numbers(key);
  if (all.empty()) all.assign(count, 1);
  if (all.size() != count) config.refuse(key, fmt::format("{} numbers", count));
  return all;
}

void put_falcon_h1_attention(Layer& layer, const Sizes& sizes, double in, double key, double out) {
  const uint64_t q = sizes.heads * sizes.head_dim, k = sizes.kv_heads * sizes.head_dim;
  layer.weight("attn_q", "self_attn.q_proj", {sizes.hidden, q}, times(sizes, in));
  layer.weight("attn_k", "self_attn.k_proj", {sizes.hidden, k}, times(sizes, in * key));
  layer.weight("attn_v", "self_attn.v_proj", {sizes.hidden, k}, times(sizes, in));
  layer.weight("attn_output", "self_attn.o_proj", {q, sizes.hidden}, times(sizes, out));
}

}  // namespace

Description describe_falcon_h1(Config& config) {
  Sizes sizes = read_sizes(config, {128000, 4096, 14336, 32, 32, 8, 0, 8192, 1e-5, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
  if (sizes.head_dim % 2) config.refuse("head_dim", "an even number");
  config.expect("hidden_act", {"silu"}, "silu");
  for (const char* key : {"attention_bias", "mlp_bias", "projectors_bias"}) config.expect(key, {false}, false);
  const uint64_t expanded = config.integer("mamba_expand", 2) * sizes.hidden;
  const bool given = config.find("mamba_d_ssm") != nullptr;
  Mamba mamba = read_mamba(config, given                           ? config.integer("mamba_d_ssm", 0)
                                   : config.is_null("mamba_d_ssm") ? expanded
                                                                   : 1024);
  mamba.norm = config.boolean("mamba_rms_norm", false);
  const bool before_gate = config.boolean("mamba_norm_before_gate", true);
  config.ignore({"num_logits_to_keep", "mamba_use_mlp"});
  const double embedding = config.number("embedding_multiplier", 1), head = config.number("lm_head_multiplier", 1);
  const double in = config.number("attention_in_multiplier", 1), out = config.number("attention_out_multiplier", 1);
  const double key = config.number("key_multiplier", 1);
  const double ssm_in = config.number("ssm_in_multiplier", 1), ssm_out = config.number("ssm_out_multiplier", 1);
  const std::vector<double> mlp = read_multipliers(config, "mlp_multipliers", 2);
  const std::vector<double> ssm = read_multipliers(config, "ssm_multipliers", 5);

  Description to("falcon-h1");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  to.set("rope.dimension_count", sizes.head_dim);
  put_rope(to, read_rope(config, sizes, {}), sizes.head_dim);
  put_mamba(to, mamba);
  if (mamba.norm && before_gate) to.set("ssm.norm_before_gate", Value(true));  // heddle's own key

  const std::string embed = "model.embed_tokens.weight";
  const Shape table{sizes.hidden, sizes.vocabulary};
  to.add("token_embd.weight", embed, table, times(sizes, embedding));
  to.add("output_norm.weight", "model.final_layernorm.weight", {sizes.hidden});
  // The two are multiplied by numbers of their own, and so are two matrices even where the file has one.
  to.add("output.weight", sizes.tied ? embed : "lm_head.weight", table, times(sizes, head));
  if (sizes.tied) to.unneeded.push_back("lm_head.weight");
  const uint64_t states = mamba.groups * mamba.state;
  const std::vector<Change::Scale> in_scales{{mamba.inner(), ssm_in * ssm[0]},
                                             {mamba.inner(), ssm_in * ssm[1]},
                                             {states, ssm_in * ssm[2]},
                                             {states, ssm_in * ssm[3]},
                                             {mamba.heads, ssm_in * ssm[4]}};
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    put_falcon_h1_attention(layer, sizes, in, key, out);
    add_mamba(layer, sizes, mamba, "mamba", in_scales, times(sizes, ssm_out).scales);
    layer.to.add(layer.gguf + "ffn_norm", layer.file + "pre_ff_layernorm.weight", {sizes.hidden});  // without a suffix
    layer.weight("ffn_gate", "feed_forward.gate_proj", {sizes.hidden, sizes.inner}, times(sizes, mlp[0]));
    layer.weight("ffn_up", "feed_forward.up_proj", {sizes.hidden, sizes.inner});
    layer.weight("ffn_down", "feed_forward.down_proj", {sizes.inner, sizes.hidden}, times(sizes, mlp[1]));
  }
  return to;
}

}  // namespace heddle::formats::hf
