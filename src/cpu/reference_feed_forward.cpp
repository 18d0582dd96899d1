// Activations, the choice of experts, and what they compute, as the formulas have it.
#include "cpu/reference_feed_forward.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cpu/reference_math.h"

namespace heddle::cpu::reference {

using namespace model;

namespace {

float activate(Activation activation, const Xielu& xielu, float value) {
  const double x = value;
  switch (activation) {
    case Activation::silu:
      return static_cast<float>(silu(x));
    case Activation::gelu:
      return static_cast<float>(0.5 * x * (1 + std::erf(x / std::sqrt(2.0))));
    case Activation::gelu_tanh:
      return static_cast<float>(0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
    case Activation::relu_squared:
      return static_cast<float>(x > 0 ? x * x : 0);
    case Activation::clamped_swiglu:  // of the gate
      return static_cast<float>(std::min(x, 7.0) / (1 + std::exp(-1.702 * std::min(x, 7.0))));
    case Activation::xielu:
      return static_cast<float>(x > 0 ? x * (xielu.positive * x + xielu.beta)
                                      : xielu.negative * (std::expm1(std::min(x, double(xielu.epsilon))) - x) +
                                            xielu.beta * x);
  }
  return 0;
}
// activation(gate) * up.
float gate_with(Activation activation, const Xielu& xielu, float gate, float up) {
  if (activation == Activation::clamped_swiglu) up = std::clamp(up, -7.0f, 7.0f) + 1;
  return activate(activation, xielu, gate) * up;
}

// Of the products of a gate, what is above a cutoff: see FeedForward::cutoff.
void cut(Vector& gates, float cutoff) {
  double mean = 0, square = 0;
  for (const float value : gates) mean += value;
  mean /= double(gates.size());
  for (const float value : gates) square += (value - mean) * (value - mean);
  const double from = mean + std::sqrt(square / double(gates.size())) * double(cutoff);
  for (float& value : gates) value = static_cast<float>(std::max(value - from, 0.0));
}

// --- routing ---------------------------------------------------------------------------------------------------------
// The indices of `scores`, the largest first, equal ones by the lower index.
std::vector<uint32_t> by_score(const std::vector<double>& scores) {
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  return order;
}

struct PickedExpert {
  uint32_t expert;
  double weight;
};

// Phi-3.5-MoE's: see Routing::Score.
std::vector<PickedExpert> sparsemixer(const Routing& routing, const std::vector<double>& logits) {
  std::vector<PickedExpert> picked;
  std::vector<double> left = logits;
  for (uint32_t i = 0; i < routing.used; ++i) {
    const uint32_t best = by_score(left)[0];
    std::vector<double> near = left;
    for (size_t e = 0; e < near.size(); ++e)
      if ((left[best] - logits[e]) / std::max(std::fabs(logits[e]), left[best]) > double(routing.near))
        near[e] = -INFINITY;
    softmax(near);
    picked.push_back({best, near[best]});
    left[best] = -INFINITY;
  }
  return picked;
}

std::vector<PickedExpert> pick_experts(const Routing& routing, std::vector<double> scores) {
  if (routing.score == Routing::Score::sparsemixer) return sparsemixer(routing, scores);
  if (routing.score == Routing::Score::softmax)
    softmax(scores);
  else
    for (double& score : scores) score = sigmoid(score);
  std::vector<double> choice = scores;
  for (size_t i = 0; i < routing.bias.size(); ++i) choice[i] += double(routing.bias[i]);
  if (routing.groups_used < routing.groups) {
    const size_t size = choice.size() / routing.groups;
    std::vector<double> groups;
    for (size_t at = 0; at < choice.size(); at += size) {
      std::vector<double> group(choice.begin() + long(at), choice.begin() + long(at + size));
      std::sort(group.begin(), group.end(), std::greater<>());
      groups.push_back(routing.groups_by_two ? group[0] + group[1] : group[0]);
    }
    const std::vector<uint32_t> order = by_score(groups);
    for (uint32_t i = routing.groups_used; i < routing.groups; ++i)
      std::fill_n(choice.begin() + long(order[i] * size), size, -INFINITY);
  }
  std::vector<uint32_t> order = by_score(choice);
  order.resize(routing.used);
  double sum = 1;
  if (routing.weights_sum_to_one)
    sum = std::accumulate(order.begin(), order.end(), 0.0, [&](double s, uint32_t e) { return s + scores[e]; });
  std::vector<PickedExpert> picked;
  for (const uint32_t expert : order) {
    const double scale = routing.scales.empty() ? 1 : double(routing.scales[expert]);
    picked.push_back({expert, scores[expert] / sum * double(routing.scale) * scale});
  }
  return picked;
}

// An expert as a feed-forward of its own.
FeedForward expert_of(const Mixture& m, uint32_t expert) {
  const auto slice = [&](const Vector& all, uint64_t size) {
    return all.empty() ? Vector() : Vector(all.begin() + long(expert * size), all.begin() + long((expert + 1) * size));
  };
  FeedForward to;
  to.activation = m.activation;
  to.gate = m.gate.expert(expert);
  to.up = m.up.expert(expert);
  to.down = m.down.expert(expert);
  to.gate_bias = slice(m.gate_bias, to.up.rows);
  to.up_bias = slice(m.up_bias, to.up.rows);
  to.down_bias = slice(m.down_bias, to.down.rows);
  return to;
}

}  // namespace

std::vector<Vector> gated(const FeedForward& f, const std::vector<Vector>& xs,
                          const std::vector<Vector>& token_inputs) {
  std::vector<Vector> gates, ups;
  if (f.token_input) {
    const long size = long(f.gate.rows);
    for (const Vector& all : token_inputs)
      ups.emplace_back(all.begin() + long(*f.token_input) * size, all.begin() + long(*f.token_input + 1) * size);
  } else {
    products(f.up, f.up_bias, xs, ups);
  }
  if (f.gate) products(f.gate, f.gate_bias, xs, gates);
  for (size_t i = 0; i < ups.size(); ++i) {
    if (f.cutoff) cut(gates[i], *f.cutoff);
    for (size_t j = 0; j < ups[i].size(); ++j)
      ups[i][j] = f.gate ? gate_with(f.activation, f.xielu, gates[i][j], ups[i][j])
                         : activate(f.activation, f.xielu, ups[i][j]);
  }
  return ups;
}

namespace {

// The weighted sum of the experts of one row, of those that are here.
Vector experts_of(const Mixture& m, const Vector& input, const Vector& x) {
  const bool routes_apart = m.router_norm.kind != Norm::Kind::none;
  const Vector routed = routes_apart ? normalised(m.router_norm, input) : x;
  Vector logits = product(m.router, routed.data());
  add_scaled(logits, m.router_bias, 1);
  const Vector read = m.latent_down ? product(m.latent_down, x.data()) : x;
  Vector out(read.size());
  for (const PickedExpert& picked : pick_experts(m.routing, {logits.begin(), logits.end()})) {
    if (picked.expert < m.first_expert || picked.expert >= m.first_expert + m.up.count) continue;  // another rank's
    const FeedForward expert = expert_of(m, picked.expert - m.first_expert);
    const float weight = static_cast<float>(picked.weight);
    Vector in = read;
    if (m.routing.weigh_input)
      for (float& value : in) value *= weight;
    const Vector inner = gated(expert, {in})[0];
    Vector result = product(expert.down, inner.data());
    add_scaled(result, expert.down_bias, 1);
    add_scaled(out, result, m.routing.weigh_input ? 1 : weight);
  }
  return m.latent_up ? product(m.latent_up, out.data()) : out;
}

}  // namespace

MixtureResult mixture(const Mixture& m, const std::vector<Vector>& inputs, const std::vector<Vector>& xs) {
  MixtureResult results;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Vector& x = xs[i];
    results.experts.push_back(experts_of(m, inputs[i], x));
    if (!m.shared) continue;
    const FeedForward& f = *m.shared;
    std::vector<Vector> result;
    const Vector seen = f.norm.kind != Norm::Kind::none ? normalised(f.norm, inputs[i]) : x;
    products(f.down, f.down_bias, gated(f, {seen}), result);
    results.shared.push_back(std::move(result[0]));
    double score = 0;
    for (size_t c = 0; c < m.shared_router.size(); ++c) score += double(m.shared_router[c]) * x[c];
    results.weights.push_back(m.shared_router.empty() ? 1 : static_cast<float>(sigmoid(score)));
  }
  return results;
}

}  // namespace heddle::cpu::reference
