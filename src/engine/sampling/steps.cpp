// Each step of the chain, on the candidates that the one before left.
#include "engine/sampling/steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "engine/sampling/numbers.h"

namespace heddle::engine {

void cut_top_n_sigma(Candidates& candidates, const Sampling& s) {
  if (s.top_n_sigma <= 0 || candidates.size() <= 1) return;
  const float top = candidates.largest();
  const auto logits = candidates.logits();
  // Distances from the largest, so that squares are small; -infinity does not count.
  double sum[8] = {}, squares[8] = {};
  for (size_t i = 0; i < logits.size(); ++i) {
    const bool counts = logits[i] >= std::numeric_limits<float>::lowest();
    const double x = counts ? double(logits[i] - top) : 0;
    sum[i % 8] += x;
    squares[i % 8] += x * x;
  }
  double mean = 0, square = 0;
  for (size_t i = 0; i < 8; ++i) {
    mean += sum[i];
    square += squares[i];
  }
  const double count = double(candidates.possible());
  mean /= count;
  square /= count;
  const double deviation = std::sqrt(std::max(0.0, square - mean * mean));
  candidates.keep_from(float(double(top) - double(s.top_n_sigma) * deviation), s.min_keep);
}

void cut_top_k(Candidates& candidates, const Sampling& s) {
  if (s.top_k > 0) candidates.keep_largest(std::max(uint32_t(s.top_k), s.min_keep));
}

void cut_typical_p(Candidates& candidates, const Sampling& s) {
  if (s.typical_p >= 1) return;
  const double total = candidates.weigh();
  const double entropy = candidates.entropy(), log_total = log_of(total);
  const float top = candidates.largest();
  std::vector<uint32_t> keys(candidates.size());  // how far the surprise is from the entropy: a float of 0 or more
  for (size_t i = 0; i < keys.size(); ++i)
    keys[i] = std::bit_cast<uint32_t>(float(std::abs(log_total - double(candidates.logits()[i] - top) - entropy)));
  candidates.keep_first(keys, double(s.typical_p) * total, true, s.min_keep);
}

void cut_top_p(Candidates& candidates, const Sampling& s) {
  if (s.top_p >= 1) return;
  candidates.keep_most_likely(double(s.top_p) * candidates.weigh(), s.min_keep);
}

void cut_min_p(Candidates& candidates, const Sampling& s) {
  if (s.min_p <= 0) return;
  candidates.keep_from(float(double(candidates.largest()) + log_of(double(s.min_p))), s.min_keep);
}

void cut_xtc(Candidates& candidates, const Sampling& s, double random) {
  if (s.xtc_probability <= 0 || s.xtc_threshold > 0.5f || candidates.size() < 2) return;
  if (random >= double(s.xtc_probability)) return;
  const double threshold = double(s.xtc_threshold) * candidates.weigh();
  const auto weights = candidates.weights();
  size_t likely = 0, last = 0;  // the last is the least likely, of equals the one with the highest id
  for (size_t i = 0; i < weights.size(); ++i) {
    if (double(weights[i]) < threshold) continue;
    if (likely++ == 0 || candidates.logits()[i] <= candidates.logits()[last]) last = i;
  }
  if (likely < 2 || candidates.size() - (likely - 1) < s.min_keep) return;
  std::vector<uint8_t> which(candidates.size());
  for (size_t i = 0; i < which.size(); ++i) which[i] = double(weights[i]) < threshold || i == last;
  candidates.keep(which);
}

void apply_temperature(Candidates& candidates, const Sampling& s) {
  double temperature = double(s.temperature);
  const size_t possible = s.dynamic_range > 0 ? candidates.possible() : 1;
  if (possible > 1) {
    const double low = std::max(0.0, temperature - double(s.dynamic_range));
    const double high = temperature + double(s.dynamic_range);
    candidates.weigh();
    const double share = candidates.entropy() / log_of(double(possible));  // of the largest possible entropy
    temperature = low + (high - low) * power_of(share, double(s.dynamic_exponent));
  }
  if (temperature <= 0)
    candidates.keep_only(candidates.best());
  else if (temperature != 1)
    candidates.heat(temperature);
}

void cut_surprise(Candidates& candidates, const Sampling& s, float bits) {
  // surprise = log2 total - (logit - largest) / ln 2
  constexpr double ln2 = 0.69314718055994531;
  const double deepest = log_of(candidates.weigh()) - double(bits) * ln2;
  candidates.keep_from(float(double(candidates.largest()) + std::min(0.0, deepest)), s.min_keep);
}

}  // namespace heddle::engine
