// Batches that follow one another on a device, and tokens that it picks: the completions are the same, and no more than
// necessary is copied to and from the device.
#include <gtest/gtest.h>

#include "tests/engine/engine_fixture.h"

namespace heddle::test::fake {
namespace {

using engine::FinishReason;
using engine::no_limit;
using engine::Request;

using DeviceFixture = EngineFixture<FakeDevice>;

TEST(EngineStep, ASingleStreamRunsInBatchesThatFollow) {
  DeviceFixture fixture(fake_limits(64));
  Request request = seeded(some_tokens(10), 150, 3);
  request.sampling.logprobs = 0;
  fixture.submit(request);
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.backend.launched, 150u) << "the prompt, and all tokens but the last";
  EXPECT_EQ(fixture.backend.followed, 149u - 1) << "all but the first";
  EXPECT_EQ(fixture.backend.taken, 150u);
  EXPECT_EQ(fixture.backend.picks, 150u);
  EXPECT_EQ(fixture.backend.logits_rows, 0u);
  EXPECT_EQ(fixture.metrics().generated, 150u);
}

TEST(EngineStep, SeveralStreamsArePlannedAnewAfter64Batches) {
  DeviceFixture fixture(fake_limits(128), {.speculation = engine::Speculation::off});
  for (uint64_t seed : {3, 4}) fixture.submit(seeded(some_tokens(10), 150, seed));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.backend.launched, 151u);
  EXPECT_EQ(fixture.backend.followed, 151u - 6) << "two prompts; 64, 64 and 20 batches; the last token of the second";
  EXPECT_EQ(fixture.metrics().generated, 300u);
}

// Log-probabilities, also of the most likely tokens, come from the device.
TEST(EngineStep, LogProbabilitiesDoNotStopBatchesThatFollow) {
  DeviceFixture fixture(fake_limits(400), {.speculation = engine::Speculation::off}, fake_model(256, 40));
  for (uint32_t i = 0; i < 6; ++i) {
    Request request = seeded(some_tokens(10, i), 40, i);
    if (i % 2) request.sampling.logprobs = i * 4;
    if (i == 3) request.sampling.presence_penalty = 0.5f;
    fixture.submit(request);
  }
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.backend.followed, 30u);
  EXPECT_EQ(fixture.backend.logits_rows, 0u);
}

// As `heddle bench -b 256 -d N` runs it: prompts that are in the KV cache, then a token of each at a time.
TEST(EngineStep, StreamsOfAFullCrowdFollowOneAnother) {
  constexpr uint32_t streams = 256, length = 70;
  DeviceFixture fixture({.rows = 2048, .kv_blocks = streams * 14, .block_tokens = 8},
                        {.max_stall = INFINITY, .speculation = engine::Speculation::off});
  fixture.backend.followed_rows = streams;
  for (uint32_t i = 0; i < streams; ++i) fixture.submit(greedy(random_tokens(33, i), 0));
  fixture.run();
  const uint32_t before = fixture.backend.launched;
  const uint64_t rows = fixture.backend.launched_rows;
  std::vector<engine::RequestId> ids;
  for (uint32_t i = 0; i < streams; ++i) ids.push_back(fixture.submit(greedy(random_tokens(33, i), length)));
  fixture.run();
  EXPECT_EQ(fixture.backend.launched - before, length);
  EXPECT_EQ(fixture.backend.launched_rows - rows, length * streams) << "all at once, in every batch";
  EXPECT_EQ(fixture.backend.followed, length - 3) << "the last token of the prompts; 64 batches, then 5";
  EXPECT_EQ(fixture.backend.logits_rows, 0u);
  for (const uint32_t i : {0u, 100u, 255u}) expect_same(fixture.answer(ids[i]), fixture.alone(ids[i]));
}

TEST(EngineStep, PenaltiesLookAtTheWholeText) {
  DeviceFixture fixture(fake_limits(64), {.speculation = engine::Speculation::off});
  for (uint32_t i = 0; i < 3; ++i) {
    Request request = seeded(some_tokens(10, i), 40, i);
    request.sampling.repetition_penalty = 1.5f;
    request.sampling.presence_penalty = float(i);
    fixture.submit(request);
  }
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.backend.followed, 25u);
  EXPECT_EQ(fixture.backend.picks, 120u);
  EXPECT_EQ(fixture.backend.logits_rows, 0u);
}

// In a batch that none follows, with proposals, and beside prompts, the text goes to the device with the batch.
TEST(EngineStep, PenaltiesArePickedOnTheDeviceInEveryBatch) {
  for (const auto speculation : {engine::Speculation::off, engine::Speculation::on}) {
    DeviceFixture fixture(fake_limits(400), {.speculation = speculation}, fake_model(256, 16, 5));
    fixture.backend.followed_changes = 2;
    for (uint32_t i = 0; i < 6; ++i) {
      Request request = seeded(some_tokens(10 + 7 * i, i), 40, i);
      request.sampling.repetition_penalty = 1.1f;
      request.sampling.frequency_penalty = 0.1f * float(i);
      fixture.submit(request);
      fixture.step();
    }
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_EQ(fixture.backend.logits_rows, 0u);
    if (speculation == engine::Speculation::on) {
      EXPECT_GT(fixture.metrics().accepted, 20u);
    }
  }
}

TEST(EngineStep, BatchesFollowWhereTheDeviceHasRoomForTheRowsThatChangeLogits) {
  for (const uint32_t room : {2u, 3u}) {
    DeviceFixture fixture(fake_limits(400), {.speculation = engine::Speculation::off});
    fixture.backend.followed_changes = room;
    for (uint32_t i = 0; i < 6; ++i) {
      Request request = seeded(some_tokens(10, i), 40, i);
      if (i == 1) request.sampling.logit_bias[3] = 1.0f;
      if (i == 2 || i == 4) request.sampling.presence_penalty = 0.5f;
      fixture.submit(request);
    }
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_EQ(fixture.backend.followed > 0, room == 3);
    EXPECT_EQ(fixture.backend.logits_rows, 0u);
  }
}

TEST(EngineStep, TheNextBatchIsLaunchedBeforeATokenIsRead) {
  DeviceFixture fixture(fake_limits(64));
  fixture.submit(seeded(some_tokens(10), 40, 3), [&](const engine::Event& event) {
    const uint32_t in_flight = fixture.backend.launched - fixture.backend.taken;
    if (event.finish_reason == FinishReason::none && fixture.backend.followed > 0 && fixture.backend.taken < 39) {
      EXPECT_EQ(in_flight, 1u) << "token " << fixture.backend.taken;
    }
    EXPECT_LE(in_flight, 1u);
  });
  fixture.run();
  EXPECT_EQ(fixture.backend.taken, 40u);
}

// A request that only the host can sample costs its own logits, not those of all others.
TEST(EngineStep, OnlyRowsThatTheHostPicksSendTheirLogits) {
  constexpr uint32_t others = 6, length = 30;
  const std::vector<std::function<void(engine::Sampling&)>> odd = {
      [](engine::Sampling& s) { s.logprobs = 13; },    [](engine::Sampling& s) { s.dry_multiplier = 0.8f; },
      [](engine::Sampling& s) { s.typical_p = 0.8f; }, [](engine::Sampling& s) { s.mirostat = 2; },
      [](engine::Sampling& s) { s.top_n_sigma = 1; },  [](engine::Sampling& s) { s.xtc_probability = 0.5f; }};
  for (size_t i = 0; i < odd.size(); ++i) {
    SCOPED_TRACE(i);
    DeviceFixture fixture(fake_limits(400), {.speculation = engine::Speculation::off});
    fixture.backend.followed_rows = 0;  // as for more rows than a device lets follow
    fixture.backend.max_top = 12;
    for (uint32_t other = 0; other < others; ++other) fixture.submit(seeded(some_tokens(10, other), length, other));
    Request request = seeded(some_tokens(12), length, 3);
    odd[i](request.sampling);
    fixture.submit(request);
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_EQ(fixture.backend.logits_rows, length);
    EXPECT_EQ(fixture.backend.picks, others * length);
  }
}

TEST(EngineStep, ANewRequestDoesNotWaitForBatchesThatFollow) {
  DeviceFixture fixture(fake_limits(64));
  fixture.submit(seeded(some_tokens(10), 60, 3));
  for (int i = 0; i < 10; ++i) fixture.step();
  EXPECT_TRUE(fixture.backend.waits());
  const auto second = fixture.submit(seeded(some_tokens(10, 2), 60, 4));
  for (int i = 0; i < 4; ++i) fixture.step();
  EXPECT_GE(fixture.answer(second).picks.size(), 1u);
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.backend.taken, fixture.backend.launched) << "every launched batch was read";
  EXPECT_EQ(fixture.backend.dropped, 0u);
}

TEST(EngineStep, TokensPickedAfterTheEndAreNotEmitted) {
  DeviceFixture fixture(fake_limits(64));
  const auto first = fixture.submit(greedy(some_tokens(10), 60));
  fixture.run();
  Request request = greedy(some_tokens(10), 60);
  request.stops = {{fixture.answer(first).tokens()[20], fixture.answer(first).tokens()[21]}};
  const auto stopped = fixture.submit(request);
  fixture.submit(seeded(some_tokens(7, 2), 50, 9));
  fixture.run();
  EXPECT_LE(fixture.answer(stopped).generated, 22u);
  fixture.expect_as_alone();
}

TEST(EngineStep, LittleIsComputedAfterTheEnd) {
  DeviceFixture fixture(fake_limits(64));
  fixture.submit(seeded(some_tokens(10, 2), 60, 9));
  const auto first = fixture.submit(greedy(some_tokens(10), 60));
  fixture.run();
  Request request = greedy(some_tokens(10), 60);
  request.stops = {{fixture.answer(first).tokens()[9], fixture.answer(first).tokens()[10]}};
  const uint64_t rows = fixture.backend.launched_rows;
  const auto stopped = fixture.submit(request);
  const auto other = fixture.submit(seeded(some_tokens(10, 2), 60, 9));
  fixture.run();
  const uint32_t generated = fixture.answer(stopped).generated + fixture.answer(other).generated;
  EXPECT_LT(fixture.answer(stopped).generated, 20u);
  EXPECT_LE(fixture.backend.launched_rows - rows, 2 * 10 + generated + 2u);
}

TEST(EngineStep, EndsWithTheContext) {
  for (const uint32_t context : {20u, 21u, 22u, 23u, 50u}) {
    DeviceFixture fixture(fake_limits(64), {}, fake_model(context));
    fixture.submit(greedy(some_tokens(3), no_limit));
    fixture.submit(seeded(some_tokens(6, 2), no_limit, 4));
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_GT(fixture.backend.followed, 5u);
  }
}

TEST(EngineStep, CancelsArePrompt) {
  DeviceFixture fixture(fake_limits(64));
  const auto first = fixture.submit(seeded(some_tokens(10), 60, 3));
  const auto second = fixture.submit(seeded(some_tokens(10, 2), 60, 4));
  for (int i = 0; i < 10; ++i) fixture.step();
  EXPECT_TRUE(fixture.backend.waits());
  fixture.engine->cancel(first);
  fixture.step();
  EXPECT_EQ(fixture.answer(first).finish_reason, FinishReason::cancelled);
  EXPECT_EQ(fixture.answer(first).generated, 10u);
  fixture.step();
  fixture.engine->cancel(second);
  fixture.step();
  EXPECT_EQ(fixture.answer(second).finish_reason, FinishReason::cancelled);
  EXPECT_TRUE(fixture.engine->idle());
  const auto third = fixture.submit(seeded(some_tokens(10), 60, 3));
  fixture.run();
  expect_same(fixture.answer(third), fixture.alone(third));
}

TEST(EngineStep, MoreRowsThanCanFollowArePickedBatchByBatch) {
  DeviceFixture fixture(fake_limits(200), {.speculation = engine::Speculation::off});
  fixture.backend.followed_rows = 2;
  for (uint32_t i = 0; i < 3; ++i) fixture.submit(seeded(some_tokens(10, i), 30, i));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.backend.followed, 0u);
  EXPECT_EQ(fixture.backend.logits_rows, 0u);
}

TEST(EngineStep, SomeSamplingsRunOnTheHostOnly) {
  DeviceFixture fixture(fake_limits(64));
  Request request = seeded(some_tokens(10), 30, 3);
  request.sampling.typical_p = 0.8f;
  fixture.submit(request);
  fixture.submit(seeded(some_tokens(10, 2), 20, 3));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.backend.followed, 0u);
}

TEST(EngineStep, FaultsFailTheRequestsOfTheBatch) {
  DeviceFixture fixture(fake_limits(64));
  const auto first = fixture.submit(seeded(some_tokens(10), 60, 3));
  for (int i = 0; i < 10; ++i) fixture.step();
  fixture.backend.fault("lost its way");
  fixture.run();
  EXPECT_EQ(fixture.answer(first).finish_reason, FinishReason::failed);
  EXPECT_EQ(fixture.answer(first).reason, "lost its way");
  EXPECT_EQ(fixture.metrics().blocks_cached, 0u);
  const auto second = fixture.submit(seeded(some_tokens(10), 60, 3));
  fixture.run();
  expect_same(fixture.answer(second), fixture.alone(second));
  const auto third = fixture.submit(seeded(some_tokens(10, 2), 60, 3));
  for (int i = 0; i < 10; ++i) fixture.step();
  fixture.backend.fault("gone", true);
  fixture.step();
  EXPECT_EQ(fixture.answer(third).reason, "gone");
  EXPECT_EQ(fixture.engine->stopped(), "gone");
}

TEST(EngineStep, ARowWithoutAPossibleTokenFailsItsRequest) {
  DeviceFixture fixture(fake_limits(64));
  fixture.backend.nothing_at = 21;
  const auto first = fixture.submit(seeded(some_tokens(10), 60, 3));
  const auto second = fixture.submit(seeded(some_tokens(10, 2), 60, 3));
  fixture.run();
  const bool which = fixture.answer(first).finish_reason == FinishReason::failed;
  const auto failed = which ? first : second, other = which ? second : first;
  EXPECT_EQ(fixture.answer(failed).finish_reason, FinishReason::failed);
  EXPECT_EQ(fixture.answer(failed).reason, "the logits have no token that can be picked");
  EXPECT_LT(fixture.answer(failed).generated, 20u);
  expect_same(fixture.answer(failed), fixture.alone(failed), false);
  expect_same(fixture.answer(other), fixture.alone(other));
}

TEST(EngineStep, WorksWithLittleMemory) {
  for (const uint32_t blocks : {6u, 9u, 14u, 30u}) {
    DeviceFixture fixture(fake_limits(blocks));
    for (uint32_t i = 0; i < 4; ++i) fixture.submit(seeded(some_tokens(3, i), 18, i));
    fixture.submit(seeded(some_tokens(7), no_limit, 3));
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_GT(fixture.backend.followed, 0u);
  }
}

TEST(EngineStep, ProposalsArePickedOnTheDeviceToo) {
  DeviceFixture fixture(fake_limits(200), {.speculation = engine::Speculation::on}, fake_model(256, 16, 5));
  for (uint32_t i = 0; i < 4; ++i) fixture.submit(seeded(some_tokens(20, i), 100, i));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().accepted, 100u);
  EXPECT_EQ(fixture.backend.logits_rows, 0u);
}

TEST(EngineStep, TooManyBiasesAreAppliedOnTheHost) {
  DeviceFixture fixture(fake_limits(200), {.speculation = engine::Speculation::off});
  fixture.backend.max_biases = 3;
  Request odd = seeded(some_tokens(5), 20, 1);
  for (uint32_t i = 0; i < 5; ++i) odd.sampling.logit_bias[i] = 0.1f;
  fixture.submit(odd);
  fixture.run();
  EXPECT_EQ(fixture.backend.followed, 0u);
  EXPECT_EQ(fixture.backend.logits_rows, 20u);
  fixture.submit(seeded(some_tokens(5, 2), 60, 2));
  fixture.run();
  EXPECT_GT(fixture.backend.followed, 50u);
  fixture.expect_as_alone();
}

// Where the time of a request went, on a clock that only the backend moves, so that every figure is known.
//
// Keeps the last event of each completion.
template <class Backend = FakeBackend>
struct Clocked : EngineFixture<Backend> {
  using EngineFixture<Backend>::EngineFixture;
  engine::RequestId ask(Request request) {
    request.trace = true;
    return this->submit(request, [this](const engine::Event& event) { last[{event.request, event.index}] = event; });
  }
  const engine::Event& end(engine::RequestId id, uint32_t index = 0) { return last.at({id, index}); }
  std::map<std::pair<engine::RequestId, uint32_t>, engine::Event> last;
};
const engine::EngineOptions plain{.speculation = engine::Speculation::off};

TEST(Timing, IsThatOfEveryStep) {
  Clocked<> fixture(fake_limits(64), plain);
  fixture.backend.cost = {.step = 1, .row = 0.25, .context = 0};
  const auto id = fixture.ask(greedy(some_tokens(6), 3));
  fixture.backend.clock += 5;  // somewhere else
  fixture.run();
  const engine::Timing& t = fixture.end(id).timing;
  EXPECT_EQ(t.queue, 5);
  EXPECT_EQ(t.prompt, 2.5);
  EXPECT_EQ(t.generating, 2.5);
  EXPECT_EQ(t.device, 5);
  EXPECT_EQ(t.steps, 3u);
  const std::vector<engine::StepTime>& steps = *fixture.end(id).steps;
  ASSERT_EQ(steps.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(steps[i].start, i == 0 ? 5 : 7.5 + 1.25 * double(i - 1));
    EXPECT_EQ(steps[i].seconds, i == 0 ? 2.5 : 1.25);
    EXPECT_EQ(steps[i].device, steps[i].seconds);
    EXPECT_EQ(steps[i].rows, i == 0 ? 6u : 1u);
    EXPECT_EQ(steps[i].generated, 1u);
    EXPECT_EQ(steps[i].all_rows, steps[i].rows);
    EXPECT_EQ(steps[i].sequences, 1u);
  }
}

TEST(Timing, OfARequestThatNeverBeganIsAllQueue) {
  Clocked<> fixture(fake_limits(64), plain);
  const auto id = fixture.ask(greedy(some_tokens(6), 3));
  fixture.backend.clock += 5;
  fixture.engine->cancel(id);
  fixture.run();
  const engine::Timing& t = fixture.end(id).timing;
  EXPECT_EQ(t.queue, 5);
  EXPECT_EQ(t.prompt + t.generating + t.device, 0);
  EXPECT_EQ(t.steps, 0u);
  EXPECT_TRUE(fixture.end(id).steps->empty());
}

TEST(Timing, OfAPromptAloneIsAllPrompt) {
  Clocked<> fixture(fake_limits(64), plain);
  fixture.backend.cost = {.step = 1, .row = 0.25, .context = 0};
  const auto id = fixture.ask(greedy(some_tokens(6), 0));
  fixture.run();
  const engine::Timing& t = fixture.end(id).timing;
  EXPECT_EQ(t.prompt, 2.5);
  EXPECT_EQ(t.generating, 0);
  EXPECT_EQ(t.device, 2.5);
}

// All completions have the time of the prompt; callbacks do not count as device time.
TEST(Timing, OfCompletionsAndOfTimeBesideTheDevice) {
  Clocked<> fixture(fake_limits(64), plain);
  fixture.backend.cost = {.step = 1, .row = 0.25, .context = 0};
  Request request = greedy(some_tokens(6), 2);
  request.n = 2;
  request.trace = true;
  const auto id = fixture.submit(request, [&](const engine::Event& event) {
    fixture.last[{event.request, event.index}] = event;
    fixture.backend.clock += 10;
  });
  fixture.run();
  for (uint32_t index = 0; index < 2; ++index) {
    const engine::Event& end = fixture.end(id, index);
    EXPECT_EQ(end.timing.steps, 2u);
    EXPECT_EQ(end.timing.prompt, 2.5);
    EXPECT_EQ(end.timing.device, 2.5 + 1.5);
    EXPECT_EQ(end.steps->at(0).rows, 6u);
    EXPECT_EQ(end.steps->at(1).all_rows, 2u);
    EXPECT_EQ(end.steps->at(1).sequences, 2u);
  }
  // the callbacks of both first tokens, a step, then the callbacks up to its own end
  EXPECT_EQ(fixture.end(id, 0).timing.generating, 20 + 1.5 + 10);
  EXPECT_EQ(fixture.end(id, 1).timing.generating, 20 + 1.5 + 30);
}

TEST(Timing, OfStepsOnTheDevice) {
  Clocked<FakeDevice> fixture(fake_limits(64), plain);
  const auto id = fixture.ask(seeded(some_tokens(6), 40, 1));
  fixture.run();
  const engine::Event& end = fixture.end(id);
  EXPECT_GT(fixture.backend.followed, 30u);
  EXPECT_EQ(end.timing.steps, 40u);
  EXPECT_NEAR(end.timing.device, fixture.backend.clock, 1e-9);
  EXPECT_NEAR(end.timing.queue + end.timing.prompt + end.timing.generating, fixture.backend.clock, 1e-9);
  uint32_t generated = 0;
  for (const engine::StepTime& step : *end.steps) generated += step.generated;
  EXPECT_EQ(generated, 40u);
}

TEST(Timing, HasNoStepsUnlessAskedFor) {
  EngineFixture<> fixture(fake_limits(64), plain);
  fixture.submit(greedy(some_tokens(6), 3), [](const engine::Event& event) { EXPECT_EQ(event.steps, nullptr); });
  fixture.run();
  EXPECT_EQ(fixture.metrics().prompt_tokens.sum(), 6);
  EXPECT_EQ(fixture.metrics().completion_tokens.sum(), 3);
  EXPECT_EQ(fixture.metrics().completion_tokens.count(), 1u);
}

}  // namespace
}  // namespace heddle::test::fake
