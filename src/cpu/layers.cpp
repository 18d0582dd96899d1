// The sums of norms are four in f64: exact enough that their order does not matter, and no long chain of additions.
#include "cpu/layers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace heddle::cpu {
namespace {

// The sum of f(value).
template <class Function>
double sum(const float* x, uint64_t size, Function&& f) {
  double sums[4] = {};
  uint64_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (uint64_t j = 0; j < 4; ++j) sums[j] += f(double(x[i + j]));
  for (; i < size; ++i) sums[0] += f(double(x[i]));
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// With the weights of the norm from `first` on.
void normalise_with(const model::Norm& norm, uint64_t first, const float* x, uint64_t size, float* out) {
  if (norm.kind == model::Norm::Kind::scale) {
    for (uint64_t i = 0; i < size; ++i) out[i] = x[i] * norm.weight[first + i];
    return;
  }
  const double mean =
      norm.kind == model::Norm::Kind::layer ? sum(x, size, [](double value) { return value; }) / double(size) : 0;
  const double squares = sum(x, size, [&](double value) { return (value - mean) * (value - mean); });
  const float shift = static_cast<float>(mean);
  const float scale = static_cast<float>(1 / std::sqrt(squares / double(size) + double(norm.epsilon)));
  const float* weight = norm.weight.data() + first;
  for (uint64_t i = 0; i < size; ++i) out[i] = (x[i] - shift) * scale * weight[i];
  if (norm.bias.empty()) return;
  const float* bias = norm.bias.data() + first;
  for (uint64_t i = 0; i < size; ++i) out[i] += bias[i];
}

bool same_rotation(const model::Rope& a, const model::Rope& b) {
  return a.style == b.style && a.dimensions == b.dimensions && a.radians == b.radians &&
         a.long_radians == b.long_radians && a.magnitude == b.magnitude;
}

}  // namespace

void normalise(const model::Norm& norm, const float* x, uint64_t size, float* out) {
  if (norm.kind != model::Norm::Kind::none) return normalise_with(norm, 0, x, size, out);
  if (out != x) std::copy_n(x, size, out);
}

void normalise_heads(const model::Norm& norm, float* x, uint64_t size, uint32_t head, bool own) {
  if (norm.kind == model::Norm::Kind::none) return;
  const uint64_t weights = norm.weight.size(), step = own ? head : weights;
  check(weights == size || (weights == head && !own), "a norm over each head or over all");
  for (uint64_t at = 0; at < size; at += step) normalise_with(norm, own ? at : 0, x + at, step, x + at);
}

double square_sum(const float* x, uint64_t size) {
  return sum(x, size, [](double value) { return value * value; });
}

void normalise_across(const model::Norm& norm, float squares, float* x, uint64_t size) {
  check(norm.kind == model::Norm::Kind::rms && norm.weight.size() == size, "an rms norm of all values of a rank");
  const double mean = double(squares) / double(norm.across->size);
  const float scale = static_cast<float>(1 / std::sqrt(mean + double(norm.epsilon)));
  for (uint64_t i = 0; i < size; ++i) x[i] *= scale * norm.weight[i];
}

void cut(float* gates, uint64_t size, float cutoff) {
  const double mean = sum(gates, size, [](double value) { return value; }) / double(size);
  const double square = sum(gates, size, [&](double value) { return (value - mean) * (value - mean); });
  const float from = static_cast<float>(mean + std::sqrt(square / double(size)) * double(cutoff));
  for (uint64_t i = 0; i < size; ++i) gates[i] = std::max(gates[i] - from, 0.0f);
}

float factor_of(const model::Temperature& t, uint32_t position) {
  if (t.scale == 0) return 1;
  const uint64_t steps = (uint64_t(position) + t.offset) / t.length;
  return static_cast<float>(1 + double(t.scale) * std::log1p(double(steps)));
}

Rotations::Rotations(const model::Model& model) {
  model::each_attention(model, [&](const model::Attention& attention) {
    const model::Rope& rope = attention.rope;
    const auto same = std::find_if(ropes_.begin(), ropes_.end(),
                                   [&](const model::Rope* other) { return same_rotation(rope, *other); });
    of_attention_.push_back(uint32_t(same - ropes_.begin()));
    if (same == ropes_.end()) ropes_.push_back(&rope);
  });
  tables_.resize(ropes_.size());
}

void Rotations::begin(const model::Batch& batch) {
  for (size_t i = 0; i < ropes_.size(); ++i) {
    const model::Rope& rope = *ropes_[i];
    tables_[i].clear();
    if (rope.style == model::Rope::Style::none) continue;
    const std::vector<double>& radians =
        batch.long_text && !rope.long_radians.empty() ? rope.long_radians : rope.radians;
    for (const uint32_t position : batch.positions)
      for (uint32_t pair = 0; pair < rope.dimensions / 2; ++pair) {
        const double angle = double(position) * radians[pair];
        tables_[i].push_back(static_cast<float>(std::cos(angle) * rope.magnitude));
        tables_[i].push_back(static_cast<float>(std::sin(angle) * rope.magnitude));
      }
  }
}

void Rotations::rotate(uint32_t attention, uint32_t row, float* x, uint32_t count, uint32_t head) const {
  const model::Rope& rope = *ropes_[of_attention_[attention]];
  if (rope.style == model::Rope::Style::none) return;
  const uint32_t pairs = rope.dimensions / 2;
  const bool neighbours = rope.style == model::Rope::Style::pairs;
  const float* table = tables_[of_attention_[attention]].data() + uint64_t(row) * pairs * 2;
  for (uint32_t h = 0; h < count; ++h, x += head)
    for (uint32_t i = 0; i < pairs; ++i) {
      float& a = x[neighbours ? 2 * i : i];
      float& b = x[neighbours ? 2 * i + 1 : i + pairs];
      const float cosine = table[2 * i], sine = table[2 * i + 1], before = a;
      a = before * cosine - b * sine;
      b = before * sine + b * cosine;
    }
}

void ExpertChoice::pick(const model::Mixture& mixture, const std::vector<float>& logits, const Rows& x, uint32_t rows) {
  const uint32_t count = uint32_t(mixture.router.rows);
  used = mixture.routing.used;
  experts.resize(uint64_t(rows) * used);
  weights.resize(uint64_t(rows) * used);
  slots_of.assign(count, {});
  shared.clear();
  scores_.resize(count);
  ranks_.resize(count);
  order_.resize(count);
  for (uint32_t row = 0; row < rows; ++row) {
    const float* of_row = logits.data() + uint64_t(row) * count;
    if (mixture.routing.score == model::Routing::Score::sparsemixer)
      pick_row_by_sparsemixer(mixture.routing, of_row, row);
    else
      pick_row(mixture.routing, of_row, row);
    if (!mixture.shared) continue;
    const model::Vector& router = mixture.shared_router;
    double value = 0;
    for (size_t i = 0; i < router.size(); ++i) value += double(router[i]) * x.row(row)[i];
    shared.push_back(router.empty() ? 1 : static_cast<float>(1 / (1 + std::exp(-value))));
  }
}

void ExpertChoice::put(uint32_t row, uint32_t j, uint32_t expert, double weight) {
  const uint32_t slot = row * used + j;
  experts[slot] = expert;
  weights[slot] = static_cast<float>(weight);
  slots_of[expert].push_back(slot);
}

// Equal ranks go to the lower index.
void ExpertChoice::pick_row(const model::Routing& routing, const float* logits, uint32_t row) {
  const size_t count = scores_.size();
  const auto pick_best = [](std::vector<uint32_t>& order, size_t best, auto&& rank) {
    std::iota(order.begin(), order.end(), 0u);
    std::partial_sort(order.begin(), order.begin() + long(best), order.end(),
                      [&](uint32_t a, uint32_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; });
  };
  if (routing.score == model::Routing::Score::sigmoid) {
    for (size_t i = 0; i < count; ++i) scores_[i] = 1 / (1 + std::exp(-double(logits[i])));
  } else {
    const double largest = *std::max_element(logits, logits + count);
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += scores_[i] = std::exp(double(logits[i]) - largest);
    for (double& score : scores_) score /= sum;
  }
  for (size_t i = 0; i < count; ++i) ranks_[i] = scores_[i] + (routing.bias.empty() ? 0 : double(routing.bias[i]));
  if (routing.groups_used < routing.groups) {
    const size_t size = count / routing.groups;
    const auto rank = [&](uint32_t group) {
      double best = -INFINITY, second = -INFINITY;
      for (size_t i = group * size; i < (group + 1) * size; ++i) {
        second = std::max(second, std::min(best, ranks_[i]));
        best = std::max(best, ranks_[i]);
      }
      return routing.groups_by_two ? best + second : best;
    };
    groups_.resize(routing.groups);
    pick_best(groups_, routing.groups_used, rank);
    for (size_t g = routing.groups_used; g < routing.groups; ++g)
      std::fill_n(ranks_.begin() + long(groups_[g] * size), size, -INFINITY);
  }
  pick_best(order_, used, [&](uint32_t expert) { return ranks_[expert]; });
  double factor = double(routing.scale);
  if (routing.weights_sum_to_one) {
    double sum = 0;
    for (uint32_t j = 0; j < used; ++j) sum += scores_[order_[j]];
    factor /= sum;
  }
  for (uint32_t j = 0; j < used; ++j) {
    const double scale = routing.scales.empty() ? 1 : double(routing.scales[order_[j]]);
    put(row, j, order_[j], scores_[order_[j]] * factor * scale);
  }
}

// An expert is picked when its score is 0 instead of 1.
void ExpertChoice::pick_row_by_sparsemixer(const model::Routing& routing, const float* logits, uint32_t row) {
  const size_t count = scores_.size();
  std::fill(scores_.begin(), scores_.end(), 1);
  for (uint32_t j = 0; j < used; ++j) {
    size_t best = count;
    for (size_t i = 0; i < count; ++i)
      if (scores_[i] != 0 && (best == count || logits[i] > logits[best])) best = i;
    const double top = logits[best];
    double sum = 0;
    for (size_t i = 0; i < count; ++i)
      if (top - logits[i] <= double(routing.near) * std::max(std::abs(double(logits[i])), top))
        sum += scores_[i] * std::exp(logits[i] - top);
    put(row, j, uint32_t(best), 1 / sum);
    scores_[best] = 0;
  }
}

}  // namespace heddle::cpu
