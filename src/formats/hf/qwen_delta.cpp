// Qwen3-Next, 3.5 and 3.6: gated delta nets in most layers, and attention with a gate on its output. Norms are stored
// as weight - 1, but for that of the delta net. GGUF has the heads of the delta net in the order of the file for
// Qwen3-Next; for the others, a round of all keys after the other.
#include <fmt/format.h>

#include <algorithm>

#include "formats/hf/classes.h"
#include "formats/hf/qwen.h"
#include "formats/hf/rope.h"

namespace heddle::formats::hf {
namespace {

const Change plus_one{Change::Kind::plus_one, 0};

struct DeltaNet {
  uint64_t key_heads, heads, key, value, width;

  uint64_t share() const { return heads / key_heads; }
  uint64_t keys() const { return key_heads * key; }
  uint64_t values() const { return heads * value; }
  uint64_t mixed() const { return 2 * keys() + values(); }
};

DeltaNet read_delta_net(Config& config) {
  DeltaNet net{.key_heads = config.integer("linear_num_key_heads", 16),
               .heads = config.integer("linear_num_value_heads", 32),
               .key = config.integer("linear_key_head_dim", 128),
               .value = config.integer("linear_value_head_dim", 128),
               .width = config.integer("linear_conv_kernel_dim", 4)};
  constexpr uint64_t max_heads = 4096, max_head = 1 << 16;
  if (net.heads > max_heads) config.refuse("linear_num_value_heads", fmt::format("at most {}", max_heads));
  if (net.heads % net.key_heads)
    config.refuse("linear_num_key_heads", fmt::format("a divisor of the {} heads of values", net.heads));
  if (net.key > max_head) config.refuse("linear_key_head_dim", fmt::format("at most {}", max_head));
  if (net.value > max_head) config.refuse("linear_value_head_dim", fmt::format("at most {}", max_head));
  return net;
}

void put_delta_net(Description& to, const DeltaNet& net) {
  to.set("ssm.conv_kernel", net.width);
  to.set("ssm.state_size", net.key);
  to.set("ssm.group_count", net.key_heads);
  to.set("ssm.time_step_rank", net.heads);
  to.set("ssm.inner_size", net.values());
}

// The first `before` rows, then the rows of all heads: the first head of each key, the second, and so on.
Change tiled(const DeltaNet& net, uint64_t size, uint64_t before, Change::Kind kind) {
  Change change{.kind = kind, .all = before + net.heads * size};
  if (before) change.runs.push_back({0, before});
  for (uint64_t j = 0; j < net.share(); ++j)
    for (uint64_t k = 0; k < net.key_heads; ++k) change.runs.push_back({before + (k * net.share() + j) * size, size});
  return change;
}
// Of the rows of each key, a part.
void append_part(Change& to, const DeltaNet& net, uint64_t first, uint64_t size) {
  const uint64_t group = 2 * (net.key + net.share() * net.value);
  to.all = group * net.key_heads;
  for (uint64_t k = 0; k < net.key_heads; ++k) to.runs.push_back({k * group + first, size});
}

void add_delta_net(Layer& layer, const Sizes& sizes, const DeltaNet& net, bool joined) {
  using Kind = Change::Kind;
  const std::string from = "linear_attn.";
  const auto heads_of = [&](uint64_t size, uint64_t before = 0, Kind kind = Kind::gather) {
    return joined ? Change{.kind = kind == Kind::decay ? kind : Kind::none} : tiled(net, size, before, kind);
  };
  if (joined) {
    Change mixed{.kind = Kind::gather}, gate{.kind = Kind::gather};
    append_part(mixed, net, 0, net.key);
    append_part(mixed, net, net.key, net.key);
    append_part(mixed, net, 2 * net.key, net.share() * net.value);
    append_part(gate, net, 2 * net.key + net.share() * net.value, net.share() * net.value);
    layer.weight("attn_qkv", from + "in_proj_qkvz", {sizes.hidden, net.mixed()}, mixed);
    layer.weight("attn_gate", from + "in_proj_qkvz", {sizes.hidden, net.values()}, gate);
    layer.weight("ssm_ba", from + "in_proj_ba", {sizes.hidden, 2 * net.heads});
  } else {
    layer.weight("attn_qkv", from + "in_proj_qkv", {sizes.hidden, net.mixed()}, heads_of(net.value, 2 * net.keys()));
    layer.weight("attn_gate", from + "in_proj_z", {sizes.hidden, net.values()}, heads_of(net.value));
    layer.weight("ssm_beta", from + "in_proj_b", {sizes.hidden, net.heads}, heads_of(1));
    layer.weight("ssm_alpha", from + "in_proj_a", {sizes.hidden, net.heads}, heads_of(1));
  }
  layer.weight("ssm_conv1d", from + "conv1d", {net.width, net.mixed()}, heads_of(net.value, 2 * net.keys()));
  layer.to.add(layer.gguf + "ssm_dt.bias", layer.file + from + "dt_bias", {net.heads}, heads_of(1));
  layer.to.add(layer.gguf + "ssm_a", layer.file + from + "A_log", {net.heads}, heads_of(1, 0, Kind::decay));
  layer.weight("ssm_norm", from + "norm", {net.value});
  layer.weight("ssm_out", from + "out_proj", {net.values(), sizes.hidden},
               heads_of(net.value, 0, Kind::gather_columns));
}

// attn_q has the rows of each head and then those of its gate, in both.
void add_gated_attention(Layer& layer, const Sizes& sizes) {
  const uint64_t q = sizes.heads * sizes.head_dim, k = sizes.kv_heads * sizes.head_dim;
  layer.weight("attn_q", "self_attn.q_proj", {sizes.hidden, 2 * q});
  layer.weight("attn_k", "self_attn.k_proj", {sizes.hidden, k});
  layer.weight("attn_v", "self_attn.v_proj", {sizes.hidden, k});
  layer.weight("attn_output", "self_attn.o_proj", {q, sizes.hidden});
  layer.weight("attn_q_norm", "self_attn.q_norm", {sizes.head_dim}, plus_one);
  layer.weight("attn_k_norm", "self_attn.k_norm", {sizes.head_dim}, plus_one);
}

// Which layers have attention.
std::vector<bool> read_full_layers(Config& config, const Sizes& sizes) {
  const uint64_t interval = config.integer("full_attention_interval", 4);
  std::vector<bool> full;
  const auto types = read_layer_types(config, "layer_types", sizes.layers, {"linear_attention", "full_attention"});
  for (uint64_t i = 0; i < sizes.layers; ++i)
    full.push_back(types.empty() ? (i + 1) % interval == 0 : types[i] == "full_attention");
  return full;
}

Description describe_delta(Config& config, std::string_view architecture, const Sizes& defaults,
                           const QwenMixture& usual, uint64_t used) {
  const bool joined = architecture == "qwen3next";
  Sizes sizes = read_sizes(config, defaults);
  sizes.epsilon = config.number("rms_norm_eps", defaults.epsilon);
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("attention_bias", {false}, false);
  config.expect("attn_output_gate", {true}, true);
  config.ignore({"mamba_ssm_dtype"});
  const uint64_t predicting = config.count("mtp_num_hidden_layers", 1);  // Qwen3-Next does not say that it is 1
  const bool own_embeddings = config.boolean("mtp_use_dedicated_embeddings", false);
  const DeltaNet net = read_delta_net(config);
  const std::vector<bool> full = read_full_layers(config, sizes);
  const RopeDefaults rope_defaults{.theta = 10000,
                                   .partial = 0.25,
                                   .may_be_partial = true,
                                   .types = {RopeType::usual, RopeType::linear, RopeType::dynamic, RopeType::yarn}};
  const Rope rope = read_rope(config, sizes, rope_defaults);
  const uint64_t dimensions = rotated_dimensions(config, rope, sizes);

  Description to(architecture);
  put_sizes(to, sizes);
  put_head_length(to, sizes.head_dim);
  put_rms_epsilon(to, sizes);
  to.set("rope.dimension_count", dimensions);
  put_rope(to, rope, dimensions);
  put_delta_net(to, net);
  const auto first_full = uint64_t(std::find(full.begin(), full.end(), true) - full.begin());
  to.set("full_attention_interval", first_full + 1);
  to.set("attention.recurrent_layers", Value(Array::of([&] {
           std::vector<bool> recurrent = full;
           recurrent.flip();
           return recurrent;
         }())));
  QwenMixture mixture;
  if (usual.experts) {
    mixture = read_qwen_mixture(config, sizes, usual);
    mixture.shared_inner = config.integer("shared_expert_intermediate_size", usual.shared_inner);
    put_qwen_mixture(to, mixture, config.integer("num_experts_per_tok", used), config.boolean("norm_topk_prob", true),
                     true);
  }
  to.unneeded.push_back("mtp.");  // layers that predict further tokens, where they are not taken

  const auto add_layer = [&](Layer layer, bool attends, bool sparse) {
    layer.weight("attn_norm", "input_layernorm", {sizes.hidden}, plus_one);
    if (attends)
      add_gated_attention(layer, sizes);
    else
      add_delta_net(layer, sizes, net, joined);
    layer.weight("post_attention_norm", "post_attention_layernorm", {sizes.hidden}, plus_one);
    if (sparse)
      add_qwen_mixture(layer, sizes, mixture);
    else
      add_gated(layer, sizes);
  };
  add_ends(to, sizes, plus_one);
  for (uint64_t i = 0; i < sizes.layers; ++i)
    add_layer({to, "model.layers", i}, full[i], usual.experts && mixture.sparse[i]);
  if (predicting != 1 || own_embeddings) return to;
  Description head(architecture);
  Layer layer(head, "mtp.layers", 0);
  layer.gguf = fmt::format("blk.{}.", sizes.layers);
  head.add(layer.gguf + "nextn.eh_proj.weight", "mtp.fc.weight", {2 * sizes.hidden, sizes.hidden});
  head.add(layer.gguf + "nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight", {sizes.hidden}, plus_one);
  head.add(layer.gguf + "nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight", {sizes.hidden}, plus_one);
  head.add(layer.gguf + "nextn.shared_head_norm.weight", "mtp.norm.weight", {sizes.hidden}, plus_one);
  add_layer(layer, true, usual.experts != 0);
  to.next_head = std::move(head.tensors);
  return to;
}

Description describe_qwen35_text(Config& config) {
  return describe_delta(config, "qwen35", {248320, 4096, 12288, 32, 16, 4, 256, 32768, 1e-6, false}, {}, 0);
}
Description describe_qwen35moe_text(Config& config) {
  return describe_delta(config, "qwen35moe", {248320, 2048, 512, 40, 16, 2, 256, 32768, 1e-6, false},
                        {256, 512, 512, {}}, 8);
}
// llama.cpp wants them where config has none, too.
void put_usual_sections(Description& to) {
  if (!to.metadata.find(to.architecture + ".rope.dimension_sections"))
    to.set("rope.dimension_sections", Value(Array::of(std::vector<int32_t>{11, 11, 10, 0})));
}

}  // namespace

Description describe_qwen3next(Config& config) {
  return describe_delta(config, "qwen3next", {151936, 2048, 5632, 48, 16, 2, 256, 32768, 1e-6, false},
                        {512, 512, 512, {}}, 10);
}

Description describe_qwen35(Config& config) {
  Description to = describe_qwen35_text(config);
  put_position_sections(to, config, config.whole());
  put_usual_sections(to);
  return to;
}

Description describe_qwen35moe(Config& config) {
  Description to = describe_qwen35moe_text(config);
  put_position_sections(to, config, config.whole());
  put_usual_sections(to);
  return to;
}

Description describe_qwen35_with_images(Config& config) {
  Description to = qwen_text_part(config, describe_qwen35_text, "qwen35", Json::object());
  put_usual_sections(to);
  return to;
}

Description describe_qwen35moe_with_images(Config& config) {
  Description to = qwen_text_part(config, describe_qwen35moe_text, "qwen35moe", Json::object());
  put_usual_sections(to);
  return to;
}

}  // namespace heddle::formats::hf
