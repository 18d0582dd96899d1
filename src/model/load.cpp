// Reads what the architecture's line says, and nothing may be left over. Every size is bounded and compared with the
// tensors before anything is computed with it.
#include "model/load.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/rope_frequencies.h"
#include "model/architectures.h"
#include "model/reader.h"

namespace heddle::model {
namespace {

// Larger numbers than any model has, and small enough for the 32-bit indices of the backends' inner loops.
constexpr uint32_t max_context = INT32_MAX, max_layers = 4096, max_experts = 4096;
constexpr uint32_t max_heads = 4096, max_head = 1 << 16;
constexpr uint32_t max_row = 1 << 24;  // values of a row of any matrix, and of a row of activations

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
    heads_ = read_.per_layer("attention.head_count", layers_, {1, max_heads});
    kv_heads_ = read_.per_layer("attention.head_count_kv", layers_, {1, max_heads}, heads_[0]);
    inner_ = read_.per_layer("feed_forward_length", layers_, {0, max_row});
    head_ = read_.integer("attention.key_length", {1, max_head}, model_.width / heads_[0]);
    value_head_ = read_.integer("attention.value_length", {1, max_head}, head_);
    epsilon_ = static_cast<float>(read_.number_from_0(arch_.norm == Norm::Kind::rms ? "attention.layer_norm_rms_epsilon"
                                                                                    : "attention.layer_norm_epsilon"));
    read_.ignore({"vocab_size", "rope.scaling.finetuned", "tensor_data_layout"});
    if (!read_.boolean("attention.causal", true)) read_.refuse("attention.causal", "true: no token sees later ones");
    read_pooling();
    read_activation();
    read_windows();
    read_ropes();
    read_experts();
    parallel_ =
        arch_.parallel == Has::always || (arch_.parallel == Has::maybe && read_.boolean("use_parallel_residual", true));
    if (arch_.scales) {
      model_.embedding_scale = static_cast<float>(read_.number("embedding_scale", 1));
      model_.logit_scale = static_cast<float>(1 / read_.number_above_0("logit_scale", 1));
      residual_scale_ = static_cast<float>(read_.number("residual_scale", 1));
      attention_scale_ = static_cast<float>(read_.number("attention.scale", 0));
    }
    if (arch_.scaled_embedding) model_.embedding_scale = std::sqrt(static_cast<float>(model_.width));
    if (arch_.softcaps) {
      attention_softcap_ = static_cast<float>(read_.number_from_0("attn_logit_softcapping", 0));
      model_.logit_softcap = static_cast<float>(read_.number_from_0("final_logit_softcapping", 0));
    }
    read_.finish_options();
    read_ends();
    for (uint32_t i = 0; i < layers_; ++i) model_.layers.push_back(layer(i));
    read_.finish_tensors();
  }

 private:
  void read_ends() {
    // The rows of the embedding say how large the vocabulary is.
    model_.vocabulary = read_.rows("token_embd.weight");
    model_.embedding = read_.matrix("token_embd.weight", model_.vocabulary, model_.width);
    if (arch_.learned_positions) {
      if (model_.context > trained_)
        read_.refuse("context_length", fmt::format("at least {}, the context asked for", model_.context));
      model_.positions = read_.matrix("position_embd.weight", trained_, model_.width);
    }
    model_.norm = norm("output_norm", model_.width);
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
  }

  void read_windows() {
    windows_.assign(layers_, 0);
    if (!arch_.window) return;
    const uint32_t window = read_.integer("attention.sliding_window", {0, max_context}, 0);
    const uint32_t period = read_.integer("attention.sliding_window_pattern", {0, max_context}, arch_.window_period);
    for (uint32_t i = 0; i < layers_; ++i)
      if (period == 0 || (i + 1) % period != 0) windows_[i] = window;
  }

  void read_ropes() {
    if (arch_.rope == Rope::Style::none) return;
    const uint32_t dimensions = read_.integer("rope.dimension_count", {2, head_}, head_);
    if (dimensions % 2) read_.refuse("rope.dimension_count", fmt::format("an even number up to the head's {}", head_));
    const double base = read_.number_above_0("rope.freq_base", 10000);
    RopeScaling scaling;
    const double magnitude = read_.number("rope.scaling.attn_factor", 1);
    const std::string type = read_.string("rope.scaling.type", "none");
    const double factor = read_.number_above_0("rope.scaling.factor", read_.number_above_0("rope.scale_linear", 1));
    const uint32_t original = read_.integer("rope.scaling.original_context_length", {1, max_context}, trained_);
    const double fast = read_.number_above_0("rope.scaling.yarn_beta_fast", 32),
                 slow = read_.number_above_0("rope.scaling.yarn_beta_slow", 1);
    if (type == "yarn")
      scaling = {
          .kind = RopeScaling::Kind::yarn, .factor = factor, .original_length = original, .fast = fast, .slow = slow};
    else if (type == "linear" || (type == "none" && factor != 1))
      scaling = {.kind = RopeScaling::Kind::linear, .factor = factor};
    else if (type != "none" && type != "longrope")
      read_.refuse("rope.scaling.type", "none, linear, yarn or longrope");
    for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
      if (!read_.has(name)) continue;
      const Vector factors = read_.vector(name, dimensions / 2);
      const bool is_long = std::string_view(name) == "rope_factors_long.weight";
      const bool is_short = std::string_view(name) == "rope_factors_short.weight";
      if ((is_long && model_.context <= original) || (is_short && model_.context > original)) continue;
      scaling = {.kind = RopeScaling::Kind::factors, .factors = {factors.begin(), factors.end()}};
    }
    rope_ = make_rope(dimensions, base, scaling, magnitude);
    local_rope_ = rope_;
    if (arch_.window_rope_base != 0)
      local_rope_ = make_rope(dimensions, read_.number_above_0("rope.freq_base_swa", arch_.window_rope_base), {}, 1);
  }
  Rope make_rope(uint32_t dimensions, double base, const RopeScaling& scaling, double magnitude) const {
    const RopeFrequencies found = rope_frequencies(dimensions, base, scaling);
    return {arch_.rope, dimensions, found.radians, found.magnitude * magnitude};
  }

  void read_experts() {
    if (!arch_.experts) return;
    experts_ = read_.integer("expert_count", {0, max_experts}, 0);
    if (!experts_) return;
    used_ = read_.integer("expert_used_count", {1, experts_});
    expert_inner_ = read_.integer("expert_feed_forward_length", {1, max_row}, inner_[0]);
    if (arch_.shared_expert) shared_inner_ = read_.integer("expert_shared_feed_forward_length", {0, max_row});
  }

  Norm norm(const std::string& name, uint64_t size) {
    return {arch_.norm, read_.vector(name + ".weight", size),
            arch_.norm == Norm::Kind::layer ? read_.vector(name + ".bias", size) : Vector(), epsilon_};
  }
  Vector bias(Has has, const std::string& name, uint64_t size) {
    if (has == Has::never) return {};
    return has == Has::always ? read_.vector(name + ".bias", size) : read_.vector_if(name + ".bias", size);
  }

  Layer layer(uint32_t index) {
    const std::string blk = fmt::format("blk.{}.", index);
    Layer to;
    to.parallel = parallel_;
    to.residual_scale = residual_scale_;
    to.sublayers.emplace_back(attention(blk, index));
    if (experts_)
      to.sublayers.emplace_back(mixture(blk));
    else
      to.sublayers.emplace_back(feed_forward(blk, index));
    return to;
  }

  Attention attention(const std::string& blk, uint32_t index) {
    Attention to;
    to.heads = heads_[index];
    to.kv_heads = kv_heads_[index];
    if (to.heads % to.kv_heads)
      read_.refuse("attention.head_count_kv",
                   fmt::format("in layer {} a divisor of the {} attention heads", index, to.heads));
    for (const auto& [key, size] : {std::pair{"attention.key_length", head_}, {"attention.value_length", value_head_}})
      if (uint64_t(to.heads) * size > max_row)
        throw Error("{}: {}: expected at most {} values in all {} heads of layer {}, found {} for each head",
                    model_.name, key, max_row, to.heads, index, size);
    to.head = head_;
    to.value_head = value_head_;
    const uint64_t width = model_.width, q = uint64_t(to.heads) * head_, k = uint64_t(to.kv_heads) * head_;
    const uint64_t v = uint64_t(to.kv_heads) * value_head_, out = uint64_t(to.heads) * value_head_;
    if (arch_.input_norms) to.norm = norm(blk + "attn_norm", width);
    if (arch_.fused_qkv) {
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
      to.q = read_.matrix(blk + "attn_q.weight", q, width);
      to.k = read_.matrix(blk + "attn_k.weight", k, width);
      to.v = read_.matrix(blk + "attn_v.weight", v, width);
      to.q_bias = bias(arch_.qkv_bias, blk + "attn_q", q);
      to.k_bias = bias(arch_.qkv_bias, blk + "attn_k", k);
      to.v_bias = bias(arch_.qkv_bias, blk + "attn_v", v);
    }
    if (arch_.head_norm || arch_.wide_norm) {
      to.q_norm = norm(blk + "attn_q_norm", arch_.wide_norm ? q : head_);
      to.k_norm = norm(blk + "attn_k_norm", arch_.wide_norm ? k : head_);
    }
    to.window = windows_[index];
    if (arch_.no_rope_period == 0 || (index + 1) % arch_.no_rope_period != 0) to.rope = to.window ? local_rope_ : rope_;
    const double by = layers_ == arch_.wide_scale_layers ? double(width) / to.heads : double(head_);
    to.scale = attention_scale_ != 0 ? attention_scale_ : static_cast<float>(1 / std::sqrt(by));
    to.softcap = attention_softcap_;
    to.output = read_.matrix(blk + "attn_output.weight", width, out);
    to.output_bias = bias(arch_.output_bias, blk + "attn_output", width);
    if (arch_.output_norms) to.output_norm = norm(blk + "post_attention_norm", width);
    return to;
  }

  Norm ffn_norm(const std::string& blk) {
    return arch_.input_norms ? norm(blk + (arch_.one_norm ? "attn_norm" : "ffn_norm"), model_.width) : Norm();
  }
  Norm ffn_output_norm(const std::string& blk) {
    return arch_.output_norms ? norm(blk + "post_ffw_norm", model_.width) : Norm();
  }

  Mixture mixture(const std::string& blk) {
    Mixture to;
    const uint64_t width = model_.width;
    to.norm = ffn_norm(blk);
    to.activation = activation_;
    to.router = read_.matrix(blk + "ffn_gate_inp.weight", experts_, width);
    to.routing = {.used = used_, .weights_sum_to_one = arch_.weights_sum_to_one};
    to.gate = read_.experts(blk + "ffn_gate_exps.weight", experts_, expert_inner_, width);
    to.up = read_.experts(blk + "ffn_up_exps.weight", experts_, expert_inner_, width);
    to.down = read_.experts(blk + "ffn_down_exps.weight", experts_, width, expert_inner_);
    if (shared_inner_) {
      FeedForward& shared = to.shared.emplace();
      shared.activation = activation_;
      shared.gate = read_.matrix(blk + "ffn_gate_shexp.weight", shared_inner_, width);
      shared.up = read_.matrix(blk + "ffn_up_shexp.weight", shared_inner_, width);
      shared.down = read_.matrix(blk + "ffn_down_shexp.weight", width, shared_inner_);
      to.shared_router = read_.vector(blk + "ffn_gate_inp_shexp.weight", width);
    }
    to.output_norm = ffn_output_norm(blk);
    return to;
  }

  FeedForward feed_forward(const std::string& blk, uint32_t index) {
    FeedForward to;
    const uint64_t width = model_.width, inner = inner_[index];
    to.norm = ffn_norm(blk);
    to.activation = activation_;
    if (arch_.fused_gate_up) {
      const Matrix both = read_.matrix(blk + "ffn_up.weight", 2 * inner, width);
      to.gate = both.slice(0, inner);
      to.up = both.slice(inner, inner);
    } else {
      if (arch_.gated) to.gate = read_.matrix(blk + "ffn_gate.weight", inner, width);
      to.up = read_.matrix(blk + "ffn_up.weight", inner, width);
      if (arch_.gated) to.gate_bias = bias(arch_.ffn_bias, blk + "ffn_gate", inner);
      to.up_bias = bias(arch_.ffn_bias, blk + "ffn_up", inner);
    }
    to.down = read_.matrix(blk + "ffn_down.weight", width, inner);
    to.down_bias = bias(arch_.ffn_bias, blk + "ffn_down", width);
    to.output_norm = ffn_output_norm(blk);
    return to;
  }

  const Architecture& arch_;
  Reader read_;
  const LoadOptions& options_;
  Model& model_;
  uint32_t trained_ = 0, layers_ = 0, head_ = 0, value_head_ = 0;
  uint32_t experts_ = 0, used_ = 0, expert_inner_ = 0, shared_inner_ = 0;
  std::vector<uint32_t> heads_, kv_heads_, inner_, windows_;
  float epsilon_ = 0, residual_scale_ = 1, attention_scale_ = 0, attention_softcap_ = 0;
  bool parallel_ = false;
  Activation activation_ = Activation::silu;
  Rope rope_, local_rope_;
};

}  // namespace

Model load(formats::Checkpoint checkpoint, const LoadOptions& options) {
  if (!checkpoint.unknown_class.empty())
    throw Error("{}: heddle does not know models of the class {}", checkpoint.path.string(), checkpoint.unknown_class);
  const auto kept = std::make_shared<const formats::Checkpoint>(std::move(checkpoint));
  Model model;
  model.name = kept->name();
  Loader(*kept, options, model).load();
  model.file = kept;
  return model;
}

}  // namespace heddle::model
