// Batches that follow one another on a device, and tokens that it picks: nothing of that shows in the answers, and no
// more than is needed goes to the device and comes back.
#include <gtest/gtest.h>

#include "tests/engine/house.h"

namespace heddle::test::fake {
namespace {

using engine::FinishReason;
using engine::no_limit;
using engine::Request;

using DeviceHouse = House<FakeDevice>;

TEST(EngineStep, AStreamAloneIsBatchesThatFollow) {
  DeviceHouse house(fake_limits(64));
  Request request = seeded(some_tokens(10), 150, 3);
  request.sampling.logprobs = 0;
  house.submit(request);
  house.run();
  house.expect_as_alone();
  EXPECT_EQ(house.backend.launched, 150u) << "the prompt, and all tokens but the last";
  EXPECT_EQ(house.backend.followed, 149u - 3) << "64, 64 and 21";
  EXPECT_EQ(house.backend.taken, 150u);
  EXPECT_EQ(house.backend.picks, 150u);
  EXPECT_EQ(house.backend.logits_rows, 0u);
  EXPECT_EQ(house.metrics().generated, 150u);
}

TEST(EngineStep, PenaltiesLookAtTheWholeText) {
  DeviceHouse house(fake_limits(64), {.speculation = engine::Speculation::off});
  for (uint32_t i = 0; i < 3; ++i) {
    Request request = seeded(some_tokens(10, i), 40, i);
    request.sampling.repetition_penalty = 1.5f;
    request.sampling.presence_penalty = float(i);
    house.submit(request);
  }
  house.run();
  house.expect_as_alone();
  EXPECT_GT(house.backend.followed, 25u);
  EXPECT_EQ(house.backend.picks + house.backend.logits_rows, 120u);
  EXPECT_LT(house.backend.logits_rows, 20u) << "while others had no token yet";
}

TEST(EngineStep, TheNextBatchIsLaunchedBeforeATokenIsRead) {
  DeviceHouse house(fake_limits(64));
  house.submit(seeded(some_tokens(10), 40, 3), [&](const engine::Event& event) {
    const uint32_t under_way = house.backend.launched - house.backend.taken;
    if (event.finish_reason == FinishReason::none && house.backend.followed > 0 && house.backend.taken < 39) {
      EXPECT_EQ(under_way, 1u) << "token " << house.backend.taken;
    }
    EXPECT_LE(under_way, 1u);
  });
  house.run();
  EXPECT_EQ(house.backend.taken, 40u);
}

// A request that only the host can sample, or that looks at its text, costs its own logits, not those of all others.
TEST(EngineStep, OnlyRowsThatTheHostPicksSendTheirLogits) {
  constexpr uint32_t others = 6, length = 30;
  const std::vector<std::function<void(engine::Sampling&)>> odd = {
      [](engine::Sampling& s) { s.logprobs = 3; },         [](engine::Sampling& s) { s.dry_multiplier = 0.8f; },
      [](engine::Sampling& s) { s.typical_p = 0.8f; },     [](engine::Sampling& s) { s.mirostat = 2; },
      [](engine::Sampling& s) { s.presence_penalty = 1; }, [](engine::Sampling& s) { s.repetition_penalty = 1.2f; }};
  for (size_t i = 0; i < odd.size(); ++i) {
    SCOPED_TRACE(i);
    DeviceHouse house(fake_limits(400), {.speculation = engine::Speculation::off});
    house.backend.followed_rows = 0;  // as for more rows than a device lets follow
    for (uint32_t other = 0; other < others; ++other) house.submit(seeded(some_tokens(10, other), length, other));
    Request request = seeded(some_tokens(12), length, 3);
    odd[i](request.sampling);
    house.submit(request);
    house.run();
    house.expect_as_alone();
    EXPECT_EQ(house.backend.logits_rows, length);
    EXPECT_EQ(house.backend.picks, others * length);
  }
}

TEST(EngineStep, AnArrivalIsNotKeptWaiting) {
  DeviceHouse house(fake_limits(64));
  house.submit(seeded(some_tokens(10), 60, 3));
  for (int i = 0; i < 10; ++i) house.step();
  EXPECT_TRUE(house.backend.waits());
  const auto second = house.submit(seeded(some_tokens(10, 2), 60, 4));
  for (int i = 0; i < 4; ++i) house.step();
  EXPECT_GE(house.answer(second).picks.size(), 1u);
  house.run();
  house.expect_as_alone();
  EXPECT_EQ(house.backend.taken, house.backend.launched) << "what was under way was given out";
  EXPECT_EQ(house.backend.dropped, 0u);
}

TEST(EngineStep, WhatWasPickedBeyondAnEndIsNotGivenOut) {
  DeviceHouse house(fake_limits(64));
  const auto first = house.submit(greedy(some_tokens(10), 60));
  house.run();
  Request request = greedy(some_tokens(10), 60);
  request.stops = {{house.answer(first).tokens()[20], house.answer(first).tokens()[21]}};
  const auto stopped = house.submit(request);
  house.submit(seeded(some_tokens(7, 2), 50, 9));
  house.run();
  EXPECT_LE(house.answer(stopped).generated, 22u);
  house.expect_as_alone();
}

TEST(EngineStep, NothingIsComputedForLongAfterItsEnd) {
  DeviceHouse house(fake_limits(64));
  house.submit(seeded(some_tokens(10, 2), 60, 9));
  const auto first = house.submit(greedy(some_tokens(10), 60));
  house.run();
  Request request = greedy(some_tokens(10), 60);
  request.stops = {{house.answer(first).tokens()[9], house.answer(first).tokens()[10]}};
  const uint64_t rows = house.backend.launched_rows;
  const auto stopped = house.submit(request);
  const auto other = house.submit(seeded(some_tokens(10, 2), 60, 9));
  house.run();
  const uint32_t made = house.answer(stopped).generated + house.answer(other).generated;
  EXPECT_LT(house.answer(stopped).generated, 20u);
  EXPECT_LE(house.backend.launched_rows - rows, 2 * 10 + made + 2u);
}

TEST(EngineStep, TheContextIsTheEnd) {
  for (const uint32_t context : {20u, 21u, 22u, 23u, 50u}) {
    DeviceHouse house(fake_limits(64), {}, fake_model(context));
    house.submit(greedy(some_tokens(3), no_limit));
    house.submit(seeded(some_tokens(6, 2), no_limit, 4));
    house.run();
    house.expect_as_alone();
    EXPECT_GT(house.backend.followed, 5u);
  }
}

TEST(EngineStep, CancelsArePrompt) {
  DeviceHouse house(fake_limits(64));
  const auto first = house.submit(seeded(some_tokens(10), 60, 3));
  const auto second = house.submit(seeded(some_tokens(10, 2), 60, 4));
  for (int i = 0; i < 10; ++i) house.step();
  EXPECT_TRUE(house.backend.waits());
  house.engine->cancel(first);
  house.step();
  EXPECT_EQ(house.answer(first).finish_reason, FinishReason::cancelled);
  EXPECT_EQ(house.answer(first).generated, 10u);
  house.step();
  house.engine->cancel(second);
  house.step();
  EXPECT_EQ(house.answer(second).finish_reason, FinishReason::cancelled);
  EXPECT_TRUE(house.engine->idle());
  const auto third = house.submit(seeded(some_tokens(10), 60, 3));
  house.run();
  expect_same(house.answer(third), house.alone(third));
}

TEST(EngineStep, MoreRowsThanCanFollowArePickedBatchByBatch) {
  DeviceHouse house(fake_limits(200), {.speculation = engine::Speculation::off});
  house.backend.followed_rows = 2;
  for (uint32_t i = 0; i < 3; ++i) house.submit(seeded(some_tokens(10, i), 30, i));
  house.run();
  house.expect_as_alone();
  EXPECT_EQ(house.backend.followed, 0u);
  EXPECT_EQ(house.backend.logits_rows, 0u);
}

TEST(EngineStep, OnlyTheHostCanDoSomeSamplings) {
  DeviceHouse house(fake_limits(64));
  Request request = seeded(some_tokens(10), 30, 3);
  request.sampling.typical_p = 0.8f;
  house.submit(request);
  house.submit(seeded(some_tokens(10, 2), 20, 3));
  house.run();
  house.expect_as_alone();
  EXPECT_EQ(house.backend.followed, 0u);
}

TEST(EngineStep, FaultsFailTheirRows) {
  DeviceHouse house(fake_limits(64));
  const auto first = house.submit(seeded(some_tokens(10), 60, 3));
  for (int i = 0; i < 10; ++i) house.step();
  house.backend.fault("lost its way");
  house.run();
  EXPECT_EQ(house.answer(first).finish_reason, FinishReason::failed);
  EXPECT_EQ(house.answer(first).reason, "lost its way");
  EXPECT_EQ(house.metrics().blocks_cached, 0u);
  const auto second = house.submit(seeded(some_tokens(10), 60, 3));
  house.run();
  expect_same(house.answer(second), house.alone(second));
  const auto third = house.submit(seeded(some_tokens(10, 2), 60, 3));
  for (int i = 0; i < 10; ++i) house.step();
  house.backend.fault("gone", true);
  house.step();
  EXPECT_EQ(house.answer(third).reason, "gone");
  EXPECT_EQ(house.engine->stopped(), "gone");
}

TEST(EngineStep, NothingToPickFailsTheRow) {
  DeviceHouse house(fake_limits(64));
  house.backend.nothing_at = 21;
  const auto first = house.submit(seeded(some_tokens(10), 60, 3));
  const auto second = house.submit(seeded(some_tokens(10, 2), 60, 3));
  house.run();
  const bool which = house.answer(first).finish_reason == FinishReason::failed;
  const auto failed = which ? first : second, other = which ? second : first;
  EXPECT_EQ(house.answer(failed).finish_reason, FinishReason::failed);
  EXPECT_EQ(house.answer(failed).reason, "the logits have no token that can be picked");
  EXPECT_LT(house.answer(failed).generated, 20u);
  expect_same(house.answer(failed), house.alone(failed), false);
  expect_same(house.answer(other), house.alone(other));
}

TEST(EngineStep, IsAsGoodWithHardlyAnyMemory) {
  for (const uint32_t blocks : {6u, 9u, 14u, 30u}) {
    DeviceHouse house(fake_limits(blocks));
    for (uint32_t i = 0; i < 4; ++i) house.submit(seeded(some_tokens(3, i), 18, i));
    house.submit(seeded(some_tokens(7), no_limit, 3));
    house.run();
    house.expect_as_alone();
    EXPECT_GT(house.backend.followed, 0u);
  }
}

TEST(EngineStep, GuessesArePickedOnTheDeviceToo) {
  DeviceHouse house(fake_limits(200), {.speculation = engine::Speculation::on}, fake_model(256, 16, 5));
  for (uint32_t i = 0; i < 4; ++i) house.submit(seeded(some_tokens(20, i), 100, i));
  house.run();
  house.expect_as_alone();
  EXPECT_GT(house.metrics().accepted, 100u);
  EXPECT_EQ(house.backend.logits_rows, 0u);
}

TEST(EngineStep, TooManyBiasesAreLeftToTheHost) {
  DeviceHouse house(fake_limits(200), {.speculation = engine::Speculation::off});
  house.backend.max_biases = 3;
  Request odd = seeded(some_tokens(5), 20, 1);
  for (uint32_t i = 0; i < 5; ++i) odd.sampling.logit_bias[i] = 0.1f;
  house.submit(odd);
  house.run();
  EXPECT_EQ(house.backend.followed, 0u);
  EXPECT_EQ(house.backend.logits_rows, 20u);
  house.submit(seeded(some_tokens(5, 2), 60, 2));
  house.run();
  EXPECT_GT(house.backend.followed, 50u);
  house.expect_as_alone();
}

}  // namespace
}  // namespace heddle::test::fake
