// The layers of a model: the tensors of each sublayer, and what the options say of it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/loader.h"

namespace heddle::model {

void Loader::add_next_head() {
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

Norm Loader::norm(const std::string& name, uint64_t size) {
  Norm to{arch_.norm, arch_.norm_weights ? read_.vector(name + ".weight", size) : Vector(size, 1), {}, epsilon_};
  if (arch_.norm == Norm::Kind::layer) {
    to.bias = bias(arch_.norm_bias, name, size);
    if (to.bias.empty()) to.bias.assign(size, 0);
  }
  return to;
}

Vector Loader::bias(Has has, const std::string& name, uint64_t size) {
  if (has == Has::never) return {};
  return has == Has::always ? read_.vector(name + ".bias", size) : read_.vector_if(name + ".bias", size);
}

void Loader::add_layers(uint32_t index) {
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

Sublayer Loader::state(const std::string& blk) {
  return states_.read(read_, blk, model_.width,
                      [&](const std::string& name, uint64_t size) { return norm(name, size); });
}

Sublayer Loader::mixture_or_feed_forward(const std::string& blk, uint32_t index) {
  if (experts_ && read_.has(blk + "ffn_gate_inp.weight")) return mixture(blk, index);
  return feed_forward(blk, index);
}

Attention Loader::attention(const std::string& blk, uint32_t index) {
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
      throw Error("{}: {}: expected at most {} values in all {} heads of layer {}, found {} for each head", model_.name,
                  key, max_row, to.heads, index, size);
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

void Loader::read_projections(Attention& to, const std::string& blk, bool fills_cache) {
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

void Loader::read_queries(Attention& to, const std::string& blk) {
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

Norm Loader::own_head_norm(const std::string& name, uint32_t heads) {
  Norm to{arch_.norm, decoded(read_.matrix(name + ".weight", heads, head_)), {}, epsilon_};
  if (arch_.norm == Norm::Kind::layer) to.bias.assign(to.weight.size(), 0);
  return to;
}

void Loader::read_latent_projections(Attention& to, const std::string& blk) {
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

Vector Loader::slopes(uint32_t heads) const {
  uint32_t n = 1;
  while (n * 2 <= heads) n *= 2;
  Vector all;
  for (uint32_t i = 0; i < heads; ++i)
    all.push_back(
        static_cast<float>(i < n ? std::exp2(-alibi_ / n * (i + 1)) : std::exp2(-alibi_ / 2 / n * (2 * (i - n) + 1))));
  return all;
}

bool Loader::shares_norm(const std::string& blk) const {
  return arch_.one_norm == Has::always || (arch_.one_norm == Has::maybe && !read_.has(ffn_norm_name(blk) + ".weight"));
}

Norm Loader::ffn_norm(const std::string& blk) {
  if (!arch_.input_norms) return {};
  // Falcon-H1's has no suffix.
  if (read_.has(blk + "ffn_norm")) return {Norm::Kind::rms, read_.vector(blk + "ffn_norm", model_.width), {}, epsilon_};
  return norm(shares_norm(blk) ? blk + "attn_norm" : ffn_norm_name(blk), model_.width);
}

Norm Loader::ffn_output_norm(const std::string& blk) {
  return arch_.output_norms ? norm(blk + "post_ffw_norm", model_.width) : Norm();
}

Mixture Loader::mixture(const std::string& blk, uint32_t index) {
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

void Loader::put_dense_beside(Mixture& to, const std::string& blk, uint32_t index) {
  const uint64_t width = model_.width;
  to.shared = feed_forward(blk, index);
  to.shared->output_norm = norm(blk + "post_ffw_norm_1", width);
  to.norm = norm(blk + "pre_ffw_norm_2", width);
  to.experts_norm = norm(blk + "post_ffw_norm_2", width);
  to.router_norm = {Norm::Kind::rms, read_.vector(blk + "ffn_gate_inp.scale", width), {}, epsilon_};
  for (float& weight : to.router_norm.weight) weight /= std::sqrt(static_cast<float>(width));
  to.routing.scales = read_.vector_if(blk + "ffn_down_exps.scale", experts_);
}

Vector Loader::expert_bias(const std::string& name, uint64_t size) {
  if (!read_.has(name)) return {};
  return decoded(read_.matrix(name, experts_, size));
}

FeedForward Loader::feed_forward(const std::string& blk, uint32_t index) {
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

}  // namespace heddle::model
