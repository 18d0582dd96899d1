// Who goes first, who waits, and for how long.
#include <gtest/gtest.h>

#include "tests/engine/house.h"

namespace heddle::test::fake {
namespace {

using engine::FinishReason;
using engine::Request;
using engine::RequestId;

struct Watch {
  explicit Watch(House<>& its_house) : house(its_house) {}

  RequestId submit(const Request& request) {
    const double now = house.backend.clock;
    const RequestId id = house.submit(request, [this](const engine::Event& event) {
      if (event.finish_reason == FinishReason::none) first.emplace(event.request, house.backend.clock);
    });
    arrival[id] = now;
    return id;
  }
  double waited(RequestId id) const { return first.at(id) - arrival.at(id); }

  House<>& house;
  std::map<RequestId, double> arrival, first;  // token
};

// Steps until the speed of the machine is known.
void warm_up(House<>& house) {
  for (uint32_t length : {100u, 300u, 500u, 700u, 900u}) {
    house.submit(greedy(random_tokens(length, length), 3));
    house.run();
  }
}

struct LongTexts : House<> {
  explicit LongTexts(engine::EngineOptions options = {})
      : House<>({.rows = 256, .kv_blocks = 3000, .block_tokens = 8}, options, fake_model(4096)) {}
};

TEST(Schedule, AShortPromptPassesALongOne) {
  LongTexts house;
  Watch watch(house);
  warm_up(house);
  const auto long_one = watch.submit(greedy(random_tokens(3500, 5), 5));
  house.step();
  const auto short_one = watch.submit(greedy(random_tokens(20, 7), 5));
  house.run();
  house.expect_as_alone();
  EXPECT_LT(watch.waited(short_one), 0.6);
  EXPECT_GT(watch.waited(long_one), 0.6);
}

TEST(Schedule, ButNotForEver) {
  LongTexts house;
  Watch watch(house);
  warm_up(house);
  Request request = greedy(random_tokens(3500, 5), 1);
  request.reuse = false;
  const double start = house.backend.clock;
  house.submit(request);
  house.run();
  const double alone = house.backend.clock - start;
  const auto long_one = watch.submit(request);
  uint32_t submitted = 0;
  while (!watch.first.contains(long_one)) {
    for (; house.metrics().waiting + house.metrics().running < 20; ++submitted)  // more than can be done
      watch.submit(seeded(random_tokens(150, submitted), 5, submitted));
    ASSERT_TRUE(house.step());
    ASSERT_LT(house.backend.clock, 100);
  }
  EXPECT_GT(submitted, 20u);
  // until its deadline all others may pass it, and from then on nobody
  EXPECT_GT(watch.waited(long_one), 1.5 * alone);
  EXPECT_LT(watch.waited(long_one), 2.5 * alone);
  house.run();
}

TEST(Schedule, PriorityGoesFirstAmongThoseWhoWait) {
  LongTexts house;
  Watch watch(house);
  warm_up(house);
  std::vector<RequestId> ids;
  for (const int priority : {0, 0, 3, -3}) {
    Request request = greedy(random_tokens(600, uint32_t(20 + ids.size())), 2);
    request.priority = priority;
    ids.push_back(watch.submit(request));
  }
  house.run();
  EXPECT_LT(watch.first.at(ids[2]), watch.first.at(ids[0]));
  EXPECT_LT(watch.first.at(ids[0]), watch.first.at(ids[1]));
  EXPECT_LT(watch.first.at(ids[1]), watch.first.at(ids[3]));
}

TEST(Schedule, LowPriorityIsASecondsDelayNotAVerdict) {
  LongTexts house;
  Watch watch(house);
  warm_up(house);
  Request low = greedy(random_tokens(300, 5), 2);
  low.priority = -2;
  const auto id = watch.submit(low);
  uint64_t i = 0;
  while (!watch.first.contains(id)) {
    for (; house.metrics().waiting < 40; ++i) watch.submit(seeded(random_tokens(200, i), 1, i));
    house.step();
    ASSERT_LT(house.backend.clock, 100);
  }
  EXPECT_GT(watch.waited(id), 1.5);
  EXPECT_LT(watch.waited(id), 5);
}

TEST(Schedule, StreamsDoNotWaitForAPrompt) {
  for (const double max_stall : {0.02, 0.05, 0.2}) {
    LongTexts house({.max_stall = max_stall});
    warm_up(house);
    double last = 0, longest = 0;
    uint32_t made = 0;
    house.submit(seeded(random_tokens(5, 1), 500, 1), [&](const engine::Event&) {
      if (made++ > 0) longest = std::max(longest, house.backend.clock - last);
      last = house.backend.clock;
    });
    for (int i = 0; i < 5; ++i) house.step();
    house.submit(greedy(random_tokens(3900, 5), 5));
    house.run();
    EXPECT_LT(longest, max_stall);
    EXPECT_GT(longest, max_stall / 2) << "what a stream may wait is used";
    house.expect_as_alone();
  }
}

TEST(Schedule, PromptsGoOnWhereStreamsAloneTakeTooLong) {
  LongTexts house({.max_stall = 0.003});  // a step takes 0.004
  for (uint32_t i = 0; i < 10; ++i) house.submit(seeded(random_tokens(5, i), 400, i));
  for (int i = 0; i < 10; ++i) house.step();
  const auto id = house.submit(greedy(random_tokens(600, 3), 1));
  uint32_t steps = 0;
  while (house.answer(id).finish_reason == FinishReason::none) {
    house.step();
    ASSERT_LT(++steps, 300u);
  }
  house.run();
}

TEST(Schedule, MoreStreamsThanRowsTakeTurns) {
  House<> house(fake_limits(400, 4, 8));
  for (uint32_t i = 0; i < 30; ++i) house.submit(seeded(random_tokens(3, i), 20, i));
  house.run();
  house.expect_as_alone();
  EXPECT_LT(house.metrics().between_tokens_seconds.largest(), 0.06) << "about four steps of 5.6 ms";
}

TEST(Schedule, WhoDoesNotFitKeepsThoseBehindItOut) {
  House<> house(fake_limits(20));
  Watch watch(house);
  const auto first = watch.submit(greedy(random_tokens(30, 1), 20));
  for (int i = 0; i < 4; ++i) house.step();
  const auto large = watch.submit(greedy(random_tokens(60, 2), 5));
  house.backend.clock += 1;
  const auto small = watch.submit(greedy(random_tokens(5, 3), 5));
  house.run();
  house.expect_as_alone();
  EXPECT_LT(watch.first.at(first), watch.first.at(large));
  EXPECT_LE(watch.first.at(large), watch.first.at(small));
}

}  // namespace
}  // namespace heddle::test::fake
