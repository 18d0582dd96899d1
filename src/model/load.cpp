// Reads what the architecture's line says, and nothing may be left over. Every size is bounded and compared with the
// tensors before anything is computed with it.
#include "model/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/loader.h"

namespace heddle::model {

void Loader::load() {
  model_.architecture = arch_.name;
  trained_ = read_.integer("context_length", {1, max_context});
  model_.context = options_.context ? options_.context : trained_;
  model_.width = read_.integer("embedding_length", {1, max_row});
  layers_ = read_.integer("block_count", {1, max_layers});
  const uint32_t all = layers_;
  skip_predicting_layers();
  // Layers without attention have no heads.
  const uint32_t fewest = arch_.states == States::none ? 1 : 0;
  heads_ = read_.per_layer("attention.head_count", all, {fewest, max_heads});
  kv_heads_ = read_.per_layer("attention.head_count_kv", all, {fewest, max_heads}, heads_[0]);
  inner_ = read_.per_layer("feed_forward_length", all, {0, max_row}, 0);
  head_ = read_.integer("attention.key_length", {1, max_head}, model_.width / std::max(1u, heads_[0]));
  value_head_ = read_.integer("attention.value_length", {1, max_head}, head_);
  if (arch_.window_heads) {
    window_head_ = read_.integer("attention.key_length_swa", {1, max_head}, head_);
    window_value_head_ = read_.integer("attention.value_length_swa", {1, max_head}, window_head_);
  }
  // Phi-3.5-MoE has layer norms, and in files the key of the others.
  const bool rms = arch_.norm == Norm::Kind::rms || arch_.name == "phimoe";
  if (arch_.block == Block::one) read_.ignore({"attention.layer_norm_epsilon"});  // of layers that guess
  epsilon_ = static_cast<float>(
      read_.number_from_0(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"));
  // "rope.dimension_sections" splits positions of pictures; those of text are the same in all sections.
  read_.ignore(
      {"vocab_size", "rope.scaling.finetuned", "tensor_data_layout", "rope.dimension_sections", "n_deepstack_layers"});
  causal_ = read_.boolean("attention.causal", !arch_.encoder);
  if (causal_ == arch_.encoder && arch_.name != "gemma-embedding")
    read_.refuse("attention.causal", causal_ ? "false: every token sees all others" : "true: no token sees later ones");
  clamp_qkv_ = static_cast<float>(read_.number_from_0("attention.clamp_kqv", 0));
  states_.read_options(read_, arch_);
  read_pooling();
  pooled_.read_options(read_, arch_);
  read_activation();
  read_windows();
  gemma_.read_options(read_, arch_, windows_);
  read_latent();
  read_ropes();
  read_experts();
  read_temperature();
  parallel_ =
      arch_.parallel == Has::always || (arch_.parallel == Has::maybe && read_.boolean("use_parallel_residual", true));
  // Converters write it into files of models that are not: the tensors tell.
  if (arch_.one_norm == Has::maybe) read_.ignore({"use_parallel_residual"});
  if (arch_.scales) read_scales();
  attention_scale_ = static_cast<float>(read_.number("attention.scale", double(arch_.score_scale)));
  if (arch_.scaled_embedding) model_.embedding_scale = std::sqrt(static_cast<float>(model_.width));
  if (arch_.softcaps) {
    attention_softcap_ = static_cast<float>(read_.number_from_0("attn_logit_softcapping", 0));
    model_.logit_softcap =
        static_cast<float>(read_.number_from_0("final_logit_softcapping", double(arch_.default_logit_softcap)));
  }
  if (arch_.alibi != 0) alibi_ = read_.number_from_0("attention.max_alibi_bias", arch_.alibi);
  read_.finish_options();
  read_ends();
  for (uint32_t i = 0; i < layers_; ++i) add_layers(i);
  if (predicts_) add_next_head();
  read_.finish_tensors();
}

void Loader::skip_predicting_layers() {
  const uint32_t predicting = read_.integer("nextn_predict_layers", {0, layers_ - 1}, 0);
  layers_ -= predicting;
  predicts_ = options_.next_head && predicting == 1 && arch_.next_head;
  if (predicts_) return;
  for (uint32_t i = 0; i < predicting; ++i) read_.ignore_tensors(fmt::format("blk.{}.", layers_ + i));
}

void Loader::read_ends() {
  // The rows of the embedding say how large the vocabulary is.
  model_.vocabulary = read_.rows("token_embd.weight");
  model_.embedding = read_.matrix("token_embd.weight", model_.vocabulary, model_.width);
  if (arch_.learned_positions) {
    if (model_.context > trained_)
      read_.refuse("context_length", fmt::format("at least {}, the context asked for", model_.context));
    model_.positions = read_.matrix("position_embd.weight", trained_, model_.width);
  }
  if (arch_.token_types && read_.has("token_types.weight")) {
    const uint32_t types = read_.rows("token_types.weight");
    model_.type_embeddings = decoded(read_.matrix("token_types.weight", types, model_.width));
  }
  if (arch_.embedding_norm) model_.embedding_norm = norm("token_embd_norm", model_.width);
  if (!arch_.residual_norms) model_.norm = norm(std::string(arch_.output_norm), model_.width);
  gemma_.read_ends(read_, model_, epsilon_);
  pooled_.read(read_, model_, [&](const std::string& name, uint64_t size) { return norm(name, size); });
  // A reranker made of a language model has the rows of its head that it needs in the classifier.
  const bool ranks = model_.pooling == Pooling::rank && model_.classifier;
  if (arch_.encoder || (ranks && !read_.has("output.weight"))) return;
  if (read_.has("output.weight") || arch_.own_output)
    model_.output = read_.matrix("output.weight", model_.vocabulary, model_.width);
  else
    model_.output = model_.embedding;
  model_.output_bias = read_.vector_if("output.bias", model_.vocabulary);
}

void Loader::read_pooling() {
  model_.pooling = Pooling(read_.integer("pooling_type", {0, uint32_t(Pooling::rank)}, uint32_t(Pooling::mean)));
}

void Loader::read_activation() {
  const std::string name = read_.string("hidden_activation", "");
  activation_ = arch_.activation;
  if (name == "silu")
    activation_ = Activation::silu;
  else if (name == "gelu")
    activation_ = Activation::gelu;
  else if (name == "gelu_pytorch_tanh")
    activation_ = Activation::gelu_tanh;
  else if (!name.empty())
    read_.refuse("hidden_activation", "silu, gelu or gelu_pytorch_tanh");
  if (activation_ != Activation::xielu) return;
  // The file has the parameters as they were trained.
  const auto positive = read_.numbers_per_layer("xielu.alpha_p", layers_),
             negative = read_.numbers_per_layer("xielu.alpha_n", layers_),
             beta = read_.numbers_per_layer("xielu.beta", layers_),
             epsilon = read_.numbers_per_layer("xielu.eps", layers_);
  const auto softplus = [](float x) { return x > 20 ? x : static_cast<float>(std::log1p(std::exp(double(x)))); };
  for (uint32_t i = 0; i < layers_; ++i)
    xielu_.push_back({softplus(positive[i]), beta[i] + softplus(negative[i]), beta[i], epsilon[i]});
}

void Loader::read_windows() {
  windows_.assign(layers_, 0);
  if (!arch_.window) return;
  const uint32_t window = read_.integer("attention.sliding_window", {0, max_context}, arch_.default_window);
  has_windows_ = window != 0;
  if (const auto list = read_.booleans_per_layer("attention.sliding_window_pattern", layers_)) {
    for (uint32_t i = 0; i < layers_; ++i)
      if ((*list)[i]) windows_[i] = window;
    return;
  }
  const uint32_t period = read_.integer("attention.sliding_window_pattern", {0, max_context}, arch_.window_period);
  for (uint32_t i = 0; i < layers_; ++i)
    if (period == 0 || (arch_.first_is_full ? i : i + 1) % period != 0) windows_[i] = window;
}

void Loader::read_latent() {
  if (!arch_.latent) return;
  Latent to;
  to.rank = read_.integer("attention.kv_lora_rank", {1, max_row});
  q_rank_ = read_.integer("attention.q_lora_rank", {0, max_row}, 0);
  to.rotated = read_.integer("rope.dimension_count", {2, max_head});
  const uint32_t whole = read_.integer("attention.key_length_mla", {to.rotated + 1, max_head});
  to.plain = whole - to.rotated;
  to.value = read_.integer("attention.value_length_mla", {1, max_head});
  // The sizes of heads that the cache has are those that follow from the rank.
  head_ = to.rank + to.rotated;
  value_head_ = to.rank;
  kv_heads_.assign(layers_, 1);
  latent_ = to;
}

void Loader::read_ropes() {
  if (arch_.rope == Rope::Style::none) {
    if (arch_.states != States::none) read_.ignore({"rope.freq_base", "rope.dimension_count"});
    return;
  }
  if (arch_.no_rope_period) rotated_layers_ = read_.booleans_per_layer("rope.rotated_layers", layers_);
  const uint32_t dimensions = read_.integer("rope.dimension_count", {2, head_}, head_);
  if (dimensions % 2) read_.refuse("rope.dimension_count", fmt::format("an even number up to the head's {}", head_));
  uint32_t in_windows = dimensions;
  if (arch_.window_heads) {
    in_windows = read_.integer("rope.dimension_count_swa", {2, window_head_}, window_head_);
    if (in_windows % 2)
      read_.refuse("rope.dimension_count_swa", fmt::format("an even number up to the head's {}", window_head_));
  }
  const double base = read_.number_above_0("rope.freq_base", 10000);
  RopeScaling scaling, long_scaling;
  const double magnitude = read_.number("rope.scaling.attn_factor", 1);
  const std::string type = read_.string("rope.scaling.type", "none");
  const double factor = read_.number_above_0("rope.scaling.factor", read_.number_above_0("rope.scale_linear", 1));
  const uint32_t original = read_.integer("rope.scaling.original_context_length", {1, max_context}, trained_);
  original_ = original;
  const double fast = read_.number_above_0("rope.scaling.yarn_beta_fast", 32),
               slow = read_.number_above_0("rope.scaling.yarn_beta_slow", 1);
  double log_multiplier = read_.number_from_0("rope.scaling.yarn_log_multiplier", 0);
  if (latent_) log_multiplier *= 10;  // files of this architecture have a tenth of it
  const bool whole = read_.boolean("rope.scaling.yarn_truncate", arch_.yarn_truncates);
  if (type == "yarn") {
    scaling = {.kind = RopeScaling::Kind::yarn,
               .factor = factor,
               .original_length = original,
               .fast = fast,
               .slow = slow,
               .whole = whole,
               .mscale_all = log_multiplier};
    if (latent_ && log_multiplier != 0) {
      scaling.mscale = log_multiplier;  // the two are the same in these models
      const double grown = factor <= 1 ? 1 : 0.1 * log_multiplier * std::log(factor) + 1;
      latent_scale_ = grown * grown;
    }
  } else if (type == "linear" || (type == "none" && factor != 1)) {
    scaling = {.kind = RopeScaling::Kind::linear, .factor = factor};
  } else if (type != "none" && type != "longrope") {
    read_.refuse("rope.scaling.type", "none, linear, yarn or longrope");
  }
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (!read_.has(name)) continue;
    const Vector factors = read_.vector(name, dimensions / 2);
    const RopeScaling by{.kind = RopeScaling::Kind::factors, .factors = {factors.begin(), factors.end()}};
    (std::string_view(name) == "rope_factors_long.weight" ? long_scaling : scaling) = by;
  }
  if (long_scaling.kind != RopeScaling::Kind::none && model_.context > original) model_.short_text = original;
  const auto scaled = [&](double by) {
    Rope rope = make_rope(dimensions, by, scaling, magnitude);
    if (model_.short_text) rope.long_radians = make_rope(dimensions, by, long_scaling, magnitude).radians;
    return rope;
  };
  rope_ = scaled(base);
  const double window_base =
      read_.number_above_0("rope.freq_base_swa", arch_.window_rope_base > 1 ? arch_.window_rope_base : base);
  window_rope_ = arch_.window_rope_base != 0 ? make_rope(in_windows, window_base, {}, 1) : scaled(window_base);
  if (arch_.rope_switch && !read_.boolean("rope.scaling.finetuned", true)) rope_ = window_rope_ = {};
}

Rope Loader::make_rope(uint32_t dimensions, double base, const RopeScaling& scaling, double magnitude) const {
  const RopeFrequencies found = rope_frequencies(dimensions, base, scaling);
  return {arch_.rope, dimensions, found.radians, found.magnitude * magnitude};
}

void Loader::read_experts() {
  if (!arch_.experts) return;
  experts_ = read_.integer("expert_count", {0, max_experts}, 0);
  // Which layers have experts is seen by their routers.
  read_.ignore({"leading_dense_block_count", "interleave_moe_layer_step"});
  routing_ = arch_.routing;
  if (!experts_) {
    // files of dense models have them all the same
    if (arch_.states != States::none) read_.ignore({"expert_used_count", "expert_shared_feed_forward_length"});
    return;
  }
  if (arch_.block == Block::one) latent_experts_ = read_.integer("moe_latent_size", {0, max_row}, 0);
  routing_.used = read_.integer("expert_used_count", {1, experts_});
  expert_inner_ = read_.integer("expert_feed_forward_length", {1, max_row}, inner_[0]);
  const uint32_t shared = read_.integer("expert_shared_count", {0, max_experts}, arch_.shared_experts);
  shared_inner_ = read_.integer("expert_shared_feed_forward_length", {0, max_row},
                                uint32_t(std::min<uint64_t>(uint64_t(shared) * expert_inner_, max_row)));
  const uint32_t gating = read_.integer("expert_gating_func", {0, 3}, 0);
  if (gating == 1 || gating == 3) routing_.score = Routing::Score::softmax;
  if (gating == 2) routing_.score = Routing::Score::sigmoid;
  routing_.weights_sum_to_one = read_.boolean("expert_weights_norm", routing_.weights_sum_to_one) || gating == 3;
  routing_.scale = static_cast<float>(read_.number("expert_weights_scale", 1));
  if (routing_.scale == 0) routing_.scale = 1;  // so files say that there is none
  routing_.groups = std::max(1u, read_.integer("expert_group_count", {0, experts_}, 1));
  if (experts_ % routing_.groups)
    read_.refuse("expert_group_count", fmt::format("a divisor of the {} experts", experts_));
  routing_.groups_used = read_.integer("expert_group_used_count", {0, routing_.groups}, routing_.groups);
  if (routing_.groups_used == 0) routing_.groups_used = routing_.groups;
  // DeepSeek V2 has no bias, and takes the best expert of a group.
  routing_.groups_by_two = routing_.score == Routing::Score::sigmoid;
  const uint64_t pickable = uint64_t(experts_) / routing_.groups * routing_.groups_used;
  if (routing_.used > pickable)
    read_.refuse("expert_used_count", fmt::format("at most {}, the experts in the groups that are used", pickable));
  if (routing_.groups > 1 && routing_.groups_by_two && experts_ / routing_.groups < 2)
    read_.refuse("expert_group_count", "groups of two experts or more");
  if (routing_.score == Routing::Score::sparsemixer && routing_.used > 2)
    read_.refuse("expert_used_count", "1 or 2, which this architecture's routing is made for");
}

void Loader::read_temperature() {
  temperature_ = arch_.temperature;
  temperature_.scale = static_cast<float>(read_.number_from_0("attention.temperature_scale", temperature_.scale));
  const uint32_t usual = temperature_.length ? temperature_.length : std::max(1u, original_);
  temperature_.length = read_.integer("attention.temperature_length", {1, max_context}, usual);
}

void Loader::read_scales() {
  // MiniCPM's first files name none.
  const bool minicpm = arch_.name == "minicpm";
  const double logits = minicpm ? double(model_.width) / 256 : 1;
  model_.embedding_scale = static_cast<float>(read_.number("embedding_scale", minicpm ? 12 : 1));
  const double scale = read_.number_above_0("logit_scale", logits);
  model_.logit_scale = static_cast<float>(arch_.logit_scale == LogitScale::divides ? 1 / scale : scale);
  residual_scale_ = static_cast<float>(read_.number("residual_scale", minicpm ? 1.4 / std::sqrt(double(layers_)) : 1));
}

Model load(formats::Checkpoint checkpoint, const LoadOptions& options) {
  checkpoint.expect_known_class();
  const auto kept = std::make_shared<const formats::Checkpoint>(std::move(checkpoint));
  Model model;
  model.name = kept->name();
  Loader(*kept, options, model).load();
  model.file = kept;
  return model;
}

}  // namespace heddle::model
