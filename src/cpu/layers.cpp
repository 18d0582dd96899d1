// The sums of norms are four in f64: exact enough that their order does not matter, and no long chain of additions.
#include "cpu/layers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace heddle::cpu {
namespace {

double sum_of_squares(const float* x, uint64_t size, double mean) {
  double sums[4] = {};
  uint64_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (uint64_t j = 0; j < 4; ++j) sums[j] += (x[i + j] - mean) * (x[i + j] - mean);
  for (; i < size; ++i) sums[0] += (x[i] - mean) * (x[i] - mean);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

bool same_rotation(const model::Rope& a, const model::Rope& b) {
  return a.style == b.style && a.dimensions == b.dimensions && a.radians == b.radians &&
         a.long_radians == b.long_radians && a.magnitude == b.magnitude;
}

}  // namespace

void normalise(const model::Norm& norm, const float* x, uint64_t size, float* out) {
  if (norm.kind == model::Norm::Kind::none) {
    if (out != x) std::copy_n(x, size, out);
    return;
  }
  double mean = 0;
  if (norm.kind == model::Norm::Kind::layer) {
    for (uint64_t i = 0; i < size; ++i) mean += x[i];
    mean /= double(size);
  }
  const float shift = static_cast<float>(mean);
  const float scale =
      static_cast<float>(1 / std::sqrt(sum_of_squares(x, size, mean) / double(size) + double(norm.epsilon)));
  const float* weight = norm.weight.data();
  for (uint64_t i = 0; i < size; ++i) out[i] = (x[i] - shift) * scale * weight[i];
  if (!norm.bias.empty())
    for (uint64_t i = 0; i < size; ++i) out[i] += norm.bias[i];
}

void normalise_heads(const model::Norm& norm, float* x, uint64_t size, uint32_t head) {
  if (norm.kind == model::Norm::Kind::none) return;
  const uint64_t step = norm.weight.size();
  check(step == head || step == size, "a norm over each head or over all");
  for (uint64_t at = 0; at < size; at += step) normalise(norm, x + at, step, x + at);
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

// Softmax over all experts, then the best ones; equal weights go to the lower index.
void ExpertChoice::pick(const model::Mixture& mixture, const std::vector<float>& scores, const Rows& x, uint32_t rows) {
  const uint32_t count = uint32_t(mixture.router.rows);
  used = mixture.routing.used;
  experts.resize(uint64_t(rows) * used);
  weights.resize(uint64_t(rows) * used);
  slots_of.assign(count, {});
  shared.clear();
  std::vector<double> weight(count);
  std::vector<uint32_t> order(count);
  for (uint32_t row = 0; row < rows; ++row) {
    const float* score = scores.data() + uint64_t(row) * count;
    const double largest = *std::max_element(score, score + count);
    double sum = 0;
    for (uint32_t i = 0; i < count; ++i) sum += weight[i] = std::exp(double(score[i]) - largest);
    for (double& value : weight) value /= sum;
    std::iota(order.begin(), order.end(), 0u);
    std::partial_sort(order.begin(), order.begin() + used, order.end(),
                      [&](uint32_t a, uint32_t b) { return weight[a] != weight[b] ? weight[a] > weight[b] : a < b; });
    double picked = 1;
    if (mixture.routing.weights_sum_to_one) {
      picked = 0;
      for (uint32_t j = 0; j < used; ++j) picked += weight[order[j]];
    }
    for (uint32_t j = 0; j < used; ++j) {
      const uint32_t slot = row * used + j;
      experts[slot] = order[j];
      weights[slot] = static_cast<float>(weight[order[j]] / picked);
      slots_of[order[j]].push_back(slot);
    }
    if (!mixture.shared) continue;
    const model::Vector& router = mixture.shared_router;
    double value = 0;
    for (size_t i = 0; i < router.size(); ++i) value += double(router[i]) * x.row(row)[i];
    shared.push_back(router.empty() ? 1 : static_cast<float>(1 / (1 + std::exp(-value))));
  }
}

}  // namespace heddle::cpu
