// Reads what the architecture's line says, and nothing may be left over. Every size is bounded and compared with the
// tensors before anything is computed with it.
#include "model/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rope_frequencies.h"
#include "model/architectures.h"
#include "model/load_gemma.h"
#include "model/load_pooled.h"
#include "model/load_states.h"
#include "model/reader.h"

namespace heddle::model {
namespace {

// Larger numbers than any model has, and small enough for the 32-bit indices of the backends' inner loops.
constexpr uint32_t max_context = INT32_MAX, max_layers = 4096, max_experts = 4096;
constexpr uint32_t max_heads = 4096, max_head = 1 << 16;
constexpr float latent_epsilon = 1e-6f;  // of the norms of latents, whatever that of the others is

class Loader {
 public:
  Loader(const formats::Checkpoint& checkpoint, const LoadOptions& options, Model& model)
      : arch_(architecture_named(checkpoint.architecture(), checkpoint.path.string())),
        read_(checkpoint, model.storage),
        options_(options),
        model_(model) {}

  void load() {
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
    read_.ignore({"vocab_size", "rope.scaling.finetuned", "tensor_data_layout", "rope.dimension_sections",
                  "n_deepstack_layers"});
    causal_ = read_.boolean("attention.causal", !arch_.encoder);
    if (causal_ == arch_.encoder && arch_.name != "gemma-embedding")
      read_.refuse("attention.causal",
                   causal_ ? "false: every token sees all others" : "true: no token sees later ones");
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

 private:
  // Layers at the end that predict a token beyond the next one are no part of the model itself.
  void skip_predicting_layers() {
    const uint32_t predicting = read_.integer("nextn_predict_layers", {0, layers_ - 1}, 0);
    layers_ -= predicting;
    predicts_ = options_.next_head && predicting == 1 && arch_.next_head;
    if (predicts_) return;
    for (uint32_t i = 0; i < predicting; ++i) read_.ignore_tensors(fmt::format("blk.{}.", layers_ + i));
  }

  void add_next_head() {
    const std::string blk = fmt::format("blk.{}.", layers_), nextn = blk + "nextn.";
    NextHead head;
    head.token_norm = norm(nextn + "enorm", model_.width);
    head.hidden_norm = norm(nextn + "hnorm", model_.width);
    head.join = read_.matrix(nextn + "eh_proj.weight", model_.width, 2 * uint64_t(model_.width));
    head.norm =
        read_.has(nextn + "shared_head_norm.weight") ? norm(nextn + "shared_head_norm", model_.width) : model_.norm;
    windows_.push_back(0);
    model_.layers.push_back(
        {.sublayers = {std::move(head), attention(blk, layers_), mixture_or_feed_forward(blk, layers_)}});
  }

  void read_ends() {
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

  void read_pooling() {
    model_.pooling = Pooling(read_.integer("pooling_type", {0, uint32_t(Pooling::rank)}, uint32_t(Pooling::mean)));
  }

  void read_activation() {
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

  void read_windows() {
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

  void read_latent() {
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

  void read_ropes() {
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
  Rope make_rope(uint32_t dimensions, double base, const RopeScaling& scaling, double magnitude) const {
    const RopeFrequencies found = rope_frequencies(dimensions, base, scaling);
    return {arch_.rope, dimensions, found.radians, found.magnitude * magnitude};
  }

  void read_experts() {
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

  void read_temperature() {
    temperature_ = arch_.temperature;
    temperature_.scale = static_cast<float>(read_.number_from_0("attention.temperature_scale", temperature_.scale));
    const uint32_t usual = temperature_.length ? temperature_.length : std::max(1u, original_);
    temperature_.length = read_.integer("attention.temperature_length", {1, max_context}, usual);
  }

  void read_scales() {
    // MiniCPM's first files name none.
    const bool minicpm = arch_.name == "minicpm";
    const double logits = minicpm ? double(model_.width) / 256 : 1;
    model_.embedding_scale = static_cast<float>(read_.number("embedding_scale", minicpm ? 12 : 1));
    const double scale = read_.number_above_0("logit_scale", logits);
    model_.logit_scale = static_cast<float>(arch_.logit_scale == LogitScale::divides ? 1 / scale : scale);
    residual_scale_ =
        static_cast<float>(read_.number("residual_scale", minicpm ? 1.4 / std::sqrt(double(layers_)) : 1));
  }

  // The kernels of all backends have weights, and of layer norms biases: those that a file has not are 1 and 0.
  Norm norm(const std::string& name, uint64_t size) {
    Norm to{arch_.norm, arch_.norm_weights ? read_.vector(name + ".weight", size) : Vector(size, 1), {}, epsilon_};
    if (arch_.norm == Norm::Kind::layer) {
      to.bias = bias(arch_.norm_bias, name, size);
      if (to.bias.empty()) to.bias.assign(size, 0);
    }
    return to;
  }
  Vector bias(Has has, const std::string& name, uint64_t size) {
    if (has == Has::never) return {};
    return has == Has::always ? read_.vector(name + ".bias", size) : read_.vector_if(name + ".bias", size);
  }

  void add_layers(uint32_t index) {
    const std::string blk = fmt::format("blk.{}.", index);
    Layer to;
    to.parallel = parallel_ || (arch_.one_norm == Has::maybe && shares_norm(blk));
    to.residual_scale = residual_scale_;
    switch (arch_.block) {
      case Block::usual:
        to.sublayers.emplace_back(states_.has(read_, blk) ? state(blk) : attention(blk, index));
        to.sublayers.emplace_back(mixture_or_feed_forward(blk, index));
        break;
      case Block::one:
        if (states_.has(read_, blk))
          to.sublayers.emplace_back(state(blk));
        else if (inner_[index] != 0)
          to.sublayers.emplace_back(mixture_or_feed_forward(blk, index));
        else
          to.sublayers.emplace_back(attention(blk, index));
        break;
      case Block::beside:
        model_.layers.push_back({.sublayers = {attention(blk, index), state(blk)}, .parallel = true});
        to.sublayers.emplace_back(feed_forward(blk, index));
        break;
      case Block::state:
        to.sublayers.emplace_back(state(blk));
    }
    gemma_.finish_layer(read_, model_, to, index, epsilon_);
    model_.layers.push_back(std::move(to));
  }
  Sublayer state(const std::string& blk) {
    return states_.read(read_, blk, model_.width,
                        [&](const std::string& name, uint64_t size) { return norm(name, size); });
  }
  Sublayer mixture_or_feed_forward(const std::string& blk, uint32_t index) {
    if (experts_ && read_.has(blk + "ffn_gate_inp.weight")) return mixture(blk, index);
    return feed_forward(blk, index);
  }

  Attention attention(const std::string& blk, uint32_t index) {
    Attention to;
    to.heads = heads_[index];
    to.kv_heads = kv_heads_[index];
    if (to.kv_heads == 0 || to.heads == 0 || to.heads % to.kv_heads)
      read_.refuse("attention.head_count_kv",
                   fmt::format("in layer {} a divisor of the {} attention heads", index, to.heads));
    const bool in_window = arch_.window_heads && windows_[index];
    to.head = in_window ? window_head_ : head_;
    to.value_head = in_window ? window_value_head_ : value_head_;
    for (const auto& [key, size] :
         {std::pair{"attention.key_length", to.head}, {"attention.value_length", to.value_head}})
      if (uint64_t(to.heads) * size > max_row)
        throw Error("{}: {}: expected at most {} values in all {} heads of layer {}, found {} for each head",
                    model_.name, key, max_row, to.heads, index, size);
    to.causal = causal_;
    to.shared_cache = gemma_.cache_of(index);
    to.clamp_qkv = clamp_qkv_;
    const uint64_t width = model_.width;
    // Falcon 40B has a norm of its own for the attention; its feed-forward reads attn_norm.
    const bool second = arch_.name == "falcon" && read_.has(blk + "attn_norm_2.weight");
    // The first layer of ModernBERT has no norm: its embedding was normalised.
    const bool has_norm = arch_.name != "modern-bert" || read_.has(blk + "attn_norm.weight");
    if (arch_.input_norms && has_norm) to.norm = norm(blk + (second ? "attn_norm_2" : "attn_norm"), width);
    if (latent_)
      read_latent_projections(to, blk);
    else
      read_projections(to, blk, !gemma_.reads_cache(index));
    (arch_.window_is_chunk ? to.chunk : to.window) = windows_[index];
    const bool rotates = (rotated_layers_ ? (*rotated_layers_)[index]
                                          : arch_.no_rope_period == 0 || (index + 1) % arch_.no_rope_period != 0) &&
                         (!arch_.rope_in_windows || windows_[index] || !has_windows_);
    if (rotates) to.rope = windows_[index] ? window_rope_ : rope_;
    if (arch_.name == "llama4") {
      // Layers that are rotated have norms without weights after it (but not Maverick, with 128 experts), the others
      // a temperature.
      if (rotates && experts_ != 128) to.q_norm = to.k_norm = {Norm::Kind::rms, Vector(head_, 1), {}, epsilon_};
      if (!rotates) to.temperature = temperature_;
    } else {
      to.temperature = temperature_;
    }
    const double by = layers_ == arch_.wide_scale_layers ? double(width) / to.heads : double(score_head());
    to.scale = attention_scale_ != 0 ? attention_scale_ : static_cast<float>(latent_scale_ / std::sqrt(by));
    to.softcap = attention_softcap_;
    if (arch_.sinks) to.sinks = read_.vector(blk + "attn_sinks.weight", to.heads);
    if (alibi_ != 0) to.slopes = slopes(to.heads);
    to.output = read_.matrix(blk + "attn_output.weight", width, to.output_cols());
    to.output_bias = bias(arch_.output_bias, blk + "attn_output", width);
    if (arch_.output_norms) to.output_norm = norm(blk + "post_attention_norm", width);
    if (arch_.residual_norms) to.residual_norm = norm(blk + "attn_output_norm", width);
    return to;
  }
  uint32_t score_head() const { return latent_ ? latent_->plain + latent_->rotated : head_; }

  // `fills_cache`: with k and v.
  void read_projections(Attention& to, const std::string& blk, bool fills_cache) {
    const uint64_t width = model_.width, q = uint64_t(to.heads) * to.head, k = uint64_t(to.kv_heads) * to.head;
    const uint64_t v = uint64_t(to.kv_heads) * to.value_head;
    if (read_.has(blk + "attn_qkv.weight")) {
      const Matrix all = read_.matrix(blk + "attn_qkv.weight", q + k + v, width);
      to.q = all.slice(0, q);
      to.k = all.slice(q, k);
      to.v = all.slice(q + k, v);
      if (const Vector b = bias(arch_.qkv_bias, blk + "attn_qkv", q + k + v); !b.empty()) {
        to.q_bias.assign(b.begin(), b.begin() + long(q));
        to.k_bias.assign(b.begin() + long(q), b.begin() + long(q + k));
        to.v_bias.assign(b.begin() + long(q + k), b.end());
      }
    } else {
      read_queries(to, blk);
      if (fills_cache) {
        to.k = read_.matrix(blk + "attn_k.weight", k, width);
        const bool is_key = arch_.value_norm && !read_.has(blk + "attn_v.weight") && v == k;
        to.v = is_key ? to.k : read_.matrix(blk + "attn_v.weight", v, width);
      } else {
        for (const char* name : {"attn_k.", "attn_v.", "attn_k_norm."}) read_.ignore_tensors(blk + name);
      }
      if (!arch_.output_gate) to.q_bias = bias(arch_.qkv_bias, blk + "attn_q", q);
      to.k_bias = bias(arch_.qkv_bias, blk + "attn_k", k);
      to.v_bias = bias(arch_.qkv_bias, blk + "attn_v", v);
    }
    const bool norms = arch_.wide_norm || arch_.head_norm == Has::always ||
                       (arch_.head_norm == Has::maybe && read_.has(blk + "attn_q_norm.weight"));
    to.norm_after_rope = arch_.norm_after_rope;
    if (arch_.value_norm && fills_cache) to.v_norm = {Norm::Kind::rms, Vector(to.value_head, 1), {}, epsilon_};
    if (!norms) return;
    if (arch_.own_head_norms) {
      // (heads, head) in the file
      to.own_head_norms = true;
      to.q_norm = own_head_norm(blk + "attn_q_norm", to.heads);
      to.k_norm = own_head_norm(blk + "attn_k_norm", to.kv_heads);
    } else {
      to.q_norm = norm(blk + "attn_q_norm", arch_.wide_norm ? q : to.head);
      if (fills_cache) to.k_norm = norm(blk + "attn_k_norm", arch_.wide_norm ? k : to.head);
    }
  }
  void read_queries(Attention& to, const std::string& blk) {
    const uint64_t head = to.head, rows = to.heads * head;
    if (!arch_.output_gate) {
      to.q = read_.matrix(blk + "attn_q.weight", rows, model_.width);
      return;
    }
    std::vector<uint64_t> queries, gates;
    for (uint64_t i = 0; i < rows; ++i) {
      queries.push_back(i / head * 2 * head + i % head);
      gates.push_back(queries.back() + head);
    }
    to.q = read_.gathered(blk + "attn_q.weight", 2 * rows, model_.width, queries);
    to.gate = read_.gathered(blk + "attn_q.weight", 2 * rows, model_.width, gates);
  }
  Norm own_head_norm(const std::string& name, uint32_t heads) {
    Norm to{arch_.norm, decoded(read_.matrix(name + ".weight", heads, head_)), {}, epsilon_};
    if (arch_.norm == Norm::Kind::layer) to.bias.assign(to.weight.size(), 0);
    return to;
  }

  void read_latent_projections(Attention& to, const std::string& blk) {
    Latent& l = to.latent.emplace(*latent_);
    const uint64_t width = model_.width, q = uint64_t(to.heads) * (l.plain + l.rotated);
    if (read_.has(blk + "attn_kv_b.weight"))
      throw Error(
          "{}: tensor {}attn_kv_b.weight: expected attn_k_b and attn_v_b; this file was made by an old "
          "converter: convert the model again",
          model_.name, blk);
    if (q_rank_) {
      l.q_down = read_.matrix(blk + "attn_q_a.weight", q_rank_, width);
      l.q_norm = norm(blk + "attn_q_a_norm", q_rank_);
      l.q_norm.epsilon = latent_epsilon;
    }
    to.q = read_.matrix(blk + (q_rank_ ? "attn_q_b.weight" : "attn_q.weight"), q, q_rank_ ? q_rank_ : width);
    l.kv_down = read_.matrix(blk + "attn_kv_a_mqa.weight", l.rank + l.rotated, width);
    l.kv_norm = norm(blk + "attn_kv_a_norm", l.rank);
    l.kv_norm.epsilon = latent_epsilon;
    l.k_up = read_.experts(blk + "attn_k_b.weight", to.heads, l.rank, l.plain);
    l.v_up = read_.experts(blk + "attn_v_b.weight", to.heads, l.value, l.rank);
  }

  // As the paper has them: powers of 2^(-alibi / n) for n = the power of two below; further heads have every second
  // power of half that step.
  Vector slopes(uint32_t heads) const {
    uint32_t n = 1;
    while (n * 2 <= heads) n *= 2;
    Vector all;
    for (uint32_t i = 0; i < heads; ++i)
      all.push_back(static_cast<float>(i < n ? std::exp2(-alibi_ / n * (i + 1))
                                             : std::exp2(-alibi_ / 2 / n * (2 * (i - n) + 1))));
    return all;
  }

  std::string ffn_norm_name(const std::string& blk) const { return blk + std::string(arch_.ffn_norm); }
  // Whether the feed-forward has the input norm of the attention.
  bool shares_norm(const std::string& blk) const {
    return arch_.one_norm == Has::always ||
           (arch_.one_norm == Has::maybe && !read_.has(ffn_norm_name(blk) + ".weight"));
  }
  Norm ffn_norm(const std::string& blk) {
    if (!arch_.input_norms) return {};
    // Falcon-H1's has no suffix.
    if (read_.has(blk + "ffn_norm"))
      return {Norm::Kind::rms, read_.vector(blk + "ffn_norm", model_.width), {}, epsilon_};
    return norm(shares_norm(blk) ? blk + "attn_norm" : ffn_norm_name(blk), model_.width);
  }
  Norm ffn_output_norm(const std::string& blk) {
    return arch_.output_norms ? norm(blk + "post_ffw_norm", model_.width) : Norm();
  }

  Mixture mixture(const std::string& blk, uint32_t index) {
    Mixture to;
    const uint64_t width = model_.width;
    to.norm = ffn_norm(blk);
    to.activation = activation_;
    to.router = read_.matrix(blk + "ffn_gate_inp.weight", experts_, width);
    to.router_bias = read_.vector_if(blk + "ffn_gate_inp.bias", experts_);
    to.routing = routing_;
    to.routing.bias = read_.vector_if(blk + "exp_probs_b.bias", experts_);
    const uint64_t outer = latent_experts_ ? latent_experts_ : width;
    if (arch_.dense_with_experts && read_.has(blk + "ffn_gate_up_exps.weight")) {
      to.gate = to.up = read_.experts(blk + "ffn_gate_up_exps.weight", experts_, 2 * uint64_t(expert_inner_), outer);
      to.gate.part = to.up.part = to.up.first = expert_inner_;
    } else {
      if (arch_.gated) to.gate = read_.experts(blk + "ffn_gate_exps.weight", experts_, expert_inner_, outer);
      to.up = read_.experts(blk + "ffn_up_exps.weight", experts_, expert_inner_, outer);
    }
    to.down = read_.experts(blk + "ffn_down_exps.weight", experts_, outer, expert_inner_);
    if (latent_experts_) {
      to.latent_down = read_.matrix(blk + "ffn_latent_down.weight", outer, width);
      to.latent_up = read_.matrix(blk + "ffn_latent_up.weight", width, outer);
    }
    to.gate_bias = expert_bias(blk + "ffn_gate_exps.bias", expert_inner_);
    to.up_bias = expert_bias(blk + "ffn_up_exps.bias", expert_inner_);
    to.down_bias = expert_bias(blk + "ffn_down_exps.bias", width);
    if (shared_inner_) {
      FeedForward& shared = to.shared.emplace();
      shared.activation = activation_;
      if (arch_.gated) shared.gate = read_.matrix(blk + "ffn_gate_shexp.weight", shared_inner_, width);
      shared.up = read_.matrix(blk + "ffn_up_shexp.weight", shared_inner_, width);
      shared.down = read_.matrix(blk + "ffn_down_shexp.weight", width, shared_inner_);
      to.shared_router = read_.vector_if(blk + "ffn_gate_inp_shexp.weight", width);
    }
    to.output_norm = ffn_output_norm(blk);
    if (arch_.dense_with_experts) put_dense_beside(to, blk, index);
    return to;
  }
  // The dense feed-forward, as the shared expert; the experts have a norm of their own, and the router another.
  void put_dense_beside(Mixture& to, const std::string& blk, uint32_t index) {
    const uint64_t width = model_.width;
    to.shared = feed_forward(blk, index);
    to.shared->output_norm = norm(blk + "post_ffw_norm_1", width);
    to.norm = norm(blk + "pre_ffw_norm_2", width);
    to.experts_norm = norm(blk + "post_ffw_norm_2", width);
    to.router_norm = {Norm::Kind::rms, read_.vector(blk + "ffn_gate_inp.scale", width), {}, epsilon_};
    for (float& weight : to.router_norm.weight) weight /= std::sqrt(static_cast<float>(width));
    to.routing.scales = read_.vector_if(blk + "ffn_down_exps.scale", experts_);
  }
  // (experts, size) in the file.
  Vector expert_bias(const std::string& name, uint64_t size) {
    if (!read_.has(name)) return {};
    return decoded(read_.matrix(name, experts_, size));
  }

  FeedForward feed_forward(const std::string& blk, uint32_t index) {
    FeedForward to;
    const uint64_t width = model_.width, inner = inner_[index];
    to.norm = ffn_norm(blk);
    to.activation = activation_;
    if (!xielu_.empty()) to.xielu = xielu_[index];
    if (arch_.fused_gate_up) {
      const Matrix both = read_.matrix(blk + "ffn_up.weight", 2 * inner, width);
      to.gate = both.slice(0, inner);
      to.up = both.slice(inner, inner);
      if (const Vector b = bias(arch_.ffn_bias, blk + "ffn_up", 2 * inner); !b.empty()) {
        to.gate_bias.assign(b.begin(), b.begin() + long(inner));
        to.up_bias.assign(b.begin() + long(inner), b.end());
      }
    } else {
      if (arch_.gated) to.gate = read_.matrix(blk + "ffn_gate.weight", inner, width);
      to.up = read_.matrix(blk + "ffn_up.weight", inner, width);
      if (arch_.gated) to.gate_bias = bias(arch_.ffn_bias, blk + "ffn_gate", inner);
      to.up_bias = bias(arch_.ffn_bias, blk + "ffn_up", inner);
    }
    to.down = read_.matrix(blk + "ffn_down.weight", width, inner);
    to.down_bias = bias(arch_.ffn_bias, blk + "ffn_down", width);
    to.output_norm = ffn_output_norm(blk);
    if (arch_.residual_norms) to.residual_norm = norm(blk + "layer_output_norm", width);
    return to;
  }

  const Architecture& arch_;
  Reader read_;
  const LoadOptions& options_;
  Model& model_;
  uint32_t trained_ = 0, layers_ = 0, head_ = 0, value_head_ = 0;
  uint32_t window_head_ = 0, window_value_head_ = 0;  // of layers with a window, where theirs are others
  uint32_t experts_ = 0, expert_inner_ = 0, shared_inner_ = 0, latent_experts_ = 0, q_rank_ = 0, original_ = 0;
  std::vector<uint32_t> heads_, kv_heads_, inner_, windows_;
  float epsilon_ = 0, residual_scale_ = 1, attention_scale_ = 0, attention_softcap_ = 0, clamp_qkv_ = 0;
  double latent_scale_ = 1, alibi_ = 0;
  bool parallel_ = false, causal_ = true, has_windows_ = false;
  bool predicts_ = false;                            // with a NextHead
  std::optional<std::vector<bool>> rotated_layers_;  // unset: as the architecture says
  PooledReader pooled_;
  StateReader states_;
  GemmaReader gemma_;
  Activation activation_ = Activation::silu;
  std::vector<Xielu> xielu_;  // of each layer
  Routing routing_;
  Temperature temperature_;
  std::optional<Latent> latent_;  // its sizes
  Rope rope_, window_rope_;
};

}  // namespace

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
