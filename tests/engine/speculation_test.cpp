// Proposals from the text so far, when they pay, and that they change nothing but the time.
#include "engine/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/engine/engine_fixture.h"

namespace heddle::engine {
namespace {

using Tokens = std::vector<uint32_t>;

PromptLookup after(const Tokens& text) {
  PromptLookup lookup;
  lookup.accept(text);
  return lookup;
}

// The reference: a search through the whole text.
Tokens proposed_slowly(const Tokens& text, uint32_t count) {
  for (size_t length = 4; length >= 2; --length) {
    if (text.size() < length) continue;
    for (size_t end = text.size() - 1; end >= length; --end) {
      if (!std::equal(text.end() - long(length), text.end(), text.begin() + long(end - length))) continue;
      Tokens all = text;
      for (uint32_t i = 0; i < count; ++i) all.push_back(all[end + i]);
      return {all.end() - count, all.end()};
    }
  }
  return {};
}

TEST(PromptLookup, ProposesNothingAfterNewText) {
  EXPECT_EQ(after({}).propose(4), Tokens());
  EXPECT_EQ(after({7}).propose(4), Tokens());
  EXPECT_EQ(after({1, 2, 3, 4, 5}).propose(4), Tokens());
  EXPECT_EQ(after({5, 1, 5}).propose(4), Tokens());  // one token is not enough
}

TEST(PromptLookup, ContinuesAsTheTextDid) {
  EXPECT_EQ(after({1, 2, 3, 4, 5, 1, 2}).propose(3), Tokens({3, 4, 5}));
  EXPECT_EQ(after({1, 2, 3, 4, 5, 1, 2}).propose(0), Tokens());
  EXPECT_EQ(after({1, 2, 8, 1, 2, 9, 1, 2}).propose(1), Tokens({9}));                 // the latest place
  EXPECT_EQ(after({0, 1, 2, 8, 5, 1, 2, 9, 0, 1, 2}).propose(1), Tokens({8}));        // unless an older one is longer
  EXPECT_EQ(after({7, 0, 1, 2, 8, 0, 1, 2, 9, 7, 0, 1, 2}).propose(1), Tokens({8}));  // four tokens count
  EXPECT_EQ(after({9, 7, 0, 1, 2, 8, 7, 0, 1, 2, 3, 9, 7, 0, 1, 2}).propose(1), Tokens({3}));  // five do not
}

TEST(PromptLookup, RepeatsWhatRepeatsItself) {
  EXPECT_EQ(after({6, 6, 6}).propose(5), Tokens({6, 6, 6, 6, 6}));
  EXPECT_EQ(after({1, 2, 3, 1, 2, 3, 1, 2}).propose(8), Tokens({3, 1, 2, 3, 1, 2, 3, 1}));
}

TEST(PromptLookup, AgreesWithASearchOfTheText) {
  for (const uint32_t vocabulary : {1u, 2u, 3u, 7u, 40u}) {
    std::mt19937 random(vocabulary);
    PromptLookup lookup;
    Tokens text;
    for (int i = 0; i < 700; ++i) {
      text.push_back(random() % vocabulary + (i % 2 ? 0xfffffff0u : 0));
      lookup.accept(text.back());
      ASSERT_EQ(lookup.propose(6), proposed_slowly(text, 6)) << vocabulary << " tokens, " << i;
    }
  }
}

TEST(PromptLookup, CopiesAreIndependent) {
  PromptLookup one = after({1, 2, 3, 4}), other = one;
  one.accept(1);
  one.accept(2);
  other.accept(3);
  other.accept(4);
  EXPECT_EQ(one.propose(2), Tokens({3, 4}));
  EXPECT_EQ(other.propose(2), Tokens({3, 4}));
  EXPECT_EQ(after({1, 2, 3, 4}).propose(2), Tokens());
}

TEST(PromptLookup, TakesALongText) {
  PromptLookup random_text, one_token;
  std::mt19937 random(1);
  for (uint32_t i = 0; i < 50'000; ++i) {
    random_text.accept(uint32_t(random()) % 1000);
    one_token.accept(0);
  }
  EXPECT_EQ(one_token.propose(3), Tokens({0, 0, 0}));
}

// How many of `steps` steps proposed something, if each proposal is right with this chance.
struct Tally {
  uint32_t speculated = 0, proposed = 0, generated = 0;
};
Tally run_lookup(Payoff& payoff, double chance, const Price& price, uint32_t steps, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  Tally result;
  for (uint32_t i = 0; i < steps; ++i) {
    const uint32_t count = payoff.next(price);
    ++result.generated;
    if (count == 0) continue;
    uint32_t right = 0;
    while (right < count && double(random() >> 11) * 0x1p-53 < chance) ++right;
    payoff.add(count, right);
    ++result.speculated;
    result.proposed += count;
    result.generated += right;
  }
  return result;
}

constexpr Price cheap{.row = 0.02}, dear{.row = 0.5};

TEST(Payoff, TurnsItselfOffWhereNothingIsRight) {
  for (const Price& price : {Price{}, cheap, dear}) {
    Payoff payoff;
    run_lookup(payoff, 0, price, 100);
    EXPECT_LT(run_lookup(payoff, 0, price, 4000).speculated, 40u) << price.row;
    EXPECT_LT(run_lookup(payoff, 0.02, price, 4000).speculated, 200u) << price.row;
  }
}

TEST(Payoff, StaysOnWhereAllIsRight) {
  Payoff payoff;
  const Tally all = run_lookup(payoff, 1, cheap, 1000);
  EXPECT_EQ(all.speculated, 1000u);
  EXPECT_GT(all.generated, 8500u);
}

TEST(Payoff, ComesBackWhenTheTextBeginsToRepeatItself) {
  Payoff payoff;
  run_lookup(payoff, 0, cheap, 5000);
  EXPECT_EQ(payoff.next(cheap), 0u);
  run_lookup(payoff, 1, cheap, 520);  // the longest pause and a few looks
  EXPECT_EQ(run_lookup(payoff, 1, cheap, 100).generated, 900u);
  run_lookup(payoff, 0, cheap, 40);
  EXPECT_LT(run_lookup(payoff, 0, cheap, 100).speculated, 10u);
}

TEST(Payoff, ProposesMoreWhereMoreIsRight) {
  const auto usual = [](double chance, const Price& price) {
    Payoff payoff;
    run_lookup(payoff, chance, price, 200);
    const Tally later = run_lookup(payoff, chance, price, 2000);
    return double(later.proposed) / later.speculated;
  };
  EXPECT_GT(usual(0.95, cheap), 5);
  EXPECT_LT(usual(0.3, cheap), 4);
  EXPECT_LT(usual(0.7, dear), usual(0.7, cheap));
}

TEST(Payoff, NeverBeginsWhereItCanNeverPay) {
  Payoff payoff;
  EXPECT_EQ(run_lookup(payoff, 1, {.row = 1}, 1000).speculated, 0u);
  EXPECT_EQ(run_lookup(payoff, 1, {.row = 0, .once = 8}, 1000).speculated, 0u);
  Payoff none(0);
  EXPECT_EQ(run_lookup(none, 1, {}, 100).speculated, 0u);
}

// Whatever the text, it must not cost much more than it brings.
TEST(Payoff, LosesLittle) {
  for (const Price& price : {cheap, Price{.row = 0.1}, dear})
    for (const double chance : {0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95}) {
      Payoff payoff;
      const uint32_t steps = 20'000;
      const Tally all = run_lookup(payoff, chance, price, steps, 7);
      EXPECT_GT(all.generated / (steps + all.proposed * price.row), 0.97) << chance << " at " << price.row;
    }
}

}  // namespace
}  // namespace heddle::engine

namespace heddle::test::fake {
namespace {

using engine::Request;

TEST(Speculation, DoesNotChangeTheTokens) {
  for (const auto speculation : {engine::Speculation::on, engine::Speculation::automatic, engine::Speculation::off}) {
    EngineFixture<> fixture(fake_limits(200), {.speculation = speculation}, fake_model(256, 16, 5));
    for (uint32_t i = 0; i < 6; ++i) {
      Request request = seeded(some_tokens(20, i), 100, i);
      if (i % 2) request.sampling.temperature = 0;
      if (i == 4) request.sampling.presence_penalty = 0.5f;
      if (i == 5) request.sampling.logprobs = 2;
      fixture.submit(request);
    }
    fixture.run();
    fixture.expect_as_alone();
    const bool on = speculation != engine::Speculation::off;
    EXPECT_EQ(fixture.metrics().accepted > 100, on)
        << fixture.metrics().accepted << " of " << fixture.metrics().proposed;
    EXPECT_EQ(fixture.backend.batches < 95, on);
  }
}

TEST(Speculation, EndsWithTheContextAndTheLength) {
  for (uint32_t max_tokens : {0u, 1u, 2u, 3u, 17u, 30u}) {
    EngineFixture<> fixture(fake_limits(50), {.speculation = engine::Speculation::on}, fake_model(41, 16, 9));
    fixture.submit(greedy(some_tokens(15), max_tokens));
    fixture.run();
    fixture.expect_as_alone();
  }
}

}  // namespace
}  // namespace heddle::test::fake
