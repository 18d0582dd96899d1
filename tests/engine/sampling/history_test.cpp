// Penalties on tokens seen before, and on repetitions, by value.
#include "engine/sampling/history.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "engine/sampling/sampler.h"
#include "tests/engine/sampling/reference.h"

namespace heddle::engine {
namespace {
using namespace reference;
using Ids = std::vector<uint32_t>;

TEST(TokenWindow, KeepsTheLastAndNamesWhatLeaves) {
  for (const int32_t limit : {0, 1, 2, 3, 7, 100, -1}) {
    TokenWindow window(limit);
    Ids all;
    for (uint32_t token = 0; token < 50; ++token) {
      const size_t before = window.tokens().size();
      const auto left = window.push(token);
      all.push_back(token);
      const size_t expected = limit < 0 ? all.size() : std::min(all.size(), size_t(limit));
      ASSERT_EQ(Ids(window.tokens().begin(), window.tokens().end()), Ids(all.end() - ptrdiff_t(expected), all.end()));
      ASSERT_EQ(left.has_value(), limit > 0 && before == size_t(limit));
      if (left) {
        ASSERT_EQ(*left, all[all.size() - 1 - size_t(limit)]);
      }
    }
  }
}

// By definition: every earlier place, every length.
std::unordered_map<uint32_t, size_t> repetitions_by_hand(const Ids& text, size_t allowed, size_t limit) {
  std::unordered_map<uint32_t, size_t> longest;
  for (size_t next = 1; next < text.size(); ++next)
    for (size_t length = 1; length <= std::min(next, limit); ++length)
      if (length >= allowed &&
          std::equal(text.end() - ptrdiff_t(length), text.end(), text.begin() + ptrdiff_t(next - length)))
        longest[text[next]] = std::max(longest[text[next]], length);
  return longest;
}

TEST(Repetitions, AreThoseFoundByHand) {
  EXPECT_EQ(prolonged_repetitions(Ids{1, 2, 3, 3, 2, 3, 9, 1, 2, 3}, 1, 100),
            (std::unordered_map<uint32_t, size_t>{{3, 3}, {2, 1}, {9, 2}}));
  EXPECT_TRUE(prolonged_repetitions({}, 1, 100).empty());
  EXPECT_TRUE(prolonged_repetitions(Ids{5}, 1, 100).empty());
  EXPECT_TRUE(prolonged_repetitions(Ids{1, 2, 1, 2}, 3, 2).empty());
  std::mt19937 generator(1);
  for (int round = 0; round < 400; ++round) {
    Ids text(generator() % 60);
    const uint32_t letters = 1 + generator() % 4;
    for (uint32_t& token : text) token = generator() % letters;
    const size_t allowed = 1 + generator() % 4, limit = generator() % 20;
    ASSERT_EQ(prolonged_repetitions(text, allowed, limit), repetitions_by_hand(text, allowed, limit));
  }
}

TEST(Repetitions, TakeLinearTime) {
  const Ids same(300'000, 7);  // quadratic would be 9e10 comparisons
  EXPECT_EQ(prolonged_repetitions(same, 2, same.size()).at(7), same.size() - 1);
}

TEST(Breakers, TheLastCompleteOneCounts) {
  const Breakers breakers({{9}, {1, 2, 3}, {3, 3}});
  EXPECT_EQ(breakers.tokens_after(Ids{}), 0u);
  EXPECT_EQ(breakers.tokens_after(Ids{4, 5, 6}), 3u);
  EXPECT_EQ(breakers.tokens_after(Ids{4, 9, 5, 6}), 2u);
  EXPECT_EQ(breakers.tokens_after(Ids{1, 2, 3, 5}), 1u);
  EXPECT_EQ(breakers.tokens_after(Ids{2, 3, 5}), 3u);  // cut at the beginning
  EXPECT_EQ(breakers.tokens_after(Ids{9, 3, 3}), 0u);
  EXPECT_TRUE(breakers.is_one(9));
  EXPECT_FALSE(breakers.is_one(3) || breakers.is_one(1) || breakers.is_one(5));
}

// ln of the probability of each token against that of one no penalty touches: the penalty, by value.
std::vector<double> shifts(Sampler& sampler, const std::vector<float>& logits, uint32_t untouched) {
  const auto p = distribution(sampler, logits);
  std::vector<double> result;
  for (uint32_t id = 0; id < logits.size(); ++id)
    result.push_back(std::log(p.at(id) / p.at(untouched)) - double(logits[id]) + double(logits[untouched]));
  return result;
}

TEST(Penalties, RepetitionLooksAtItsWindowPromptIncluded) {
  Sampling s{.repetition_penalty = 2, .repetition_last_n = 3};
  Sampler sampler(with_all_logprobs(s, 6), 6);
  const std::vector<float> logits = {1, -1, 0.5f, 2, 0, 0.25f};
  for (const uint32_t token : {0u, 1u, 3u}) sampler.accept(token, Origin::prompt);
  auto found = shifts(sampler, logits, 5);
  const std::vector<double> expected = {-0.5, -1, 0, -1, 0, 0};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
  for (const uint32_t token : {1u, 1u}) sampler.accept(token);  // 3 1 1: the first 1 left, others came
  found = shifts(sampler, logits, 5);
  const std::vector<double> later = {0, -1, 0, -1, 0, 0};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(found[i], later[i], 1e-5) << i;
}

TEST(Penalties, PresenceAndFrequencyCountWhatWasGenerated) {
  Sampling s{.presence_penalty = 0.5f, .frequency_penalty = 0.25f};
  Sampler sampler(with_all_logprobs(s, 5), 5);
  for (const uint32_t token : {0u, 1u, 1u}) sampler.accept(token, Origin::prompt);
  for (int i = 0; i < 100; ++i) sampler.accept(3);
  sampler.accept(1);
  sampler.accept(2);
  sampler.accept(2);
  const auto found = shifts(sampler, {0, 1, 2, 20, 3}, 4);
  const std::vector<double> expected = {0, -0.75, -1, -25.5, 0};
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
}

TEST(Penalties, AfterACutThoseCutStayCut) {
  Sampling s{.top_k = 2, .repetition_penalty = 1.5f, .order = {"top_k", "penalties"}};
  Sampler sampler(with_all_logprobs(s, 4), 4);
  for (const uint32_t token : {1u, 3u}) sampler.accept(token);
  const auto found = distribution(sampler, {2, 3, 0, 1});
  EXPECT_EQ(found.size(), 2u);
  EXPECT_NEAR(found.at(0), 0.5, 1e-6);
  EXPECT_NEAR(found.at(1), 0.5, 1e-6);
}

TEST(Dry, PenalisesWhatProlongsARepetition) {
  Sampling s{.dry_multiplier = 0.8f, .dry_base = 2, .dry_allowed_length = 2, .dry_breakers = {{8}, {6, 7}}};
  const std::vector<float> logits(10, 1.f);
  const auto penalties = [&](const Ids& text) {
    Sampler sampler(with_all_logprobs(s, 10), 10);
    for (const uint32_t token : text) sampler.accept(token, Origin::prompt);
    return shifts(sampler, logits, 9);
  };
  EXPECT_NEAR(penalties({1, 2, 3, 4, 1, 2})[3], -0.8, 1e-5);        // 1 2: length 2
  EXPECT_NEAR(penalties({0, 1, 2, 3, 4, 0, 1, 2})[3], -1.6, 1e-5);  // 0 1 2: length 3
  EXPECT_NEAR(penalties({2, 3, 4, 5, 2})[3], 0, 1e-5);              // 2: allowed
  EXPECT_NEAR(penalties({0, 1, 2, 3, 0, 8, 1, 2})[3], -0.8, 1e-5);  // the breaker ends it after 1 2
  EXPECT_NEAR(penalties({0, 1, 2, 3, 0, 1, 8, 2})[3], 0, 1e-5);
  EXPECT_NEAR(penalties({7, 1, 2, 3, 6, 7, 1, 2})[3], -0.8, 1e-5);  // 7 1 2 would be 3 long
  EXPECT_NEAR(penalties({1, 2, 8, 0, 1, 2})[8], 0, 1e-5);           // breakers themselves are free
  EXPECT_NEAR(penalties({1, 2, 7, 0, 1, 2})[7], -0.8, 1e-5);        // unless they are longer
  for (const double shift : penalties({1, 2, 3, 4, 5})) EXPECT_NEAR(shift, 0, 1e-5);
  s.dry_penalty_last_n = 5;
  EXPECT_NEAR(penalties({0, 1, 2, 3, 4, 1, 2})[3], 0, 1e-5);  // 2 3 4 1 2 is all that is looked at
  EXPECT_NEAR(penalties({1, 2, 3, 1, 2})[3], -0.8, 1e-5);
}

TEST(Dry, ALongRepetitionIsNoBan) {
  Sampling s{.dry_multiplier = 1, .dry_base = 4};
  Sampler sampler(with_all_logprobs(s, 3), 3);
  for (int i = 0; i < 5000; ++i) sampler.accept(1);
  EXPECT_NE(sampler.pick(std::vector<float>{0, 50, 0}).id, 1u);
  EXPECT_EQ(sampler
                .pick(std::vector<float>{-std::numeric_limits<float>::infinity(), 50,
                                         -std::numeric_limits<float>::infinity()})
                .id,
            1u);
}

}  // namespace
}  // namespace heddle::engine
