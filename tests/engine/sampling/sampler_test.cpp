// Picks: their frequencies, what a seed guarantees, log-probabilities, invalid logits, mirostat; and which samplings a
// device can do.
#include "engine/sampling/sampler.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "engine/sampling/numbers.h"
#include "tests/engine/sampling/reference.h"
#include "tests/support/refused.h"

namespace heddle::engine {
namespace {
using namespace reference;
constexpr float infinity = std::numeric_limits<float>::infinity();

// Sum over tokens of (drawn - expected)^2 / expected; those expected less than 10 times are taken together.
void expect_frequencies(const Sampling& s, const std::vector<float>& logits) {
  const auto expected = distribution(logits, s);
  constexpr int draws = 100'000;
  std::map<uint32_t, int> drawn;
  Sampler sampler(s, uint32_t(logits.size()));
  for (int i = 0; i < draws; ++i) ++drawn[sampler.pick(logits).id];
  double chi_square = 0, rare = 0, rare_drawn = 0;
  int cells = 0;
  const auto add = [&](double found, double wanted) {
    chi_square += (found - wanted) * (found - wanted) / wanted;
    ++cells;
  };
  for (const auto& [id, p] : expected) {
    if (p * draws < 10) {
      rare += p * draws;
      rare_drawn += drawn[id];
    } else {
      add(drawn[id], p * draws);
    }
    drawn.erase(id);
  }
  EXPECT_TRUE(drawn.empty()) << "token " << drawn.begin()->first << " is none of the candidates";
  if (rare >= 1) add(rare_drawn, rare);
  // mean cells - 1, variance 2 (cells - 1): five deviations are passed by chance once in a million
  EXPECT_LT(chi_square, cells - 1 + 5 * std::sqrt(2.0 * cells) + 5);
}

TEST(SamplerSlow, FrequenciesAreThoseOfTheDistribution) {
  const auto few = random_logits(20, 1.5f, 1), many = random_logits(500, 2, 2);
  for (const uint64_t seed : {0u, 1u, 77u}) {
    expect_frequencies({.seed = seed}, few);
    expect_frequencies({.seed = seed}, many);
    expect_frequencies({.temperature = 0.7f, .top_k = 10, .top_p = 0.9f, .seed = seed}, many);
    expect_frequencies({.temperature = 2, .min_p = 0.02f, .seed = seed}, many);
    expect_frequencies({.typical_p = 0.8f, .seed = seed}, many);
  }
}

// Larger than 2^18, as some vocabularies are; and the largest there may be.
TEST(Sampler, TakesLargeVocabularies) {
  for (uint32_t vocabulary : {262208u, 1u << 19}) {
    std::vector<float> logits(vocabulary, -3.0f);
    logits[vocabulary - 1] = 20.0f;
    for (float temperature : {0.0f, 1.0f}) {
      Sampling sampling;
      sampling.temperature = temperature;
      sampling.seed = 5;
      sampling.top_p = temperature > 0 ? 0.5f : 1.0f;
      EXPECT_EQ(Sampler(sampling, vocabulary).pick(logits).id, vocabulary - 1);
    }
    // all weigh the same: the sum of their weights is the largest there can be
    std::fill(logits.begin(), logits.end(), 1.0f);
    Sampling sampling;
    sampling.seed = 5;
    EXPECT_LT(Sampler(sampling, vocabulary).pick(logits).id, vocabulary);
  }
}

TEST(Sampler, XtcIsAppliedAsOftenAsAsked) {
  const std::vector<float> logits = {5, 5, -5, 4};  // 0 and 1 are likely, and 3 (0.16)
  Sampler sampler({.xtc_probability = 0.3f, .seed = 4}, 4);
  int removed = 0;
  for (int i = 0; i < 20'000; ++i) removed += sampler.pick(logits).id == 3;
  // with xtc always 3 (or 2, next to never), without in 0.1554 of the draws
  EXPECT_NEAR(removed / 20'000.0, 0.3 + 0.7 * 0.1554, 0.015);
}

std::vector<uint32_t> picks(Sampler& sampler, int count) {
  std::vector<uint32_t> ids;
  for (int i = 0; i < count; ++i) {
    ids.push_back(sampler.pick(random_logits(1000, 1, uint32_t(i))).id);
    sampler.accept(ids.back());
  }
  return ids;
}

TEST(Sampler, TheSameSeedPicksTheSame) {
  const Sampling s{
      .top_p = 0.95f, .xtc_probability = 0.5f, .repetition_penalty = 1.1f, .dry_multiplier = 1, .seed = 42};
  Sampler a(s, 1000), b(s, 1000);
  const auto first = picks(a, 30);
  EXPECT_EQ(picks(b, 30), first);
  Sampling other = s;
  other.seed = 43;
  Sampler c(other, 1000);
  EXPECT_NE(picks(c, 30), first);
}

TEST(Sampler, PicksTheseIdsOnEveryMachine) {
  // Logits of integers, so that nothing but the sampler decides. A change here breaks what a seed promises.
  Sampler sampler({.temperature = 0.9f, .top_k = 50, .top_p = 0.9f, .seed = 7}, 1000);
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 10; ++i) {
    std::vector<float> logits(1000);
    for (uint32_t id = 0; id < 1000; ++id) logits[id] = float(random_bits(i, id) % 1024) / 128;
    ids.push_back(sampler.pick(logits).id);
  }
  EXPECT_EQ(ids, (std::vector<uint32_t>{694, 672, 8, 139, 982, 280, 450, 381, 953, 18}));
}

TEST(Sampler, ACopyPicksTheSameUntilItIsReseeded) {
  Sampler a({.repetition_penalty = 1.2f, .repetition_last_n = 5}, 1000);
  picks(a, 7);
  Sampler b = a, c = a;
  c.reseed(a.seed() + 1);
  const auto next = picks(a, 20);
  EXPECT_EQ(picks(b, 20), next);
  EXPECT_NE(picks(c, 20), next);
}

TEST(Sampler, ARandomSeedCanBeAskedForAndUsedAgain) {
  Sampler a({}, 1000), b({}, 1000);
  EXPECT_NE(a.seed(), b.seed());
  Sampler again({.seed = a.seed()}, 1000);
  EXPECT_EQ(picks(again, 10), picks(a, 10));
}

// Whatever the chain: as if the logits of all others were -infinity. Log-probabilities are those of the model.
TEST(Sampler, PicksAmongAllowedTokens) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 3);
  for (uint32_t turn = 0; turn < 400; ++turn) {
    const uint32_t vocabulary = 3 + random() % 200;
    std::vector<float> logits(vocabulary);
    for (float& x : logits) x = normal(random);
    std::vector<uint32_t> allowed((vocabulary + 31) / 32);
    for (uint32_t i = 0; i < vocabulary; ++i)
      if (random() % 4 == 0) allowed[i / 32] |= 1u << i % 32;
    const uint32_t sure = random() % vocabulary;
    allowed[sure / 32] |= 1u << sure % 32;
    std::vector<float> masked = logits;
    for (uint32_t i = 0; i < vocabulary; ++i)
      if (!(allowed[i / 32] >> i % 32 & 1)) masked[i] = -INFINITY;
    Sampling sampling{.seed = turn};
    if (turn % 3 == 1) sampling.temperature = turn % 2 ? 0 : 0.7f;
    if (turn % 5 == 1) sampling.top_k = 3;
    if (turn % 5 == 2) sampling.top_p = 0.6f;
    if (turn % 5 == 3) sampling.min_p = 0.1f;
    if (turn % 7 == 1) sampling.typical_p = 0.8f;
    if (turn % 7 == 2) sampling.top_n_sigma = 1;
    if (turn % 7 == 3) sampling.mirostat = 2;
    if (turn % 7 == 4) sampling.repetition_penalty = 1.5f;
    if (turn % 7 == 5) sampling.dynamic_range = 0.5f;
    if (turn % 7 == 6) sampling.logit_bias = {{turn % vocabulary, 50.f}};
    sampling.logprobs = 3;
    Sampler among(sampling, vocabulary), of_masked(sampling, vocabulary);
    for (uint32_t i = 0; i < vocabulary; i += 3) {
      among.accept(i);
      of_masked.accept(i);
    }
    for (int i = 0; i < 3; ++i) {
      const Pick pick = among.pick(logits, allowed);
      EXPECT_EQ(pick.id, of_masked.pick(masked).id) << "turn " << turn;
      const Pick scored = score(logits, pick.id, 3);
      EXPECT_EQ(pick.log_probability, scored.log_probability);
      ASSERT_EQ(pick.top.size(), scored.top.size());
      EXPECT_EQ(pick.top[0].id, scored.top[0].id);
    }
  }
  EXPECT_REFUSED(Sampler({}, 3).pick(std::vector<float>(3), std::vector<uint32_t>{0}),
                 "none that the constraint allows");
  EXPECT_REFUSED(Sampler({}, 3).pick(std::vector<float>{0, 1, NAN}, std::vector<uint32_t>{1}), "found 1 NaN");
}

TEST(Sampler, LogProbabilitiesAreThoseOfTheModel) {
  const auto logits = random_logits(1000, 2, 3);
  const reference::Tokens model = from_logits(logits);
  Sampler sampler({.temperature = 0, .logit_bias = {{model[5].id, 50.f}}, .logprobs = 4}, 1000);
  const Pick pick = sampler.pick(logits);
  EXPECT_EQ(pick.id, model[5].id);
  EXPECT_NEAR(double(pick.log_probability), std::log(model[5].p), 1e-5);
  ASSERT_EQ(pick.top.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pick.top[i].id, model[i].id);
    EXPECT_NEAR(double(pick.top[i].log_probability), std::log(model[i].p), 1e-5);
  }
  Sampler after({.temperature = 0, .logprobs = 4, .logprobs_after = true}, 1000);
  const Pick greedy = after.pick(logits);
  EXPECT_EQ(greedy.id, model[0].id);
  EXPECT_EQ(greedy.log_probability, 0);
  EXPECT_EQ(greedy.top.size(), 1u);
  Sampler none({.logprobs = 0}, 1000);
  const Pick alone = none.pick(logits);
  EXPECT_TRUE(alone.top.empty());
  EXPECT_LT(alone.log_probability, 0);
}

TEST(Sampler, OneTokenPossible) {
  std::vector<float> logits(257, -infinity);
  logits[130] = -3e38f;
  const std::vector<Sampling> all = {{},
                                     {.temperature = 0},
                                     {.temperature = 0.01f, .dynamic_range = 1},
                                     {.top_k = 5},
                                     {.top_p = 0.1f},
                                     {.min_p = 0.5f},
                                     {.typical_p = 0.2f},
                                     {.top_n_sigma = 1},
                                     {.xtc_probability = 1, .xtc_threshold = 0.5f},
                                     {.top_p = 0.1f, .min_keep = 257},
                                     {.mirostat = 2}};
  for (Sampling s : all) {
    s.logprobs = 3;
    Sampler sampler(s, 257);
    const Pick pick = sampler.pick(logits);
    EXPECT_EQ(pick.id, 130u);
    EXPECT_EQ(pick.log_probability, 0);
    ASSERT_EQ(pick.top.size(), 1u);
  }
}

TEST(Sampler, ATinyTemperatureIsGreedy) {
  const auto logits = random_logits(1000, 1, 8);
  for (const float t : {1e-3f, 1e-10f, 1e-38f, 1e-45f}) {
    Sampler sampler({.temperature = t}, 1000);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(sampler.pick(logits).id, from_logits(logits)[0].id);
  }
  Sampler ties({.temperature = 1e-45f, .seed = 1}, 3);
  std::map<uint32_t, int> drawn;
  for (int i = 0; i < 1000; ++i) ++drawn[ties.pick(std::vector<float>{4, 1, 4}).id];
  EXPECT_NEAR(drawn[0], 500, 80);
  EXPECT_EQ(drawn[1], 0);
}

TEST(Sampler, BadLogitsAreRefused) {
  Sampler sampler({}, 200);
  std::vector<float> logits(200);
  logits[0] = logits[70] = logits[199] = std::numeric_limits<float>::quiet_NaN();
  logits[5] = infinity;
  EXPECT_REFUSED(sampler.pick(logits), "logits", "3 NaN and 1 +infinity among 200");
  EXPECT_REFUSED(sampler.pick(std::vector<float>(200, -infinity)), "logits", "at least one above -infinity", "none");
  Sampler banned({.temperature = 0, .logit_bias = {{0, -infinity}, {1, -infinity}}}, 2);
  EXPECT_REFUSED(banned.pick(std::vector<float>{1, 2}), "at least one above -infinity");
  EXPECT_THROW(sampler.pick(std::vector<float>(199)), std::logic_error);
  EXPECT_THROW(sampler.accept(200), std::logic_error);
}

TEST(Mirostat, ReachesTheSurpriseItAimsAt) {
  std::vector<std::vector<float>> source;  // 8.6 bits of entropy, thereabouts
  for (uint32_t i = 0; i < 50; ++i) source.push_back(random_logits(4000, 2, i));
  for (const float tau : {2.f, 4.f, 6.f}) {
    Sampler sampler(
        {.mirostat = 2, .mirostat_tau = tau, .mirostat_eta = 0.1f, .seed = 3, .logprobs = 0, .logprobs_after = true},
        4000);
    double bits = 0;
    for (uint32_t i = 0; i < 3000; ++i) {
      const Pick pick = sampler.pick(source[i % 50]);
      if (i >= 500) bits -= double(pick.log_probability) / std::log(2.0) / 2500;
    }
    EXPECT_NEAR(bits, double(tau), 0.1);
  }
}

TEST(Mirostat, ReplacesTheCutsOnly) {
  Sampling s{.top_k = 1, .mirostat = 2, .mirostat_tau = 100, .logit_bias = {{0, -infinity}}};
  Sampler sampler(with_all_logprobs(s, 100), 100);
  EXPECT_EQ(distribution(sampler, random_logits(100, 1, 1)).size(), 99u);
  Sampler greedy({.temperature = 0, .mirostat = 2}, 3);
  EXPECT_EQ(greedy.pick(std::vector<float>{1, 3, 2}).id, 1u);
}

std::optional<model::Picking> picking(const Sampling& sampling) { return device_picking(Sampler(sampling, 100)); }

TEST(DevicePicking, NothingIsOnByDefault) {
  const auto p = picking({.seed = 9});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->temperature, 1);
  EXPECT_EQ(p->top_k, 0u);
  EXPECT_EQ(p->top_p, 1);
  EXPECT_EQ(p->log_min_p, -INFINITY);
  EXPECT_EQ(p->repetition, 1);
  EXPECT_TRUE(p->biases.empty());
  EXPECT_EQ(p->seed, 9u);
  EXPECT_EQ(p->picks, 0u);
  EXPECT_TRUE(p->text.empty());
  EXPECT_FALSE(p->logprob);
}

TEST(DevicePicking, FieldsAreThoseOfTheSampling) {
  const auto p = picking({.temperature = 0.5f,
                          .top_k = 30,
                          .top_p = 0.9f,
                          .min_p = 0.05f,
                          .repetition_penalty = 1.1f,
                          .repetition_last_n = -1,
                          .presence_penalty = 0.5f,
                          .frequency_penalty = 0.25f,
                          .logit_bias = {{7, 1.5f}, {8, -INFINITY}},
                          .logprobs = 5});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->temperature, 0.5f);
  EXPECT_EQ(p->top_k, 30u);
  EXPECT_EQ(p->top_p, 0.9f);
  EXPECT_EQ(p->log_min_p, log_of(double(0.05f)));
  EXPECT_EQ(p->repetition, 1.1f);
  EXPECT_EQ(p->repetition_last, ~0u);
  EXPECT_EQ(p->presence, 0.5f);
  EXPECT_EQ(p->frequency, 0.25f);
  EXPECT_EQ(p->biases, (std::vector<std::pair<uint32_t, float>>{{7, 1.5f}, {8, -INFINITY}}));
  EXPECT_TRUE(p->logprob);
  EXPECT_EQ(p->top, 5u);
  EXPECT_EQ(picking({.logprobs = 0})->top, 0u);
  EXPECT_EQ(picking({.top_k = -1})->top_k, 0u);
  EXPECT_EQ(picking({.repetition_penalty = 2, .repetition_last_n = 0})->repetition, 1);
}

TEST(DevicePicking, AStepThatIsNotNamedIsNotApplied) {
  Sampling sampling{.temperature = 0.5f, .top_k = 3, .min_p = 0.1f, .order = {"top_k"}};
  const auto p = picking(sampling);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->temperature, 1);
  EXPECT_EQ(p->top_k, 3u);
  EXPECT_EQ(p->log_min_p, -INFINITY);
}

TEST(DevicePicking, AnotherOrderIsForTheHost) {
  EXPECT_FALSE(picking({.temperature = 0.5f, .top_k = 3, .order = {"temperature", "top_k"}}));
  EXPECT_FALSE(picking({.top_p = 0.5f, .min_p = 0.1f, .order = {"min_p", "top_p"}}));
  // what is off may stand anywhere
  EXPECT_TRUE(picking({.top_k = 3, .order = {"temperature", "top_k"}}));
  EXPECT_TRUE(picking({.temperature = 0.5f, .order = {"temperature", "dry", "xtc", "top_k"}}));
}

TEST(DevicePicking, StepsThatTheDeviceDoesNotHave) {
  const std::vector<std::function<void(Sampling&)>> changes{
      [](Sampling& s) { s.dry_multiplier = 0.8f; },
      [](Sampling& s) { s.xtc_probability = 0.5f; },
      [](Sampling& s) { s.typical_p = 0.9f; },
      [](Sampling& s) { s.mirostat = 2; },
      [](Sampling& s) { s.top_n_sigma = 1; },
      [](Sampling& s) { s.dynamic_range = 0.2f; },
      [](Sampling& s) { s.min_keep = 2; },

      [](Sampling& s) {
        s.logprobs = 0;
        s.logprobs_after = true;
      },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Sampling sampling;
    changes[i](sampling);
    EXPECT_FALSE(picking(sampling)) << i;
  }
}

}  // namespace
}  // namespace heddle::engine
