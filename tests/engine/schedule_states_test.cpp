// Simulations of models with recurrent states: a state that is stale, shared, or that of another text changes the
// answers, and every answer is that of the request alone.
#include <gtest/gtest.h>

#include "tests/engine/random_shape.h"

namespace heddle::test::fake {
namespace {

using engine::Speculation;

model::Limits state_limits(uint32_t slots, uint32_t blocks, uint32_t block_tokens = 4, uint32_t rows = 64) {
  model::Limits limits = fake_limits(blocks, block_tokens, rows);
  limits.state_slots = slots;
  return limits;
}
// Prompts are long beside blocks, so that snapshots are worth it.
Traffic state_traffic(uint32_t requests, const model::Limits& limits) {
  return {.requests = requests, .context = 300, .longest_prompt = 180, .limits = limits, .turns = 0.4};
}
void expect_snapshots(const Tally& tally) {
  EXPECT_GT(tally.metrics.snapshots_taken, 0u);
  EXPECT_GT(tally.metrics.snapshots_found, 0u);
}

void states_with_room(uint32_t requests, uint64_t seed) {
  const Traffic traffic = state_traffic(requests, state_limits(300, 3000, 4, 256));
  const Tally tally = simulate(traffic, seed);
  expect_snapshots(tally);
  EXPECT_EQ(tally.metrics.preemptions, 0u);
  EXPECT_EQ(tally.failed, 0u);
  EXPECT_LE(tally.longest_gap, traffic.options.max_stall);
}
TEST(StatesSimulation, WithRoom) { states_with_room(500 / shorter, 1); }
TEST(StatesSimulation, SlowWithRoom) {
  for (uint64_t seed = 2; seed <= 4; ++seed) states_with_room(1500, seed);
}

// Fewer slots than sequences that want to run, or fewer blocks, or both.
void states_without_room(uint32_t requests, uint64_t seed) {
  const std::array<std::array<uint32_t, 2>, 3> rooms{{{5, 800}, {60, 90}, {4, 80}}};
  const auto [slots, blocks] = rooms[seed % 3];
  Traffic traffic = state_traffic(requests, state_limits(slots, blocks, 4, 32));
  traffic.open = 16;
  traffic.cached = 0.05;
  const Tally tally = simulate(traffic, seed);
  if (slots > 5) expect_snapshots(tally);
  EXPECT_EQ(tally.metrics.snapshots_dropped > 0, tally.metrics.snapshots_taken > 0);
  EXPECT_EQ(tally.failed, 0u);
}
TEST(StatesSimulation, WithoutRoom) {
  for (uint64_t seed = 1; seed <= 3; ++seed) states_without_room(200 / shorter, seed);
}
TEST(StatesSimulation, SlowWithoutRoom) {
  for (uint64_t seed = 4; seed <= 9; ++seed) states_without_room(1500, seed);
}

void states_of_clients(uint32_t requests, uint64_t seed) {
  Traffic traffic = state_traffic(requests, state_limits(3 + uint32_t(seed % 6), 90 + 10 * uint32_t(seed % 9), 4, 32));
  traffic.open = 20;
  traffic.clients = uint32_t(2 + seed % 4);
  traffic.cached = 0;  // with fewer slots than sequences hardly a snapshot lasts
  const Tally tally = simulate(traffic, seed);
  EXPECT_GT(tally.metrics.preemptions, 0u);
  EXPECT_EQ(tally.failed, 0u);
}
TEST(StatesSimulation, OfClients) {
  for (uint64_t seed = 1; seed <= 3; ++seed) states_of_clients(150 / shorter, seed);
}
TEST(StatesSimulation, SlowOfClients) {
  for (uint64_t seed = 4; seed <= 8; ++seed) states_of_clients(1000, seed);
}

void states_with_faults(uint32_t requests, uint64_t seed) {
  Traffic traffic = state_traffic(requests, state_limits(40, 300, 4, 32));
  traffic.fault = 0.01;
  const Tally tally = simulate(traffic, seed);
  EXPECT_GT(tally.failed, 0u);
}
TEST(StatesSimulation, WithFaults) { states_with_faults(400 / shorter, 1); }
TEST(StatesSimulation, SlowWithFaults) {
  for (uint64_t seed = 2; seed <= 4; ++seed) states_with_faults(1500, seed);
}

// Of the proposals many are wrong: then the sequence goes back to the state before them.
template <class Backend>
void states_with_speculation(uint32_t requests, uint64_t seed) {
  Traffic traffic = state_traffic(requests, state_limits(seed % 2 ? 80 : 12, 400, seed % 4 ? 8 : 32, 64));
  traffic.open = 12;
  traffic.repetition = 3;
  traffic.options.speculation = Speculation::on;
  const Tally tally = simulate<Backend>(traffic, seed);
  EXPECT_GT(tally.metrics.accepted, 0u);
  EXPECT_LT(tally.metrics.accepted, tally.metrics.proposed);
}
TEST(StatesSimulation, WithSpeculation) {
  states_with_speculation<FakeBackend>(300 / shorter, 1);
  states_with_speculation<FakeDevice>(300 / shorter, 2);
}
TEST(StatesSimulation, SlowWithSpeculation) {
  for (uint64_t seed = 3; seed <= 6; ++seed) {
    states_with_speculation<FakeBackend>(1000, seed);
    states_with_speculation<FakeDevice>(1000, seed);
  }
}

// So few requests at a time that batches often follow one another: states are copied between these.
void states_on_a_device(uint32_t requests, uint64_t seed) {
  Traffic traffic = state_traffic(requests, state_limits(seed % 2 ? 60 : 7, seed % 3 ? 600 : 120));
  traffic.open = 6;
  traffic.longest_answer = 60;
  traffic.repetition = 2;
  traffic.fault = 0.002;
  expect_snapshots(simulate<FakeDevice>(traffic, seed));
}
TEST(StatesSimulation, OnADevice) { states_on_a_device(400 / shorter, 1); }
TEST(StatesSimulation, SlowOnADevice) {
  for (uint64_t seed = 2; seed <= 6; ++seed) states_on_a_device(1500, seed);
}

void states_of_every_shape(uint32_t requests, uint64_t seed) {
  RandomShape shape(requests, seed);
  shape.traffic.limits.state_slots = 1 + shape.below(shape.one_of(4u, 20u, 100u));
  shape.run();
}
TEST(StatesSimulation, OfEveryShape) {
  for (uint64_t seed = 1; seed <= 16; ++seed) states_of_every_shape(60 / shorter, seed);
}
TEST(StatesSimulation, SlowOfEveryShape) {
  for (uint64_t seed = 100; seed < 140; ++seed) states_of_every_shape(300, seed);
}

TEST(StatesSimulation, AllRequestsFailWithTheBackend) {
  expect_all_fail(state_traffic(2000, state_limits(12, 200)), 10);
}

}  // namespace
}  // namespace heddle::test::fake
