// Each step and whole chains by value: the distribution a pick is drawn from is that of the reference.
#include "engine/sampling/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "engine/sampling/sampler.h"
#include "tests/engine/sampling/reference.h"

namespace heddle::engine {
namespace {
using namespace reference;
constexpr float without_bound = std::numeric_limits<float>::infinity();

void expect_as_reference(const Sampling& sampling,
                         const std::vector<size_t>& sizes = {1, 2, 7, 63, 64, 65, 1000, 5003}) {
  uint32_t seed = 0;
  for (const size_t size : sizes)
    for (const float spread : {0.1f, 1.f, 4.f}) {
      SCOPED_TRACE(testing::Message() << size << " logits of spread " << spread);
      const auto logits = random_logits(size, spread, ++seed);
      Sampling s = sampling;
      s.min_keep = std::min(s.min_keep, uint32_t(size));
      Sampler sampler(with_all_logprobs(s, size), uint32_t(size));
      expect_same(distribution(sampler, logits), distribution(logits, s));
      if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(SamplingSteps, DefaultsAreSoftmax) { expect_as_reference({}); }

TEST(SamplingSteps, TopK) {
  for (const int32_t k : {-1, 0, 1, 2, 40, 64, 1000, 100'000}) expect_as_reference({.top_k = k});
}

TEST(SamplingSteps, TopP) {
  for (const float p : {0.f, 0.01f, 0.3f, 0.5f, 0.9f, 0.95f, 0.9999f, 1.f}) expect_as_reference({.top_p = p});
}

TEST(SamplingSteps, MinP) {
  for (const float p : {0.f, 1e-6f, 0.05f, 0.5f, 1.f}) expect_as_reference({.min_p = p});
}

TEST(SamplingSteps, TypicalP) {
  for (const float p : {0.f, 0.1f, 0.5f, 0.9f, 1.f}) expect_as_reference({.typical_p = p});
}

TEST(SamplingSteps, TopNSigma) {
  for (const float n : {-1.f, 0.f, 0.3f, 1.f, 2.5f, 100.f}) expect_as_reference({.top_n_sigma = n});
}

TEST(SamplingSteps, Xtc) {
  for (const float threshold : {0.f, 0.01f, 0.1f, 0.5f, 0.6f})
    expect_as_reference({.xtc_probability = 1, .xtc_threshold = threshold}, {1, 2, 7, 63, 65});
}

TEST(SamplingSteps, Temperature) {
  for (const float t : {0.f, 0.2f, 0.8f, 1.f, 3.f, 100.f}) expect_as_reference({.temperature = t});
}

TEST(SamplingSteps, DynamicTemperature) {
  for (const float t : {0.f, 0.5f, 1.f})
    for (const float exponent : {0.f, 0.7f, 1.f, 2.f})
      expect_as_reference({.temperature = t, .dynamic_range = 0.5f, .dynamic_exponent = exponent});
}

TEST(SamplingSteps, LogitBias) {
  expect_as_reference({.logit_bias = {{0, 3.5f}, {6, -2.f}}}, {7, 65, 1000});
  const auto logits = random_logits(100, 1, 1);
  Sampling s{.logit_bias = {{3, -without_bound}, {99, -without_bound}, {7, 100.f}}};
  Sampler sampler(with_all_logprobs(s, 100), 100);
  const auto found = distribution(sampler, logits);
  EXPECT_EQ(found.size(), 98u);
  EXPECT_FALSE(found.contains(3) || found.contains(99));
  EXPECT_NEAR(found.at(7), 1, 1e-6);
}

TEST(SamplingSteps, MinKeepHoldsForEveryCut) {
  const std::vector<Sampling> cuts = {
      {.top_k = 1}, {.top_p = 0}, {.min_p = 1}, {.typical_p = 0}, {.top_n_sigma = 0.01f}};
  for (Sampling s : cuts)
    for (const uint32_t keep : {1u, 5u, 64u, 100u}) {
      s.min_keep = keep;
      expect_as_reference(s);
      const auto logits = random_logits(1000, 2, keep);
      Sampler sampler(with_all_logprobs(s, 1000), 1000);
      EXPECT_EQ(distribution(sampler, logits).size(), keep);
    }
  expect_as_reference({.xtc_probability = 1, .xtc_threshold = 0.01f, .min_keep = 7}, {7, 8, 20, 63});
}

TEST(SamplingSteps, WholeChains) {
  const Sampling usual{.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
  expect_as_reference(usual);
  Sampling all = usual;
  all.typical_p = 0.9f;
  all.top_n_sigma = 2.1f;
  all.dynamic_range = 0.3f;
  all.logit_bias = {{0, 2.f}};
  expect_as_reference(all);
  all.min_keep = 3;
  all.xtc_probability = 1;
  expect_as_reference(all, {65, 1000, 5003});
  all.order = {"temperature", "min_p", "top_p", "top_k"};
  expect_as_reference(all);
  std::reverse(all.order.begin(), all.order.end());
  expect_as_reference(all);
  all.order = {};
  expect_as_reference(all);
}

TEST(SamplingSteps, OrderMatters) {
  const auto logits = random_logits(1000, 2, 5);
  const auto kept = [&](std::vector<std::string> order) {
    Sampling s{.temperature = 3, .top_p = 0.5f, .order = std::move(order)};
    Sampler sampler(with_all_logprobs(s, 1000), 1000);
    return distribution(sampler, logits).size();
  };
  EXPECT_LT(kept({"top_p", "temperature"}), kept({"temperature", "top_p"}) / 4);
  EXPECT_EQ(kept({"temperature"}), 1000u);
}

TEST(SamplingSteps, EqualLogitsAreKeptFromTheLowestId) {
  std::vector<float> logits(300, 1.f);
  logits[200] = 2;
  const auto ids = [&](const Sampling& s) {
    Sampler sampler(with_all_logprobs(s, 300), 300);
    std::vector<uint32_t> result;
    for (const auto& [id, p] : distribution(sampler, logits)) result.push_back(id);
    return result;
  };
  EXPECT_EQ(ids({.top_k = 3}), (std::vector<uint32_t>{0, 1, 200}));
  EXPECT_EQ(ids({.top_k = 250}).back(), 249u);
  EXPECT_EQ(ids({.top_k = 150}).at(148), 148u);
  EXPECT_EQ(ids({.top_p = 0, .min_keep = 4}), (std::vector<uint32_t>{0, 1, 2, 200}));
  EXPECT_EQ(ids({.temperature = 0}), (std::vector<uint32_t>{200}));
  logits[200] = 1;
  EXPECT_EQ(ids({.temperature = 0}), (std::vector<uint32_t>{0}));
  EXPECT_EQ(ids({.xtc_probability = 1, .xtc_threshold = 0.001f}), (std::vector<uint32_t>{299}));
}

TEST(SamplingSteps, TopPTakesTheLargestLogitsFirst) {
  const auto ids = [&](const std::vector<float>& logits) {
    const auto vocabulary = uint32_t(logits.size());
    Sampler sampler(with_all_logprobs({.top_p = 0.5f}, vocabulary), vocabulary);
    std::vector<uint32_t> result;
    for (const auto& [id, p] : distribution(sampler, logits)) result.push_back(id);
    return result;
  };
  // after rounding all are equally far below the largest, but tokens 1 and 2 are the smallest
  std::vector<float> logits(600, 0x1p-40f);
  logits[0] = 1;
  logits[1] = 0;
  logits[2] = -0x1p-40f;
  const auto kept = ids(logits);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), 1u) + std::count(kept.begin(), kept.end(), 2u), 0);
  EXPECT_EQ(kept.back(), kept.size() + 1);
  // zeros of both signs are equal, and 600 of them are more than are sorted at once
  std::vector<float> zeros(600, 0.f);
  zeros[0] = -0.f;
  EXPECT_EQ(ids(zeros).size(), 300u);
  EXPECT_EQ(ids(zeros).back(), 299u);
}

TEST(SamplingSteps, ALargeVocabulary) {
  const auto logits = random_logits(262'144, 2, 9);
  for (const Sampling& s : {Sampling{.temperature = 0.7f, .top_k = 100, .top_p = 0.9f}, Sampling{.top_p = 0.3f},
                            Sampling{.min_p = 0.1f}, Sampling{.top_n_sigma = 1}}) {
    Sampler sampler(with_all_logprobs(s, logits.size()), uint32_t(logits.size()));
    expect_same(distribution(sampler, logits), distribution(logits, s));
  }
}

}  // namespace
}  // namespace heddle::engine
