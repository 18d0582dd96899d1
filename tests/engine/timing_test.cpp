// Where the time of a request went: on a clock that only the backend moves, so that every figure is known.
#include <gtest/gtest.h>

#include "tests/engine/engine_fixture.h"

namespace heddle::test::fake {
namespace {

using engine::Event;
using engine::Request;

// The last event of each request, and the clock when it came.
template <class Backend = FakeBackend>
struct Clocked : EngineFixture<Backend> {
  using EngineFixture<Backend>::EngineFixture;
  engine::RequestId ask(Request request) {
    request.trace = true;
    return this->submit(request, [this](const Event& event) { last[{event.request, event.index}] = event; });
  }
  const Event& end(engine::RequestId id, uint32_t copy = 0) { return last.at({id, copy}); }
  std::map<std::pair<engine::RequestId, uint32_t>, Event> last;
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

TEST(Timing, OfOneThatNeverBeganIsAllQueue) {
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

// Copies share the time of the prompt; callbacks are nobody's device.
TEST(Timing, OfCopiesAndOfTimeBesideTheDevice) {
  Clocked<> fixture(fake_limits(64), plain);
  fixture.backend.cost = {.step = 1, .row = 0.25, .context = 0};
  Request request = greedy(some_tokens(6), 2);
  request.n = 2;
  request.trace = true;
  const auto id = fixture.submit(request, [&](const Event& event) {
    fixture.last[{event.request, event.index}] = event;
    fixture.backend.clock += 10;
  });
  fixture.run();
  for (uint32_t copy = 0; copy < 2; ++copy) {
    const Event& end = fixture.end(id, copy);
    EXPECT_EQ(end.timing.steps, 2u);
    EXPECT_EQ(end.timing.prompt, 2.5);
    EXPECT_EQ(end.timing.device, 2.5 + 1.5);
    EXPECT_EQ(end.steps->at(0).rows, 6u);
    EXPECT_EQ(end.steps->at(1).all_rows, 2u);
    EXPECT_EQ(end.steps->at(1).sequences, 2u);
  }
  // its two tokens of the first step, then a step, then its last token and, before the second's, its end
  EXPECT_EQ(fixture.end(id, 0).timing.generating, 20 + 1.5 + 10);
  EXPECT_EQ(fixture.end(id, 1).timing.generating, 20 + 1.5 + 30);
}

TEST(Timing, OfStepsOnTheDevice) {
  Clocked<FakeDevice> fixture(fake_limits(64), plain);
  const auto id = fixture.ask(seeded(some_tokens(6), 40, 1));
  fixture.run();
  const Event& end = fixture.end(id);
  EXPECT_GT(fixture.backend.followed, 30u);
  EXPECT_EQ(end.timing.steps, 40u);
  EXPECT_NEAR(end.timing.device, fixture.backend.clock, 1e-9);
  EXPECT_NEAR(end.timing.queue + end.timing.prompt + end.timing.generating, fixture.backend.clock, 1e-9);
  uint32_t made = 0;
  for (const engine::StepTime& step : *end.steps) made += step.generated;
  EXPECT_EQ(made, 40u);
}

TEST(Timing, NobodyIsToldStepsUnasked) {
  EngineFixture<> fixture(fake_limits(64), plain);
  fixture.submit(greedy(some_tokens(6), 3), [](const Event& event) { EXPECT_EQ(event.steps, nullptr); });
  fixture.run();
  EXPECT_EQ(fixture.metrics().prompt_tokens.sum(), 6);
  EXPECT_EQ(fixture.metrics().completion_tokens.sum(), 3);
  EXPECT_EQ(fixture.metrics().completion_tokens.count(), 1u);
}

}  // namespace
}  // namespace heddle::test::fake
