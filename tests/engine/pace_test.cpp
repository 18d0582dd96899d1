// The times of batches are learnt, and prompts are cut into chunks by them.
#include "engine/pace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace heddle::test {
namespace {

using engine::Load;
using engine::Pace;

double seconds(const Load& load) { return 0.004 + 0.0002 * double(load.rows) + 1e-7 * double(load.context); }

TEST(Pace, RowsAndWhatTheyRead) {
  const Load load = Load().with(3, 10);  // positions 10, 11, 12 read 11, 12 and 13
  EXPECT_EQ(load.rows, 3u);
  EXPECT_EQ(load.context, 36u);
  EXPECT_EQ(load.depth, 13u);
  EXPECT_EQ(load.with(1, 0).depth, 14u);
  EXPECT_EQ(load.with(0, 99).depth, 13u);
  EXPECT_EQ(load.with(1, 0).context, 37u);
  EXPECT_EQ(load.with(0, 99).context, 36u);
}

TEST(Pace, BeginsWithSmallChunksAndDoublesThem) {
  Pace pace;
  EXPECT_FALSE(pace.measured());
  EXPECT_EQ(pace.expect({100, 100}), 0);
  EXPECT_EQ(pace.rows_within(1, {}, 0, 1000), 16u);
  EXPECT_EQ(pace.rows_within(1, {3, 30}, 0, 1000), 13u);
  EXPECT_EQ(pace.rows_within(1, {}, 0, 5), 5u);
  EXPECT_EQ(pace.rows_within(1, {}, 1 << 20, 1000), 0u) << "a context this long was never measured";
  uint32_t rows = 16;
  for (; rows < 512; rows *= 2) {
    EXPECT_EQ(pace.rows_within(10, {}, 0, 1000), rows);
    pace.learn(Load().with(rows, 0), seconds(Load().with(rows, 0)));
  }
}

TEST(Pace, OneMeasurementIsTakenAsTimePerRow) {
  Pace pace;
  pace.learn({8, 36}, 0.008);
  EXPECT_NEAR(pace.expect({16, 100}), 0.016, 1e-9);
  pace.learn({0, 0}, 1);
  pace.learn({5, 5}, 0);
  EXPECT_NEAR(pace.expect({16, 100}), 0.016, 1e-9) << "neither a batch without rows nor one without time counts";
}

TEST(Pace, FindsTheCosts) {
  Pace pace;
  for (const uint64_t rows : {1, 2, 5, 16, 40, 100, 300})
    for (const uint64_t position : {0, 100, 1000, 10000})
      for (int i = 0; i < 40; ++i) pace.learn(Load().with(rows, position), seconds(Load().with(rows, position)));
  for (const Load& load : {Load{1, 1}, Load{64, 64000}, Load{500, 5000000}, Load{256, 1000}})
    EXPECT_NEAR(pace.expect(load), seconds(load), 0.02 * seconds(load)) << load.rows << ", " << load.context;
  const uint32_t rows = pace.rows_within(0.05, Load().with(20, 500), 2000, 10000);
  EXPECT_LE(seconds(Load().with(20, 500).with(rows, 2000)), 0.05);
  EXPECT_GE(seconds(Load().with(20, 500).with(rows + 5, 2000)), 0.05);
}

// Few rows go through kernels of their own, many by tiles of 128: milliseconds as on an H200 with 8 billion weights.
TEST(Pace, FollowsSteps) {
  const auto cost = [](const Load& load) {
    const double rows = double(load.rows);
    return 1e-3 * (rows <= 64 ? 1.5 + 0.1 * rows : 11 + 5.5 * std::ceil(rows / 128)) + 1e-8 * double(load.depth);
  };
  Pace pace;
  std::mt19937 random(3);
  Load streams;
  for (int s = 0; s < 20; ++s) streams = streams.with(1, 600);
  for (int i = 0; i < 200; ++i) {
    const uint32_t rows = pace.rows_within(0.0375, streams, 0, 2000);
    const Load mixed = streams.with(std::max(rows, 1u), 0);
    if (i > 20) {
      EXPECT_LT(cost(mixed), 0.050) << i;
    }
    if (i > 60) {
      EXPECT_GT(rows, 350u) << i << ": 640 would take 38 ms";
    }
    for (const Load& load : {mixed, streams, streams.with(random() % 500, 0)}) pace.learn(load, cost(load));
  }
  EXPECT_NEAR(pace.usual(streams), cost(streams), 0.15 * cost(streams));
}

// A prompt reads the keys of its sequence once for all rows, streams read them each for themselves.
TEST(Pace, DistinguishesPromptsFromStreams) {
  auto cost = [](const Load& load) {
    return 0.002 + 5e-5 * double(load.rows) + 3e-9 * double(load.context) + 3e-8 * double(load.depth);
  };
  Pace pace;
  for (int i = 0; i < 60; ++i)
    for (const uint64_t position : {500, 2000, 8000}) {
      Load streams;
      for (int s = 0; s < 32; ++s) streams = streams.with(1, position);
      for (const Load& load : {streams, streams.with(64, position), Load().with(256, position)})
        pace.learn(load, cost(load));
    }
  Load streams;
  for (int s = 0; s < 32; ++s) streams = streams.with(1, 1000);
  const Load prompt = streams.with(400, 6000);
  EXPECT_NEAR(pace.usual(streams), cost(streams), 0.1 * cost(streams));
  EXPECT_NEAR(pace.usual(prompt), cost(prompt), 0.1 * cost(prompt));
}

TEST(Pace, NoFactorIsNegative) {
  Pace pace;
  for (int i = 0; i < 50; ++i) {
    pace.learn({1, 1000}, 0.010);
    pace.learn({100, 100}, 0.009);  // large ones are quicker
  }
  EXPECT_LE(pace.expect({1, 1}), pace.expect({1000, 1}));
  EXPECT_LE(pace.expect({1, 1}), pace.expect({1, 1000000}));
}

TEST(Pace, ManyBatchesOfOneSizeDoNotDisplaceOthers) {
  Pace pace;
  for (const uint64_t rows : {16, 32, 64, 128, 256, 512})
    pace.learn(Load().with(rows, 0), seconds(Load().with(rows, 0)));
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const Load load = Load().with(8, 1000 + i / 10);
    pace.learn(load, seconds(load) * (0.95 + 0.0001 * double(random() % 1000)));
  }
  EXPECT_NEAR(pace.expect({400, 80000}), seconds({400, 80000}), 0.25 * seconds({400, 80000}));
}

TEST(Pace, FollowsAMachineThatSlowsDown) {
  Pace pace;
  for (int i = 0; i < 100; ++i)
    for (const uint64_t rows : {4, 100}) pace.learn(Load().with(rows, 0), seconds(Load().with(rows, 0)));
  for (int i = 0; i < 40; ++i)
    for (const uint64_t rows : {4, 100}) pace.learn(Load().with(rows, 0), 3 * seconds(Load().with(rows, 0)));
  EXPECT_NEAR(pace.expect(Load().with(100, 0)), 3 * seconds(Load().with(100, 0)), 0.3 * seconds(Load().with(100, 0)));
}

TEST(Pace, OneSlowBatchDoesNotStopTheOthers) {
  Pace pace;
  for (int i = 0; i < 100; ++i)
    for (const uint64_t rows : {4, 100}) pace.learn(Load().with(rows, 0), seconds(Load().with(rows, 0)));
  const uint32_t before = pace.rows_within(0.05, {4, 100}, 0, 10000);
  pace.learn(Load().with(100, 0), 5);
  EXPECT_GT(pace.expect({100, 100}), 1.5 * pace.usual({100, 100}));
  EXPECT_GT(pace.rows_within(0.05, {4, 100}, 0, 10000), 0u);
  for (int i = 0; i < 50; ++i)
    for (const uint64_t rows : {4, 100}) pace.learn(Load().with(rows, 0), seconds(Load().with(rows, 0)));
  EXPECT_GT(pace.rows_within(0.05, {4, 100}, 0, 10000), before / 2);
}

}  // namespace
}  // namespace heddle::test
