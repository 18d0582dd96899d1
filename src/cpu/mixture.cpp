// Softmax over all experts, then the best ones; equal shares go to the lower number.
#include "cpu/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle::cpu {

void Picks::pick(const model::Mixture& mixture, const std::vector<float>& scores, const Rows& x, uint32_t rows) {
  const uint32_t count = uint32_t(mixture.router.rows);
  used = mixture.routing.used;
  experts.resize(uint64_t(rows) * used);
  shares.resize(uint64_t(rows) * used);
  slots_of.assign(count, {});
  shared.clear();
  std::vector<double> share(count);
  std::vector<uint32_t> order(count);
  for (uint32_t row = 0; row < rows; ++row) {
    const float* score = scores.data() + uint64_t(row) * count;
    const double largest = *std::max_element(score, score + count);
    double sum = 0;
    for (uint32_t i = 0; i < count; ++i) sum += share[i] = std::exp(double(score[i]) - largest);
    for (double& value : share) value /= sum;
    std::iota(order.begin(), order.end(), 0u);
    std::partial_sort(order.begin(), order.begin() + used, order.end(),
                      [&](uint32_t a, uint32_t b) { return share[a] != share[b] ? share[a] > share[b] : a < b; });
    double picked = 1;
    if (mixture.routing.weights_sum_to_one) {
      picked = 0;
      for (uint32_t j = 0; j < used; ++j) picked += share[order[j]];
    }
    for (uint32_t j = 0; j < used; ++j) {
      const uint32_t slot = row * used + j;
      experts[slot] = order[j];
      shares[slot] = static_cast<float>(share[order[j]] / picked);
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
