// Phi-2: attention and feed-forward side by side. Phi-3 and 4: q, k, v in one matrix, gate and up in another.
#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
Description describe_phi2(Config& config) {
  const Sizes sizes = read_sizes(config, {51200, 2048, 8192, 24, 32, 0, 0, 2048, 1e-5, false});
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"}, "gelu_new");
  config.expect("qk_layernorm", {false}, false);

  Description to("phi2");
  put_sizes(to, sizes);
  to.set("attention.layer_norm_epsilon", config.number("layer_norm_eps", 1e-5));
  const Rope rope = read_rope(config, sizes,
                              {.theta = 10000,
                               .partial = 0.5,
                               .may_be_partial = true,
                               .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}});
  const uint64_t dimensions = rotated_dimensions(config, rope, sizes);
  to.set("rope.dimension_count", dimensions);
  put_rope(to, rope, dimensions);

  to.add("token_embd.weight", "model.embed_tokens.weight", {sizes.hidden, sizes.vocabulary});
  to.add("output_norm.weight", "model.final_layernorm.weight", {sizes.hidden});
  to.add("output_norm.bias", "model.final_layernorm.bias", {sizes.hidden});
  to.add("output.weight", sizes.tied ? "model.embed_tokens.weight" : "lm_head.weight",
         {sizes.hidden, sizes.vocabulary});
  to.add("output.bias", "lm_head.bias", {sizes.vocabulary});
  if (sizes.tied) to.unneeded.push_back("lm_head.weight");
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    const auto both = [&](const char* name, const char* source, Shape shape) {
      layer.bias(name, source, shape.back());
      layer.weight(name, source, std::move(shape));
    };
    both("attn_norm", "input_layernorm", {sizes.hidden});
    both("attn_q", "self_attn.q_proj", {sizes.hidden, sizes.hidden});
    both("attn_k", "self_attn.k_proj", {sizes.hidden, sizes.kv_heads * sizes.head_dim});
    both("attn_v", "self_attn.v_proj", {sizes.hidden, sizes.kv_heads * sizes.head_dim});
    both("attn_output", "self_attn.dense", {sizes.hidden, sizes.hidden});
    both("ffn_up", "mlp.fc1", {sizes.hidden, sizes.inner});
    both("ffn_down", "mlp.fc2", {sizes.inner, sizes.hidden});
  }
  return to;
}

Description describe_phi3(Config& config) {
  Sizes sizes = read_sizes(config, {32064, 3072, 8192, 32, 32, 0, 0, 4096, 1e-5, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
  if (sizes.head_dim * sizes.heads != sizes.hidden) config.refuse("head_dim", "hidden_size / num_attention_heads");
  config.expect("hidden_act", {"silu"}, "silu");
  // Phi-4-mini's; no layer has biases, whatever attention_bias says.
  config.ignore({"attention_bias", "full_attn_mod", "interpolate_factor", "lm_head_bias", "mlp_bias"});

  Description to("phi3");
  put_sizes(to, sizes);
  put_rms_epsilon(to, sizes);
  to.set("rope.scaling.original_context_length", config.integer("original_max_position_embeddings", 4096));
  Rope rope =
      read_rope(config, sizes,
                {.theta = 10000, .partial = 1, .may_be_partial = true, .types = {RopeType::usual, RopeType::longrope}});
  const uint64_t dimensions = rotated_dimensions(config, rope, sizes);
  to.set("rope.dimension_count", dimensions);
  put_rope(to, rope, dimensions);
  // 0: no window
  to.set("attention.sliding_window", config.find("sliding_window") ? config.integer("sliding_window", 1) : uint64_t{0});

  add_ends(to, sizes);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    layer.weight("attn_qkv", "self_attn.qkv_proj", {sizes.hidden, (sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim});
    layer.weight("attn_output", "self_attn.o_proj", {sizes.hidden, sizes.hidden});
    layer.weight("ffn_norm", "post_attention_layernorm", {sizes.hidden});
    layer.weight("ffn_up", "mlp.gate_up_proj", {sizes.hidden, 2 * sizes.inner});
    layer.weight("ffn_down", "mlp.down_proj", {sizes.inner, sizes.hidden});
  }
  return to;
}

}  // namespace heddle::formats::hf
