#include "proof/mixture/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace heddle::proof {
namespace {

// Values with the errors that a kernel may make; `near_ties`: two that were compared are closer than these.
struct Compared {
  std::vector<double> values, errors;
  bool near_ties = false;

  bool close(size_t a, size_t b) const {
    return values[a] != values[b] && std::abs(values[a] - values[b]) <= errors[a] + errors[b];
  }
  // The `count` largest of those left, the largest first, equal ones by the lower index.
  std::vector<uint32_t> largest(uint32_t count, std::vector<bool> left) {
    std::vector<uint32_t> found;
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t best = ~0u;
      for (uint32_t e = 0; e < values.size(); ++e)
        if (left[e] && (best == ~0u || values[e] > values[best])) best = e;
      for (uint32_t e = 0; e < values.size(); ++e) near_ties = near_ties || (left[e] && e != best && close(e, best));
      left[best] = false;
      found.push_back(best);
    }
    return found;
  }
};

struct Routed {
  std::vector<uint32_t> ids;
  std::vector<double> weights, errors;
  bool near_ties = false;
};

// The exponential to 4e-7, up to 16 additions in a lane and 5 in the warp, a division and a product.
constexpr double rounding = 1.2e-6 + 24 * 0x1p-24;

Routed sparsemixer(const RoutedRow& row) {
  Compared all{row.logits, row.errors};
  Routed routed;
  std::vector<bool> left(row.logits.size(), true);
  const double error = *std::max_element(row.errors.begin(), row.errors.end());
  for (uint32_t j = 0; j < row.used; ++j) {
    const uint32_t best = all.largest(1, left)[0];
    const double top = row.logits[best];
    double sum = 0;
    for (size_t e = 0; e < left.size(); ++e) {
      const double logit = row.logits[e], size = std::max(std::abs(logit), top), distance = (top - logit) / size;
      if (left[e] && e != best && std::abs(distance - row.near) < (3 * error + 1e-6 * std::abs(top - logit)) / size)
        routed.near_ties = true;
      if (left[e] && !(distance > row.near)) sum += std::exp(logit - top);
    }
    routed.ids.push_back(best);
    routed.weights.push_back(1 / sum);
    routed.errors.push_back((rounding + 2 * error) / sum);
    left[best] = false;
  }
  routed.near_ties = routed.near_ties || all.near_ties;
  return routed;
}

Routed route_row(const RoutedRow& row) {
  const kernels::ExpertChoice& choice = row.choice;
  if (choice.score == kernels::score_sparsemixer) return sparsemixer(row);
  const size_t experts = row.logits.size();
  Compared scores{row.logits, row.errors};
  const double top = *std::max_element(row.logits.begin(), row.logits.end());
  const double error = *std::max_element(row.errors.begin(), row.errors.end());
  double total = 0;
  for (double& s : scores.values) {
    s = choice.score == kernels::score_sigmoid ? 1 / (1 + std::exp(-s)) : std::exp(s - top);
    total += s;
  }
  for (size_t e = 0; e < experts; ++e) {
    if (choice.score == kernels::score_softmax) scores.values[e] /= total;
    const double more = choice.score == kernels::score_softmax ? (top - row.logits[e]) * 0x1p-24 : 0;
    // subnormal numbers have less than 24 bits
    scores.errors[e] = scores.values[e] * (rounding + more + 2 * error) + 0x1p-148;
  }
  Compared chosen = scores;
  for (size_t e = 0; choice.bias && e < experts; ++e) {
    chosen.values[e] += double(row.bias[e]);
    chosen.errors[e] += std::abs(chosen.values[e]) * 0x1p-24;
  }
  std::vector<bool> left(experts, true);
  Routed routed;
  if (choice.groups) {
    const size_t size = experts / row.groups;
    Compared groups;
    for (size_t g = 0; g < row.groups; ++g) {
      std::vector<bool> here(experts);
      std::fill_n(here.begin() + long(g * size), size, true);
      Compared of_group = chosen;  // which of two close ones does not matter for the sum
      const auto best = of_group.largest(choice.groups == kernels::groups_by_two ? 2 : 1, here);
      groups.values.push_back(0);
      groups.errors.push_back(0);
      for (uint32_t e : best) {
        groups.values.back() += chosen.values[e];
        groups.errors.back() += 2 * chosen.errors[e] + std::abs(chosen.values[e]) * 0x1p-23;
      }
    }
    const auto kept = groups.largest(row.groups_used, std::vector<bool>(row.groups, true));
    left.assign(experts, false);
    for (uint32_t g : kept) std::fill_n(left.begin() + long(g * size), size, true);
    routed.near_ties = groups.near_ties;
  }
  routed.ids = chosen.largest(row.used, left);
  routed.near_ties = routed.near_ties || chosen.near_ties;
  double sum = 1;
  if (choice.sum_to_one) {
    sum = 0;
    for (uint32_t e : routed.ids) sum += scores.values[e];
  }
  const double scale = choice.scaled ? row.scale : 1;
  for (uint32_t e : routed.ids) {
    const double own = choice.each_scaled ? scale * double(row.scales[e]) : scale;
    routed.weights.push_back(scores.values[e] / sum * own);
    routed.errors.push_back(scores.errors[e] / sum * std::abs(own) * 3);
  }
  return routed;
}

}  // namespace

void check_routed(const RoutedRow& row, const std::vector<uint32_t>& ids, const std::vector<float>& weights,
                  Check& check) {
  const Routed routed = route_row(row);
  check.that(std::set<uint32_t>(ids.begin(), ids.end()).size() == ids.size(), "different experts");
  if (routed.near_ties) return;
  check.equal("ids", ids, routed.ids);
  check.near("weights", weights, routed.weights, routed.errors, 1.0);
}

}  // namespace heddle::proof
