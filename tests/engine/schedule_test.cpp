// Who goes first, who waits, and for how long.
#include <gtest/gtest.h>

#include "tests/engine/engine_fixture.h"

namespace heddle::test::fake {
namespace {

using engine::FinishReason;
using engine::Request;
using engine::RequestId;

struct Watch {
  explicit Watch(EngineFixture<>& its_house) : fixture(its_house) {}

  RequestId submit(const Request& request) {
    const double now = fixture.backend.clock;
    const RequestId id = fixture.submit(request, [this](const engine::Event& event) {
      if (event.finish_reason == FinishReason::none) first.emplace(event.request, fixture.backend.clock);
    });
    arrival[id] = now;
    return id;
  }
  double waited(RequestId id) const { return first.at(id) - arrival.at(id); }

  EngineFixture<>& fixture;
  std::map<RequestId, double> arrival, first;  // token
};

// Steps until the speed of the machine is known.
void warm_up(EngineFixture<>& fixture) {
  for (uint32_t length : {100u, 300u, 500u, 700u, 900u}) {
    fixture.submit(greedy(random_tokens(length, length), 3));
    fixture.run();
  }
}

struct LongTexts : EngineFixture<> {
  explicit LongTexts(engine::EngineOptions options = {})
      : EngineFixture<>({.rows = 256, .kv_blocks = 3000, .block_tokens = 8}, options, fake_model(4096)) {}
};

TEST(Schedule, AShortPromptPassesALongOne) {
  LongTexts fixture;
  Watch watch(fixture);
  warm_up(fixture);
  const auto long_one = watch.submit(greedy(random_tokens(3500, 5), 5));
  fixture.step();
  const auto short_one = watch.submit(greedy(random_tokens(20, 7), 5));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_LT(watch.waited(short_one), 0.6);
  EXPECT_GT(watch.waited(long_one), 0.6);
}

TEST(Schedule, ButNotForEver) {
  LongTexts fixture;
  Watch watch(fixture);
  warm_up(fixture);
  Request request = greedy(random_tokens(3500, 5), 1);
  request.reuse = false;
  const double start = fixture.backend.clock;
  fixture.submit(request);
  fixture.run();
  const double alone = fixture.backend.clock - start;
  const auto long_one = watch.submit(request);
  uint32_t submitted = 0;
  while (!watch.first.contains(long_one)) {
    for (; fixture.metrics().waiting + fixture.metrics().running < 20; ++submitted)  // more than can be done
      watch.submit(seeded(random_tokens(150, submitted), 5, submitted));
    ASSERT_TRUE(fixture.step());
    ASSERT_LT(fixture.backend.clock, 100);
  }
  EXPECT_GT(submitted, 20u);
  // until its deadline all others may pass it, and from then on nobody
  EXPECT_GT(watch.waited(long_one), 1.5 * alone);
  EXPECT_LT(watch.waited(long_one), 2.5 * alone);
  fixture.run();
}

TEST(Schedule, PriorityGoesFirstAmongThoseWhoWait) {
  LongTexts fixture;
  Watch watch(fixture);
  warm_up(fixture);
  std::vector<RequestId> ids;
  for (const int priority : {0, 0, 3, -3}) {
    Request request = greedy(random_tokens(600, uint32_t(20 + ids.size())), 2);
    request.priority = priority;
    ids.push_back(watch.submit(request));
  }
  fixture.run();
  EXPECT_LT(watch.first.at(ids[2]), watch.first.at(ids[0]));
  EXPECT_LT(watch.first.at(ids[0]), watch.first.at(ids[1]));
  EXPECT_LT(watch.first.at(ids[1]), watch.first.at(ids[3]));
}

TEST(Schedule, LowPriorityIsASecondsDelayNotAVerdict) {
  LongTexts fixture;
  Watch watch(fixture);
  warm_up(fixture);
  Request low = greedy(random_tokens(300, 5), 2);
  low.priority = -2;
  const auto id = watch.submit(low);
  uint64_t i = 0;
  while (!watch.first.contains(id)) {
    for (; fixture.metrics().waiting < 40; ++i) watch.submit(seeded(random_tokens(200, i), 1, i));
    fixture.step();
    ASSERT_LT(fixture.backend.clock, 100);
  }
  EXPECT_GT(watch.waited(id), 1.5);
  EXPECT_LT(watch.waited(id), 5);
}

TEST(Schedule, StreamsDoNotWaitForAPrompt) {
  for (const double max_stall : {0.02, 0.05, 0.2}) {
    LongTexts fixture({.max_stall = max_stall});
    warm_up(fixture);
    double last = 0, longest = 0;
    uint32_t made = 0;
    fixture.submit(seeded(random_tokens(5, 1), 500, 1), [&](const engine::Event&) {
      if (made++ > 0) longest = std::max(longest, fixture.backend.clock - last);
      last = fixture.backend.clock;
    });
    for (int i = 0; i < 5; ++i) fixture.step();
    fixture.submit(greedy(random_tokens(3900, 5), 5));
    fixture.run();
    EXPECT_LT(longest, max_stall);
    EXPECT_GT(longest, max_stall / 2) << "what a stream may wait is used";
    fixture.expect_as_alone();
  }
}

TEST(Schedule, PromptsGoOnWhereStreamsAloneTakeTooLong) {
  LongTexts fixture({.max_stall = 0.003});  // a step takes 0.004
  for (uint32_t i = 0; i < 10; ++i) fixture.submit(seeded(random_tokens(5, i), 400, i));
  for (int i = 0; i < 10; ++i) fixture.step();
  const auto id = fixture.submit(greedy(random_tokens(600, 3), 1));
  uint32_t steps = 0;
  while (fixture.answer(id).finish_reason == FinishReason::none) {
    fixture.step();
    ASSERT_LT(++steps, 300u);
  }
  fixture.run();
}

TEST(Schedule, MoreStreamsThanRowsTakeTurns) {
  EngineFixture<> fixture(fake_limits(400, 4, 8));
  for (uint32_t i = 0; i < 30; ++i) fixture.submit(seeded(random_tokens(3, i), 20, i));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_LT(fixture.metrics().between_tokens_seconds.largest(), 0.06) << "about four steps of 5.6 ms";
}

TEST(Schedule, WhoDoesNotFitKeepsThoseBehindItOut) {
  EngineFixture<> fixture(fake_limits(20));
  Watch watch(fixture);
  const auto first = watch.submit(greedy(random_tokens(30, 1), 20));
  for (int i = 0; i < 4; ++i) fixture.step();
  const auto large = watch.submit(greedy(random_tokens(60, 2), 5));
  fixture.backend.clock += 1;
  const auto small = watch.submit(greedy(random_tokens(5, 3), 5));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_LT(watch.first.at(first), watch.first.at(large));
  EXPECT_LE(watch.first.at(large), watch.first.at(small));
}

}  // namespace
}  // namespace heddle::test::fake
