// The reference of the sampling steps, written as they are defined: everything sorted, in doubles, with libm.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "engine/sampling/sampler.h"

namespace heddle::engine::reference {

struct Token {
  uint32_t id;
  double logit, p;
};
using Tokens = std::vector<Token>;

inline void sort_and_weigh(Tokens& tokens) {
  const auto before = [](const Token& a, const Token& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  // most steps keep the order, and sorting is most of the time of these tests
  if (!std::is_sorted(tokens.begin(), tokens.end(), before)) std::sort(tokens.begin(), tokens.end(), before);
  double sum = 0;
  for (Token& t : tokens) sum += t.p = std::exp(t.logit - tokens[0].logit);
  for (Token& t : tokens) t.p /= sum;
}

inline Tokens from_logits(const std::vector<float>& logits) {
  Tokens tokens;
  for (uint32_t id = 0; id < logits.size(); ++id) tokens.push_back({id, double(logits[id]), 0});
  sort_and_weigh(tokens);
  return tokens;
}

inline double entropy(const Tokens& tokens) {
  double sum = 0;
  for (const Token& t : tokens)
    if (t.p > 0) sum -= t.p * std::log(t.p);
  return sum;
}

// The first of `tokens` until `enough(sum of p, count)`.
template <class F>
void cut_after(Tokens& tokens, F&& enough) {
  double sum = 0;
  size_t count = 0;
  while (count < tokens.size() && !(count > 0 && enough(sum, count))) sum += tokens[count++].p;
  tokens.resize(count);
}

// One step of the chain that looks at no tokens of the past.
inline void apply(Tokens& tokens, Step step, const Sampling& s) {
  sort_and_weigh(tokens);
  const double top = tokens[0].logit;
  const auto keep_from = [&](double logit) {
    cut_after(tokens, [&](double, size_t n) { return n >= s.min_keep && tokens[n].logit < logit; });
  };
  if (step == Step::logit_bias)
    for (Token& t : tokens) t.logit += s.logit_bias.contains(t.id) ? double(s.logit_bias.at(t.id)) : 0;
  if (step == Step::top_k && s.top_k > 0)
    cut_after(tokens, [&](double, size_t n) { return n >= s.min_keep && n >= size_t(s.top_k); });
  if (step == Step::top_p && s.top_p < 1)
    cut_after(tokens, [&](double sum, size_t n) { return n >= s.min_keep && sum >= double(s.top_p); });
  if (step == Step::min_p && s.min_p > 0) keep_from(top + std::log(double(s.min_p)));
  if (step == Step::typical_p && s.typical_p < 1) {
    const double h = entropy(tokens);
    std::stable_sort(tokens.begin(), tokens.end(), [&](const Token& a, const Token& b) {
      return std::abs(-std::log(a.p) - h) < std::abs(-std::log(b.p) - h);
    });
    cut_after(tokens, [&](double sum, size_t n) { return n >= s.min_keep && sum > double(s.typical_p); });
  }
  if (step == Step::top_n_sigma && s.top_n_sigma > 0) {
    double mean = 0, square = 0;
    for (const Token& t : tokens) mean += t.logit / double(tokens.size());
    for (const Token& t : tokens) square += (t.logit - mean) * (t.logit - mean) / double(tokens.size());
    keep_from(top - double(s.top_n_sigma) * std::sqrt(square));
  }
  if (step == Step::xtc && s.xtc_probability == 1 && s.xtc_threshold <= 0.5f) {
    size_t likely = 0;
    while (likely < tokens.size() && tokens[likely].p >= double(s.xtc_threshold)) ++likely;
    if (likely > 1 && tokens.size() - likely + 1 >= s.min_keep)
      tokens.erase(tokens.begin(), tokens.begin() + ptrdiff_t(likely) - 1);
  }
  if (step == Step::temperature) {
    double t = double(s.temperature);
    if (s.dynamic_range > 0 && tokens.size() > 1) {
      const double low = std::max(0.0, t - double(s.dynamic_range)), high = t + double(s.dynamic_range);
      const double part = entropy(tokens) / std::log(double(tokens.size()));
      t = low + (high - low) * std::pow(part, double(s.dynamic_exponent));
    }
    if (t == 0) tokens.resize(1);
    if (t > 0)
      for (Token& token : tokens) token.logit /= t;
  }
  sort_and_weigh(tokens);
}

// What a pick is drawn from: probability by id.
inline std::map<uint32_t, double> distribution(const std::vector<float>& logits, const Sampling& s) {
  Tokens tokens = from_logits(logits);
  for (const Step step : steps_of(s)) apply(tokens, step, s);
  std::map<uint32_t, double> result;
  for (const Token& t : tokens) result[t.id] = t.p;
  return result;
}

// The same from a Sampler, through the log-probabilities it reports.
inline std::map<uint32_t, double> distribution(Sampler& sampler, const std::vector<float>& logits) {
  std::map<uint32_t, double> result;
  for (const auto& [id, log_probability] : sampler.pick(logits).top) result[id] = std::exp(double(log_probability));
  return result;
}

inline Sampling with_all_logprobs(Sampling s, size_t vocabulary) {
  s.logprobs = uint32_t(vocabulary);
  s.logprobs_after = true;
  if (!s.seed) s.seed = 1;
  return s;
}

inline void expect_same(const std::map<uint32_t, double>& found, const std::map<uint32_t, double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [id, p] : expected) {
    ASSERT_TRUE(found.contains(id)) << "token " << id;
    ASSERT_NEAR(found.at(id), p, 1e-6) << "token " << id;
  }
}

inline std::vector<float> random_logits(size_t size, float spread, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(size);
  for (float& x : logits) x = normal(generator);
  return logits;
}

}  // namespace heddle::engine::reference
