// Which requests are computed first, which wait, and for how long.
#include <gtest/gtest.h>

#include <deque>

#include "tests/engine/engine_fixture.h"

namespace heddle::test::fake {
namespace {

using engine::FinishReason;
using engine::Request;
using engine::RequestId;

struct Watch {
  explicit Watch(EngineFixture<>& watched) : fixture(watched) {}

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

// Runs until the pace of the machine is known.
void warm_up(EngineFixture<>& fixture) {
  for (uint32_t length : {100u, 300u, 500u, 700u, 900u}) {
    fixture.submit(greedy(random_tokens(length, length), 3));
    fixture.run();
  }
}

struct LongTexts : EngineFixture<> {
  explicit LongTexts(engine::EngineOptions options = {.max_stall = 0.05})
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

TEST(Schedule, ALongPromptDoesNotWaitForever) {
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
    for (; fixture.metrics().waiting + fixture.metrics().running < 20;
         ++submitted)  // more than the machine can compute
      watch.submit(seeded(random_tokens(150, submitted), 5, submitted));
    ASSERT_TRUE(fixture.step());
    ASSERT_LT(fixture.backend.clock, 100);
  }
  EXPECT_GT(submitted, 20u);
  // until its deadline all others may pass it, and after that none
  EXPECT_GT(watch.waited(long_one), 1.5 * alone);
  EXPECT_LT(watch.waited(long_one), 2.5 * alone);
  fixture.run();
}

TEST(Schedule, WaitingRequestsGoByPriority) {
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

TEST(Schedule, LowPriorityDelaysByItsSecondsOnly) {
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
    uint32_t generated = 0;
    fixture.submit(seeded(random_tokens(5, 1), 500, 1), [&](const engine::Event&) {
      if (generated++ > 0) longest = std::max(longest, fixture.backend.clock - last);
      last = fixture.backend.clock;
    });
    for (int i = 0; i < 5; ++i) fixture.step();
    fixture.submit(greedy(random_tokens(3900, 5), 5));
    fixture.run();
    EXPECT_LT(longest, max_stall);
    EXPECT_GT(longest, max_stall / 2) << "the allowed stall is used";
    fixture.expect_as_alone();
  }
}

TEST(Schedule, PromptsProceedEvenIfStreamsAloneTakeTooLong) {
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

struct Streams {
  double rate = 0;         // tokens of all in a second, while none has ended
  double longest_gap = 0;  // between two tokens
};
// Streams that begin at once, on a backend with rows in groups of 8.
template <class Backend>
Streams streams_in_groups(uint32_t count) {
  constexpr uint32_t tokens = 200;
  EngineFixture<Backend> fixture(fake_limits(4000, 4, 64), {.speculation = engine::Speculation::off});
  fixture.backend.cost = {.step = 0.001, .row = 0.001, .context = 0, .group = 8};
  std::vector<uint32_t> generated(count);
  std::vector<double> last(count);
  Streams streams;
  double start = 0, end = 0;
  uint32_t at_start = 0, all = 0;
  bool ended = false;
  for (uint32_t i = 0; i < count; ++i)
    fixture.submit(seeded(random_tokens(3, i), tokens, i), [&, i](const engine::Event& event) {
      ended = ended || event.finish_reason != FinishReason::none;
      if (event.finish_reason != FinishReason::none) return;
      const double now = fixture.backend.clock;
      if (++generated[i] > 1) streams.longest_gap = std::max(streams.longest_gap, now - last[i]);
      last[i] = now;
      ++all;
      if (ended) return;
      if (*std::min_element(generated.begin(), generated.end()) == 0 || start == 0) {
        start = now;
        at_start = all;
      }
      end = now;
      streams.rate = (all - at_start) / (end - start);
    });
  fixture.run();
  fixture.expect_as_alone();
  return streams;
}

// A batch of 8 rows takes 9 ms and one of 9 takes 17: 889 tokens in a second, or 529.
TEST(Schedule, StreamsTakeTurnsInBatchesThatFillGroups) {
  EXPECT_NEAR(streams_in_groups<FakeBackend>(9).rate, 9 / 0.017, 5);
  for (const uint32_t count : {8u, 9u, 10u, 16u, 17u, 19u, 24u}) {
    const Streams streams = streams_in_groups<GroupingBackend>(count);
    const double filled = count / 8 * 8;
    EXPECT_GT(streams.rate, 0.95 * filled / (0.001 + 0.001 * filled)) << count << ": less than those that fill groups";
    EXPECT_LT(streams.longest_gap, 0.06) << count;
  }
  EXPECT_NEAR(streams_in_groups<GroupingBackend>(3).rate, 3 / 0.009, 5);  // too few to wait
}

TEST(Schedule, ARequestThatDoesNotFitKeepsLaterOnesWaiting) {
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

Request of_client(uint64_t client, Request request, uint32_t n = 1) {
  request.client = client;
  request.n = n;
  request.reuse = false;
  return request;
}

// A cache that has room for few of the many sequences that are asked for.
struct Crowded : EngineFixture<> {
  Crowded() : EngineFixture<>(fake_limits(160, 4), {.max_waiting = 4000, .speculation = engine::Speculation::off}) {
    for (uint32_t length : {10u, 50u, 100u, 200u}) {
      submit(greedy(random_tokens(length, length), 3));
      run();
    }
  }
  void greedy_one(uint64_t client, uint64_t seed = 1) {
    Request request = of_client(client, seeded(random_tokens(8, seed), 150, seed), 128);
    submit(request);
  }
  void fill() {
    for (int i = 0; i < 20; ++i) step();
    EXPECT_GT(metrics().waiting, 0u);
    EXPECT_GT(metrics().preemptions, 0u);
  }
  Request small(uint64_t client) const { return of_client(client, greedy(random_tokens(6, 99), 4)); }
};

void expect_quick(Crowded& fixture, Watch& watch, const Request& request, double seconds = 0.25) {
  const auto id = watch.submit(request);
  while (fixture.answer(id).finish_reason == FinishReason::none) {
    ASSERT_TRUE(fixture.step());
    ASSERT_LT(fixture.backend.clock, 1000);
  }
  EXPECT_LT(watch.waited(id), seconds) << "a step takes 10 ms, the greedy ones minutes";
  expect_same(fixture.answer(id), fixture.alone(id));
}

// 160 blocks are full with the first sequences of 12 clients: then one of these has to end, or to be worth its prompt.
TEST(Schedule, AGreedyClientDoesNotStarveAnother) {
  for (const uint64_t greedy_clients : {1, 3, 12}) {
    const double seconds = greedy_clients < 12 ? 0.25 : 2;
    Crowded fixture;
    Watch watch(fixture);
    for (uint64_t i = 0; i < greedy_clients; ++i) fixture.greedy_one(100 + i, i);
    fixture.fill();
    for (uint64_t client = 1; client <= 5; ++client) {
      expect_quick(fixture, watch, fixture.small(client), seconds);
      for (int i = 0; i < 7; ++i) fixture.step();
      expect_quick(fixture, watch, fixture.small(client), seconds);
    }
  }
}

// The completions that a client asked for together wait for what it asks next.
TEST(Schedule, AClientIsNotStarvedByItsOwnGreedyRequest) {
  Crowded fixture;
  Watch watch(fixture);
  fixture.greedy_one(1);
  fixture.fill();
  for (int i = 0; i < 3; ++i) expect_quick(fixture, watch, fixture.small(1));
}

TEST(Schedule, PromptsOfOneRequestDoNotStarveOthers) {
  for (const uint64_t client : {1, 2}) {
    LongTexts fixture;
    Watch watch(fixture);
    warm_up(fixture);
    for (uint32_t i = 0; i < 50; ++i) {  // 1 s of prompts each
      Request request = of_client(1, greedy(random_tokens(4000, i), 20));
      request.ordinal = i;
      fixture.submit(request);
    }
    for (int i = 0; i < 5; ++i) fixture.step();
    const auto id = watch.submit(of_client(client, greedy(random_tokens(30, 77), 3)));
    while (!watch.first.contains(id)) ASSERT_TRUE(fixture.step());
    EXPECT_LT(watch.waited(id), 1);
  }
}

// Clients that send as fast as they can have the same share of time, whatever the size of what they ask.
TEST(Schedule, ClientsHaveEqualShares) {
  LongTexts fixture;
  fixture.backend.cost.context = 0;  // all rows take the same time
  warm_up(fixture);
  std::map<uint64_t, uint64_t> rows, open;
  const double end = fixture.backend.clock + 40;
  for (uint64_t i = 0; fixture.backend.clock < end; ++i) {
    for (const uint64_t client : {1, 2})
      for (; open[client] < (client == 1 ? 4 : 40); ++open[client]) {
        const uint32_t length = client == 1 ? 1500 : 300;
        const uint64_t seed = fixture.requests.size();
        fixture.submit(of_client(client, greedy(random_tokens(length, seed), 1)),
                       [&rows, &open, client, length](const engine::Event& event) {
                         if (event.finish_reason == FinishReason::none) return;
                         rows[client] += length;
                         --open[client];
                       });
      }
    fixture.step();
  }
  EXPECT_GT(rows[1], 20'000u);
  EXPECT_NEAR(double(rows[1]) / double(rows[2]), 1, 0.2);
}

// The only sequence of a client is not preempted for newcomers again and again.
TEST(Schedule, OneLongSequenceIsNotTakenForSmallOnes) {
  EngineFixture<> fixture(fake_limits(60, 4), {.speculation = engine::Speculation::off});
  Request request = of_client(1, greedy(random_tokens(180, 1), 40));
  request.trace = true;
  uint32_t rows = 0;
  const auto large = fixture.submit(request, [&](const engine::Event& event) {
    if (event.finish_reason == FinishReason::none) return;
    for (const engine::StepTime& step : *event.steps) rows += step.rows;
  });
  uint64_t client = 2;
  while (fixture.answer(large).finish_reason == FinishReason::none) {
    if (fixture.metrics().waiting < 3) {
      ++client;
      fixture.submit(of_client(client, greedy(random_tokens(12, client), 20)));
    }
    ASSERT_TRUE(fixture.step());
    ASSERT_LT(client, 500u);
  }
  EXPECT_EQ(rows, 180u + 40 - 1) << "each is computed once";
  EXPECT_GT(client, 5u);
  fixture.run();
  fixture.expect_as_alone();
}

// A client's second request waits for its turn, even where there is always somebody new.
TEST(Schedule, NewClientsDoNotPassForever) {
  EngineFixture<> fixture(fake_limits(30, 4), {.speculation = engine::Speculation::off});
  Watch watch(fixture);
  uint64_t client = 10;
  const auto newcomers = [&] {
    while (fixture.metrics().waiting < 8) {
      ++client;
      fixture.submit(of_client(client, greedy(random_tokens(20, client), 10)));
      fixture.step();
    }
  };
  newcomers();
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < 4; ++i) ids.push_back(watch.submit(of_client(1, greedy(random_tokens(20, i), 10))));
  while (!watch.first.contains(ids.back())) {
    newcomers();
    ASSERT_TRUE(fixture.step());
    ASSERT_LT(client, 3000u);
  }
  EXPECT_GT(client, 30u);
  EXPECT_LT(watch.waited(ids.back()), 20);
  fixture.run();
}

TEST(Schedule, ALowPriorityDoesNotTakeBlocks) {
  Crowded fixture;
  fixture.greedy_one(1);
  fixture.fill();
  Request low = fixture.small(2);
  low.priority = -3;
  const auto id = fixture.submit(low);
  const double start = fixture.backend.clock;
  while (fixture.answer(id).picks.empty()) ASSERT_TRUE(fixture.step());
  EXPECT_GT(fixture.backend.clock - start, 0.2);
  fixture.engine->cancel(id);
}

// A row of a prompt takes 25 us, a batch 2.9 ms: 64 streams get a token every 4.5 ms, a prompt of 2048 has 38000 tokens
// per second.
constexpr Cost h200{.step = 2.9e-3, .row = 25e-6, .context = 0};

struct FastDevice : EngineFixture<> {
  FastDevice()
      : EngineFixture<>({.rows = 2048, .kv_blocks = 600, .block_tokens = 32},
                        {.max_stall = 0.05, .speculation = engine::Speculation::off}, fake_model(4096)) {
    backend.cost = h200;
  }
};

// 0.7 of 50 ms have room for 1284 rows.
TEST(Schedule, ABatchHasPromptsOfSeveralRequests) {
  FastDevice fixture;
  for (uint32_t length : {100u, 300u, 700u, 1500u, 2000u}) {
    fixture.submit(greedy(random_tokens(length, length), 3));
    fixture.run();
  }
  const auto stream = fixture.submit(greedy(random_tokens(10, 1), 500));
  for (int i = 0; i < 3; ++i) fixture.step();
  const auto tokens = [&](RequestId id) { return fixture.answer(id).picks.size(); };
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < 6; ++i) ids.push_back(fixture.submit(greedy(random_tokens(300, 10 + i), 5)));
  const size_t before = tokens(stream);
  const double start = fixture.backend.clock;
  const uint64_t rows = fixture.backend.rows;
  fixture.step();
  EXPECT_EQ(tokens(stream), before + 1);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(tokens(ids[i]), i < 4 ? 1u : 0u) << "prompt " << i;
  EXPECT_GT(fixture.backend.rows - rows, 1250u) << "a part of the fifth too";
  EXPECT_LE(fixture.backend.clock - start, 0.035);
  fixture.step();
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(tokens(ids[i]), i < 4 ? 2u : 1u) << "prompt " << i;
  fixture.run();
  fixture.expect_as_alone();
}

// A device that computes while the host does something else: a result is there when all batches up to it are computed.
// The host takes time with every batch: more where it plans one than where one follows.
struct BusyDevice : FakeDevice {
  using FakeDevice::FakeDevice;
  void begin(const model::Batch& batch) override {
    clock += batch.follows ? following : planning;
    const double now = clock;
    FakeDevice::begin(batch);
    ready_ = std::max(ready_, now) + (clock - now);
    clock = now;
    results_.push_back(ready_);
  }
  model::Result result() override {
    clock = std::max(clock, results_.front());
    results_.pop_front();
    return FakeDevice::result();
  }
  double planning = 0.4e-3, following = 0.05e-3;

 private:
  double ready_ = 0;  // when the device has computed all batches
  std::deque<double> results_;
};

// Clients that each send a request of 512 tokens, read 128, and send the next.
struct ClosedLoop {
  double rate = 0;                  // tokens per second
  std::vector<double> first, gaps;  // seconds, ascending
  uint64_t followed = 0, proposed = 0;
};
ClosedLoop closed_loop(uint32_t clients, uint32_t requests, engine::Speculation speculation = engine::Speculation::off,
                       double planning = 0.4e-3, float repetition = 0) {
  EngineFixture<BusyDevice> fixture({.rows = 2048, .kv_blocks = clients * 22, .block_tokens = 32},
                                    {.max_stall = 0.05, .speculation = speculation}, fake_model(1024, 64, repetition));
  fixture.backend.cost = h200;
  fixture.backend.planning = planning;
  fixture.backend.followed_rows = 256;
  ClosedLoop loop;
  uint32_t submitted = 0, open = 0;
  while (submitted < requests || open > 0) {
    for (; open < clients && submitted < requests; ++submitted, ++open)
      fixture.submit(greedy(random_tokens(512, submitted), 128),
                     [&, due = fixture.backend.clock, last = 0.0](const engine::Event& event) mutable {
                       if (event.finish_reason != FinishReason::none) {
                         --open;
                         return;
                       }
                       const double now = fixture.backend.clock;
                       (last > 0 ? loop.gaps : loop.first).push_back(now - (last > 0 ? last : due));
                       last = now;
                     });
    fixture.engine->step();
  }
  loop.rate = 128.0 * requests / fixture.backend.clock;
  loop.followed = fixture.backend.followed;
  loop.proposed = fixture.engine->metrics().proposed;
  for (std::vector<double>* times : {&loop.first, &loop.gaps}) std::sort(times->begin(), times->end());
  return loop;
}

// Streams alone follow one another: the host's time does not count.
TEST(Schedule, ACrowdOfStreamsDoesNotWaitForTheHost) {
  const ClosedLoop loop = closed_loop(64, 64);
  EXPECT_NEAR(loop.gaps[loop.gaps.size() / 2], h200.of(64, 0), 1e-6);
}

// If the device were never idle, and prompts and streams shared all batches, 64 streams would have a token, and 256
// rows of prompts would be computed, in 2.9 + 320 * 0.025 = 10.9 ms: 5870 tokens per second.
TEST(Schedule, SlowCrowdKeepsTheDeviceBusy) {
  const ClosedLoop loop = closed_loop(64, 500);
  EXPECT_GT(loop.rate, 0.93 * 5870) << "with the beginning and the end, when the crowd is not complete";
  EXPECT_LE(loop.gaps.back(), 0.05);
  EXPECT_LT(loop.gaps[loop.gaps.size() / 2], 0.006);
  EXPECT_LT(loop.first[loop.first.size() / 2], 0.05);
  EXPECT_GT(loop.followed, 300u);
}

// A few streams that repeat themselves now and then do not slow down all others: there is always one that has
// proposals.
TEST(Schedule, ProposalsOfAFewDoNotCostACrowd) {
  using enum engine::Speculation;
  const ClosedLoop without = closed_loop(64, 100, off, 3e-3, 2), with = closed_loop(64, 100, automatic, 3e-3, 2);
  EXPECT_GT(with.proposed, 0u);
  EXPECT_GT(with.rate, 0.97 * without.rate);
}

}  // namespace
}  // namespace heddle::test::fake
