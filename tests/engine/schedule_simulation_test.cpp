// Simulations: thousands of requests of every kind, at every level of memory, each of which gets what it would have got
// alone, and none of which waits too long.
#include <gtest/gtest.h>

#include "tests/engine/random_shape.h"

namespace heddle::test::fake {
namespace {

void with_room(uint32_t requests, uint64_t seed) {
  Traffic traffic{.requests = requests, .limits = fake_limits(800, 4, 256)};
  const Tally tally = simulate(traffic, seed);
  EXPECT_EQ(tally.metrics.preemptions, 0u);
  EXPECT_EQ(tally.failed, 0u);
  EXPECT_LE(tally.longest_gap, traffic.options.max_stall);
}
TEST(Simulation, WithRoom) { with_room(700 / shorter, 1); }
TEST(Simulation, SlowWithRoom) {
  for (uint64_t seed = 2; seed <= 3; ++seed) with_room(1500, seed);
}

void without_room(uint32_t requests, uint64_t seed) {
  Traffic traffic{.requests = requests, .limits = fake_limits(41 + seed % 3, 4, 32)};
  traffic.options.max_waiting = 20;
  const Tally tally = simulate(traffic, seed);
  EXPECT_GT(tally.metrics.preemptions, requests / 20);
  EXPECT_GT(tally.metrics.refused, 0u);
  EXPECT_EQ(tally.failed, 0u);
}
TEST(Simulation, WithoutRoom) { without_room(700 / shorter, 1); }
TEST(Simulation, SlowWithoutRoom) {
  for (uint64_t seed = 2; seed <= 4; ++seed) without_room(1500, seed);
}

void of_clients(uint32_t requests, uint64_t seed) {
  Traffic traffic{
      .requests = requests, .limits = fake_limits(41 + seed % 40, 4, 32), .clients = uint32_t(2 + seed % 4)};
  const Tally tally = simulate(traffic, seed);
  EXPECT_GT(tally.metrics.preemptions, 0u);
  EXPECT_EQ(tally.failed, 0u);
}
TEST(Simulation, OfClients) {
  for (uint64_t seed = 1; seed <= 3; ++seed) of_clients(400 / shorter, seed);
}
TEST(Simulation, SlowOfClients) {
  for (uint64_t seed = 4; seed <= 12; ++seed) of_clients(1500, seed);
}

void with_faults(uint32_t requests, uint64_t seed) {
  const Tally tally = simulate({.requests = requests, .limits = fake_limits(100, 4, 32), .fault = 0.01}, seed);
  EXPECT_GT(tally.failed, tally.metrics.faults);
}
TEST(Simulation, WithFaults) { with_faults(700 / shorter, 1); }
TEST(Simulation, SlowWithFaults) {
  for (uint64_t seed = 2; seed <= 3; ++seed) with_faults(1500, seed);
}

void with_speculation(uint32_t requests, uint64_t seed) {
  Traffic traffic{.requests = requests, .limits = fake_limits(seed % 2 ? 120 : 50, 4, 64), .repetition = 5};
  if (seed % 3) traffic.options.speculation = engine::Speculation::on;
  const Tally tally = simulate(traffic, seed);
  EXPECT_GT(tally.metrics.accepted, tally.metrics.proposed / 3);
  EXPECT_GT(tally.metrics.accepted, tally.tokens / 10);
}
TEST(Simulation, WithSpeculation) { with_speculation(700 / shorter, 1); }
TEST(Simulation, SlowWithSpeculation) {
  for (uint64_t seed = 2; seed <= 4; ++seed) with_speculation(1500, seed);
}

void on_a_device(uint32_t requests, uint64_t seed) {  // so few requests at a time that batches often follow one another
  Traffic traffic{.requests = requests, .open = 6, .repetition = 2, .fault = 0.002, .penalties = seed % 3 != 0};
  traffic.limits = fake_limits(seed % 2 ? 120 : 45, 4, 64);
  simulate<FakeDevice>(traffic, seed);
}
TEST(Simulation, OnADevice) { on_a_device(700 / shorter, 1); }
TEST(Simulation, SlowOnADevice) {
  for (uint64_t seed = 2; seed <= 4; ++seed) on_a_device(1500, seed);
}

void with_rows_in_groups(uint32_t requests, uint64_t seed) {
  Traffic traffic{.requests = requests, .limits = fake_limits(seed % 2 ? 800 : 60, 4, 64), .repetition = 2};
  traffic.cost.group = double(2 + seed % 15);
  const Tally tally = simulate<GroupingBackend>(traffic, seed);
  EXPECT_EQ(tally.failed, 0u);
}
TEST(Simulation, WithRowsInGroups) {
  for (uint64_t seed = 1; seed <= 2; ++seed) with_rows_in_groups(400 / shorter, seed);
}
TEST(Simulation, SlowWithRowsInGroups) {
  for (uint64_t seed = 3; seed <= 8; ++seed) with_rows_in_groups(1000, seed);
}

TEST(Simulation, OfEveryShape) {
  for (uint64_t seed = 1; seed <= 12; ++seed) RandomShape(60 / shorter, seed).run();
}
TEST(Simulation, SlowOfEveryShape) {
  for (uint64_t seed = 100; seed < 130; ++seed) RandomShape(300, seed).run();
}

// Long prompts and slow machines: no stream stalls longer than max_stall, from the first step on.
TEST(Simulation, SlowStalls) {
  Traffic traffic{.requests = 60, .open = 30, .context = 4096, .longest_prompt = 3000, .longest_answer = 60};
  traffic.limits = {.rows = 512, .kv_blocks = 4000, .block_tokens = 16};
  const Cost costs[] = {
      {.step = 0.004, .row = 0.0002, .context = 4e-7, .noise = 0.1},
      {.step = 0.003, .row = 0.00004, .context = 2e-8, .noise = 0.1, .free_rows = 64},  // a GPU
      {.step = 0.010, .row = 0.0008, .context = 1e-7, .noise = 0.1},                    // a CPU
      {.step = 0.001, .row = 0.00001, .context = 1e-6, .noise = 0.1},                   // attention dominates
  };
  for (const Cost& cost : costs) {
    traffic.cost = cost;
    for (const uint64_t seed : {1, 3, 15, 26}) {
      Simulation<> simulation(traffic, seed);
      const Tally tally = simulation.run();
      EXPECT_LE(tally.longest_gap, traffic.options.max_stall)
          << "seed " << seed << ", a row takes " << cost.row << " s";
      EXPECT_EQ(tally.metrics.preemptions, 0u);
    }
  }
}

TEST(Simulation, AllRequestsFailWithTheBackend) { expect_all_fail({}, 20); }

TEST(Simulation, IsTheSameEveryTime) {
  const Traffic traffic{.requests = 200, .limits = fake_limits(60, 4, 32), .fault = 0.01};
  const Tally a = simulate(traffic, 3), b = simulate(traffic, 3);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.longest_wait, b.longest_wait);
}

}  // namespace
}  // namespace heddle::test::fake
