// Mamba-2 by itself, and what other classes take of it. The gated norm is over each group, as the models were trained.
#include "formats/hf/mamba.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "formats/hf/classes.h"

namespace heddle::formats::hf {
namespace {

// Python's infinity, as transformers 5 writes it, and formats/hf/config.h reads the older spelling.
bool is_infinity(const Json& value) {
  return value.is_object() && value.size() == 1 && value.contains("__float__") && value["__float__"] == "Infinity";
}

}  // namespace

void check_mamba(const Config& config, const Mamba& mamba) {
  constexpr uint64_t max_heads = 4096, max_size = 1 << 16, max_inner = 1 << 24;
  const auto expect = [&](bool right, std::string_view what, uint64_t found) {
    if (!right) throw Error("{}: expected {} in its Mamba layers, found {}", config.where(), what, found);
  };
  expect(mamba.heads <= max_heads, "at most 4096 heads", mamba.heads);
  expect(mamba.head <= max_size, "heads of at most 65536 values", mamba.head);
  expect(mamba.state <= max_size, "states of at most 65536 values", mamba.state);
  expect(mamba.groups <= mamba.heads && mamba.heads % mamba.groups == 0, "groups that divide the heads", mamba.groups);
  expect(mamba.mixed() <= max_inner, "at most 2^24 channels", mamba.mixed());
}

void read_step_limits(Config& config, Mamba& to) {
  const Json* limits = config.find("time_step_limit");
  if (!limits) return;
  const auto number = [](const Json& value) { return value.is_number() && value.get<double>() >= 0; };
  if (!limits->is_array() || limits->size() != 2 || !number((*limits)[0]) ||
      !(number((*limits)[1]) || is_infinity((*limits)[1])))
    config.refuse("time_step_limit", "two numbers from 0 on, of which the second may be infinite");
  to.min_step = (*limits)[0].get<double>();
  if (number((*limits)[1])) to.max_step = (*limits)[1].get<double>();
  if (to.min_step > to.max_step) config.refuse("time_step_limit", "the smaller number first");
}

Mamba read_mamba(Config& config, uint64_t inner) {
  Mamba mamba{.heads = config.integer("mamba_n_heads", 128),
              .state = config.integer("mamba_d_state", 256),
              .groups = config.integer("mamba_n_groups", 1),
              .width = config.integer("mamba_d_conv", 4),
              .bias = config.boolean("mamba_conv_bias", true)};
  const Json* head = config.find("mamba_d_head");
  if (inner % mamba.heads) config.refuse("mamba_n_heads", fmt::format("a divisor of {}", inner));
  mamba.head = head && *head != "auto" ? config.integer("mamba_d_head", 0) : inner / mamba.heads;
  if (mamba.inner() != inner) config.refuse("mamba_d_head", fmt::format("{} / mamba_n_heads", inner));
  read_step_limits(config, mamba);
  config.expect("mamba_proj_bias", {false}, false);
  config.ignore({"mamba_chunk_size", "time_step_min", "time_step_max", "time_step_floor"});
  check_mamba(config, mamba);
  return mamba;
}

void put_mamba(Description& to, const Mamba& mamba) {
  to.set("ssm.conv_kernel", mamba.width);
  to.set("ssm.inner_size", mamba.inner());
  to.set("ssm.state_size", mamba.state);
  to.set("ssm.time_step_rank", mamba.heads);
  to.set("ssm.group_count", mamba.groups);
  // heddle's own keys
  if (mamba.min_step != 0) to.set("ssm.time_step_min", mamba.min_step);
  if (std::isfinite(mamba.max_step)) to.set("ssm.time_step_max", mamba.max_step);
}

void add_mamba(Layer& layer, const Sizes& sizes, const Mamba& mamba, std::string_view folder,
               std::vector<Change::Scale> in_scales, std::vector<Change::Scale> out_scales) {
  const auto of = [&](std::string_view name) { return fmt::format("{}.{}", folder, name); };
  const auto plain = [&](std::string_view name, std::string_view source, Shape shape, Change change = {}) {
    layer.to.add(fmt::format("{}{}", layer.gguf, name), fmt::format("{}{}.{}", layer.file, folder, source),
                 std::move(shape), change);
  };
  layer.weight("ssm_in", of("in_proj"), {sizes.hidden, mamba.inner() + mamba.mixed() + mamba.heads},
               {.scales = std::move(in_scales)});
  layer.weight("ssm_conv1d", of("conv1d"), {mamba.width, mamba.mixed()});
  if (mamba.bias) layer.bias("ssm_conv1d", of("conv1d"), mamba.mixed());
  plain("ssm_dt.bias", "dt_bias", {mamba.heads});
  plain("ssm_a", "A_log", {1, mamba.heads}, {.kind = Change::Kind::decay});
  plain("ssm_d", "D", {1, mamba.heads});
  if (mamba.norm)
    layer.weight("ssm_norm", of("norm"), {mamba.inner() / mamba.groups, mamba.groups}, {.kind = Change::Kind::flat});
  layer.weight("ssm_out", of("out_proj"), {mamba.inner(), sizes.hidden}, {.scales = std::move(out_scales)});
}

Description describe_mamba2(Config& config) {
  Sizes sizes{.vocabulary = config.integer("vocab_size", 32768),
              .hidden = config.integer("hidden_size", 4096),
              .inner = 0,
              .layers = config.integer("num_hidden_layers", 64),
              .heads = 0,
              .kv_heads = 0,
              .head_dim = 0,
              .context = 1 << 20,  // it has none; as llama.cpp's files have it
              .epsilon = config.number("layer_norm_epsilon", 1e-5),
              .tied = config.boolean("tie_word_embeddings", false)};
  constexpr uint64_t max_layers = 4096;
  if (sizes.layers > max_layers) config.refuse("num_hidden_layers", fmt::format("at most {}", max_layers));
  Mamba mamba{.heads = config.integer("num_heads", 128),
              .head = config.integer("head_dim", 64),
              .state = config.integer("state_size", 128),
              .groups = config.integer("n_groups", 8),
              .width = config.integer("conv_kernel", 4),
              .bias = config.boolean("use_conv_bias", true)};
  if (mamba.inner() != config.integer("expand", 2) * sizes.hidden)
    config.refuse("num_heads", "expand * hidden_size / head_dim");
  read_step_limits(config, mamba);
  check_mamba(config, mamba);
  config.expect("hidden_act", {"silu"}, "silu");
  config.expect("use_bias", {false}, false);
  config.expect("rms_norm", {true}, true);
  config.ignore({"chunk_size", "residual_in_fp32", "rescale_prenorm_residual", "time_step_rank", "time_step_min",
                 "time_step_max", "time_step_floor", "pad_vocab_size_multiple", "norm_before_gate"});

  Description to("mamba2");
  put_sizes(to, sizes);
  put_rms_epsilon(to, sizes);
  put_mamba(to, mamba);
  to.prefixes = {{"model.backbone.", "backbone."}, {"model.lm_head.", "lm_head."}};
  to.add("token_embd.weight", "backbone.embeddings.weight", {sizes.hidden, sizes.vocabulary});
  to.add("output_norm.weight", "backbone.norm_f.weight", {sizes.hidden});
  add_output(to, sizes, "backbone.embeddings.weight");
  for (uint64_t i = 0; i < sizes.layers; ++i) {
    Layer layer(to, "backbone.layers", i);
    layer.weight("attn_norm", "norm", {sizes.hidden});
    add_mamba(layer, sizes, mamba, "mixer");
  }
  return to;
}

}  // namespace heddle::formats::hf
