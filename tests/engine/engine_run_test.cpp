// Streams that a device lets go on by itself, and its picks: nothing of that shows in the tokens.
#include <gtest/gtest.h>

#include "tests/engine/device_backend.h"
#include "tests/engine/house.h"

namespace heddle::test::fake {
namespace {

using engine::FinishReason;
using engine::no_limit;
using engine::Request;

using DeviceHouse = House<DeviceBackend>;

TEST(EngineRun, AQuietStreamGoesOnByItself) {
  DeviceHouse house(fake_limits(64));
  Request request = seeded(some_tokens(10), 150, 3);
  request.sampling.logprobs = 0;
  house.submit(request);
  house.run();
  house.expect_as_alone();
  EXPECT_EQ(house.backend.begun, 3u) << "64, 64 and 21";
  EXPECT_EQ(house.backend.launched, 149u);
  EXPECT_EQ(house.backend.batches, 1u);
  EXPECT_EQ(house.metrics().generated, 150u);
}

TEST(EngineRun, PenaltiesLookAtTheWholeText) {
  DeviceHouse house(fake_limits(64));
  for (uint32_t i = 0; i < 3; ++i) {
    Request request = seeded(some_tokens(10, i), 40, i);
    request.sampling.repetition_penalty = 1.5f;
    request.sampling.presence_penalty = float(i);
    house.submit(request);
  }
  house.run();
  house.expect_as_alone();
  EXPECT_GT(house.backend.launched, 30u);
  EXPECT_EQ(house.backend.picked_batches, 0u);
}

TEST(EngineRun, AnArrivalEndsIt) {
  DeviceHouse house(fake_limits(64));
  house.submit(seeded(some_tokens(10), 60, 3));
  for (int i = 0; i < 10; ++i) house.step();
  EXPECT_TRUE(house.backend.stepping);
  const auto second = house.submit(seeded(some_tokens(10, 2), 60, 4));
  for (int i = 0; i < 4; ++i) house.step();
  EXPECT_GE(house.answer(second).picks.size(), 1u);
  house.run();
  house.expect_as_alone();
  EXPECT_EQ(house.backend.taken, house.backend.launched) << "what was under way was given out";
}

TEST(EngineRun, EndsAreKeptAndWhatWasPickedBeyondIsNotTold) {
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
  EXPECT_FALSE(house.backend.stepping);
}

TEST(EngineRun, NobodyIsComputedForLongAfterItsEnd) {
  DeviceHouse house(fake_limits(64));
  house.submit(seeded(some_tokens(10, 2), 60, 9));
  const auto first = house.submit(greedy(some_tokens(10), 60));
  house.run();
  Request request = greedy(some_tokens(10), 60);
  request.stops = {{house.answer(first).tokens()[9], house.answer(first).tokens()[10]}};
  const uint64_t rows = house.backend.rows, launched = house.backend.launched_rows;
  const auto stopped = house.submit(request);
  const auto other = house.submit(seeded(some_tokens(10, 2), 60, 9));
  house.run();
  const uint32_t made = house.answer(stopped).generated + house.answer(other).generated;
  EXPECT_LT(house.answer(stopped).generated, 20u);
  EXPECT_LE(house.backend.rows - rows + house.backend.launched_rows - launched, 2 * 10 + made + 2u);
}

TEST(EngineRun, TheContextIsTheEnd) {
  for (const uint32_t context : {20u, 21u, 22u, 23u, 50u}) {
    DeviceHouse house(fake_limits(64), {}, fake_model(context));
    house.submit(greedy(some_tokens(3), no_limit));
    house.submit(seeded(some_tokens(6, 2), no_limit, 4));
    house.run();
    house.expect_as_alone();
    EXPECT_GT(house.backend.launched, 5u);
  }
}

TEST(EngineRun, CancelsArePrompt) {
  DeviceHouse house(fake_limits(64));
  const auto first = house.submit(seeded(some_tokens(10), 60, 3));
  const auto second = house.submit(seeded(some_tokens(10, 2), 60, 4));
  for (int i = 0; i < 10; ++i) house.step();
  EXPECT_TRUE(house.backend.stepping);
  house.engine->cancel(first);
  house.step();
  EXPECT_EQ(house.answer(first).finish_reason, FinishReason::cancelled);
  EXPECT_EQ(house.answer(first).generated, 10u);
  house.step();
  house.engine->cancel(second);
  house.step();
  EXPECT_EQ(house.answer(second).finish_reason, FinishReason::cancelled);
  EXPECT_TRUE(house.engine->idle());
  EXPECT_FALSE(house.backend.stepping);
  const auto third = house.submit(seeded(some_tokens(10), 60, 3));
  house.run();
  expect_same(house.answer(third), house.alone(third));
}

TEST(EngineRun, ABackendThatCannotIsAskedOnce) {
  DeviceHouse house(fake_limits(64));
  house.backend.most_steps_rows = 0;
  house.submit(seeded(some_tokens(10), 60, 3));
  house.run();
  house.expect_as_alone();
  EXPECT_EQ(house.backend.refused, 1u);
  EXPECT_GT(house.backend.picked_batches, 50u);
}

TEST(EngineRun, OnlyTheHostCanDoSomeSamplings) {
  DeviceHouse house(fake_limits(64));
  Request request = seeded(some_tokens(10), 30, 3);
  request.sampling.typical_p = 0.8f;
  house.submit(request);
  house.submit(seeded(some_tokens(10, 2), 20, 3));
  house.run();
  house.expect_as_alone();
  EXPECT_EQ(house.backend.begun, 0u);
}

TEST(EngineRun, FaultsFailTheirRows) {
  DeviceHouse house(fake_limits(64));
  const auto first = house.submit(seeded(some_tokens(10), 60, 3));
  for (int i = 0; i < 10; ++i) house.step();
  house.backend.fault("lost its way");
  house.run();
  EXPECT_EQ(house.answer(first).finish_reason, FinishReason::failed);
  EXPECT_EQ(house.answer(first).reason, "lost its way");
  EXPECT_EQ(house.metrics().blocks_cached, 0u);
  EXPECT_FALSE(house.backend.stepping);
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

TEST(EngineRun, NothingToPickFailsTheRow) {
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

TEST(EngineRun, IsAsGoodWithHardlyAnyMemory) {
  for (const uint32_t blocks : {6u, 9u, 14u, 30u}) {
    DeviceHouse house(fake_limits(blocks));
    for (uint32_t i = 0; i < 4; ++i) house.submit(seeded(some_tokens(3, i), 18, i));
    house.submit(seeded(some_tokens(7), no_limit, 3));
    house.run();
    house.expect_as_alone();
    EXPECT_GT(house.backend.launched, 0u);
  }
}

TEST(EngineRun, GuessesArePickedOnTheDeviceToo) {
  DeviceHouse house(fake_limits(200), {.speculation = engine::Speculation::on}, fake_model(256, 16, 5));
  for (uint32_t i = 0; i < 4; ++i) house.submit(seeded(some_tokens(20, i), 100, i));
  house.run();
  house.expect_as_alone();
  EXPECT_GT(house.metrics().accepted, 100u);
  EXPECT_GT(house.backend.picked_batches, 30u);
}

// One that the device refuses, as it does too many biases.
struct FewBiases : DeviceBackend {
  using DeviceBackend::DeviceBackend;
  std::unique_ptr<model::Steps> steps(const model::Batch& batch, std::span<const model::Picking> pickings) override {
    for (const model::Picking& p : pickings)
      if (p.biases.size() > 3) return nullptr;
    return DeviceBackend::steps(batch, pickings);
  }
};

TEST(EngineRun, OneThatCannotRunDoesNotKeepOthersFromIt) {
  House<FewBiases> house(fake_limits(200), {.speculation = engine::Speculation::off});
  Request odd = seeded(some_tokens(5), 20, 1);
  for (uint32_t i = 0; i < 5; ++i) odd.sampling.logit_bias[i] = 0.1f;
  house.submit(odd);
  house.run();
  EXPECT_EQ(house.backend.launched, 0u);
  house.submit(seeded(some_tokens(5, 2), 60, 2));
  house.run();
  EXPECT_GT(house.backend.launched, 50u);
  house.expect_as_alone();
}

}  // namespace
}  // namespace heddle::test::fake
