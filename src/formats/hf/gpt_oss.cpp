// gpt-oss: a learned logit per head that takes part in the softmax (sinks), a window in every second layer, and experts
// with biases, whose gate and up alternate row by row. In files with 16 bits the experts are transposed; those with
// MXFP4 are not, which the shape shows.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

void add_oss_experts(Layer& layer, const Sizes& sizes, uint64_t experts) {
  constexpr auto lies = Change::Lies::rather_in_columns;
  const struct {
    const char *name, *source;
    uint64_t in, out;
    Change::Kind kind;
  } matrices[] = {{"ffn_gate_exps", "gate_up_proj", sizes.hidden, sizes.inner, Change::Kind::even},
                  {"ffn_up_exps", "gate_up_proj", sizes.hidden, sizes.inner, Change::Kind::odd},
                  {"ffn_down_exps", "down_proj", sizes.inner, sizes.hidden, Change::Kind::none}};
  for (const auto& one : matrices) {
    const std::string source = fmt::format("{}mlp.experts.{}", layer.file, one.source);
    layer.to.add(fmt::format("{}{}.weight", layer.gguf, one.name), source, {one.in, one.out, experts},
                 {.kind = one.kind, .lies = lies});
    layer.to.add(fmt::format("{}{}.bias", layer.gguf, one.name), source + "_bias", {one.out, experts},
                 {.kind = one.kind});
  }
}

}  // namespace

Description describe_gpt_oss(Config& config) {
  Sizes sizes = read_sizes(config, {201088, 2880, 2880, 36, 64, 8, 64, 131072, 1e-5, false});
  sizes.epsilon = config.number("rms_norm_eps", 1e-5);
  const uint64_t experts = config.integer("num_local_experts", config.integer("num_experts", 128));
  const uint64_t used = config.integer("num_experts_per_tok", config.integer("experts_per_token", 4));
  config.expect("experts_per_token", {used}, used);  // another name of it
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("attention_bias", {true}, true);
  config.expect("swiglu_limit", {7.0}, 7.0);
  config.ignore({"initial_context_length"});

  Description to("gpt-oss");
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  // Every second layer: GGUF says it by the architecture.
  put_windows(to, config.integer("sliding_window", 128), read_window_layers(config, sizes, all_but_each(2, sizes)), 2,
              true);
  const Rope rope =
      read_rope(config, sizes,
                {.theta = 150000, .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}});
  put_rope(to, rope, sizes.head_dim);
  if (rope.type == RopeType::yarn) to.set("rope.scaling.yarn_truncate", Value(rope.truncate));
  to.set("expert_count", experts);
  to.set("expert_used_count", used);
  to.set("expert_feed_forward_length", sizes.inner);

  add_ends(to, sizes, {}, true);
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "model.layers", i);
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden});
    add_attention(layer, sizes, {false, true, true});
    to.add(layer.gguf + "attn_sinks.weight", layer.file + "self_attn.sinks", {sizes.heads});
    layer.weight("post_attention_norm", "post_attention_layernorm", {sizes.hidden});
    layer.weight("ffn_gate_inp", "mlp.router", {sizes.hidden, experts});
    layer.bias("ffn_gate_inp", "mlp.router", experts);
    add_oss_experts(layer, sizes, experts);
  }
  return to;
}

}  // namespace heddle::formats::hf
