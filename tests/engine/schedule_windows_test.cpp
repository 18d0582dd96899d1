// Simulations of models with blocks of windows: a block that is given back too early, or found for another text,
// changes the answers, and every answer is that of the request alone.
#include <gtest/gtest.h>

#include "tests/engine/random_shape.h"

namespace heddle::test::fake {
namespace {

using engine::Speculation;

model::Limits window_limits(uint32_t windows, uint32_t blocks, uint32_t block_tokens = 4, uint32_t rows = 64) {
  model::Limits limits = fake_limits(blocks, block_tokens, rows);
  limits.window_blocks = windows;
  return limits;
}
Traffic window_traffic(uint32_t requests, uint32_t window, const model::Limits& limits) {
  Traffic traffic{.requests = requests, .context = 300, .longest_prompt = 180, .limits = limits, .turns = 0.4};
  traffic.window = window;
  return traffic;
}

void windows_with_room(uint32_t requests, uint64_t seed) {
  const Traffic traffic = window_traffic(requests, 20, window_limits(1500, 3000, 4, 256));
  const Tally tally = simulate(traffic, seed);
  EXPECT_EQ(tally.metrics.preemptions, 0u);
  EXPECT_EQ(tally.failed, 0u);
  EXPECT_LE(tally.longest_gap, traffic.options.max_stall);
}
TEST(WindowsSimulation, WithRoom) { windows_with_room(500 / shorter, 1); }
TEST(WindowsSimulation, SlowWithRoom) {
  for (uint64_t seed = 2; seed <= 4; ++seed) windows_with_room(1500, seed);
}

// Fewer blocks of windows than sequences want, or fewer others, or both.
void windows_without_room(uint32_t requests, uint64_t seed) {
  const std::array<std::array<uint32_t, 2>, 3> rooms{{{18, 800}, {300, 90}, {20, 90}}};
  const auto [windows, blocks] = rooms[seed % 3];
  Traffic traffic = window_traffic(requests, 24, window_limits(windows, blocks, 4, 32));
  traffic.open = 16;
  traffic.cached = 0.05;
  const Tally tally = simulate(traffic, seed);
  EXPECT_EQ(tally.failed, 0u);
}
TEST(WindowsSimulation, WithoutRoom) {
  for (uint64_t seed = 1; seed <= 3; ++seed) windows_without_room(200 / shorter, seed);
}
TEST(WindowsSimulation, SlowWithoutRoom) {
  for (uint64_t seed = 4; seed <= 9; ++seed) windows_without_room(1500, seed);
}

void windows_of_clients(uint32_t requests, uint64_t seed) {
  Traffic traffic =
      window_traffic(requests, 17, window_limits(16 + 5 * uint32_t(seed % 6), 80 + 10 * uint32_t(seed % 9), 4, 32));
  traffic.open = 20;
  traffic.clients = uint32_t(2 + seed % 4);
  traffic.cached = 0;
  const Tally tally = simulate(traffic, seed);
  EXPECT_GT(tally.metrics.preemptions, 0u);
  EXPECT_EQ(tally.failed, 0u);
}
TEST(WindowsSimulation, OfClients) {
  for (uint64_t seed = 1; seed <= 3; ++seed) windows_of_clients(150 / shorter, seed);
}
TEST(WindowsSimulation, SlowOfClients) {
  for (uint64_t seed = 4; seed <= 8; ++seed) windows_of_clients(1000, seed);
}

void windows_with_faults(uint32_t requests, uint64_t seed) {
  Traffic traffic = window_traffic(requests, 30, window_limits(100, 300, 4, 32));
  traffic.fault = 0.01;
  EXPECT_GT(simulate(traffic, seed).failed, 0u);
}
TEST(WindowsSimulation, WithFaults) { windows_with_faults(400 / shorter, 1); }
TEST(WindowsSimulation, SlowWithFaults) {
  for (uint64_t seed = 2; seed <= 4; ++seed) windows_with_faults(1500, seed);
}

// Of the proposals many are wrong: the next ones are written where they were.
template <class Backend>
void windows_with_speculation(uint32_t requests, uint64_t seed) {
  Traffic traffic = window_traffic(requests, seed % 3 ? 9 : 1, window_limits(seed % 2 ? 300 : 60, 400, 4, 64));
  traffic.open = 12;
  traffic.repetition = 3;
  traffic.options.speculation = Speculation::on;
  if (seed % 4 == 3) traffic.limits.state_slots = 20;
  const Tally tally = simulate<Backend>(traffic, seed);
  EXPECT_GT(tally.metrics.accepted, 0u);
  EXPECT_LT(tally.metrics.accepted, tally.metrics.proposed);
}
TEST(WindowsSimulation, WithSpeculation) {
  windows_with_speculation<FakeBackend>(300 / shorter, 1);
  windows_with_speculation<FakeDevice>(300 / shorter, 2);
}
TEST(WindowsSimulation, SlowWithSpeculation) {
  for (uint64_t seed = 3; seed <= 6; ++seed) {
    windows_with_speculation<FakeBackend>(1000, seed);
    windows_with_speculation<FakeDevice>(1000, seed);
  }
}

// So few requests at a time that batches often follow one another, with the block tables of the first.
void windows_on_a_device(uint32_t requests, uint64_t seed) {
  Traffic traffic = window_traffic(requests, 12, window_limits(seed % 2 ? 120 : 30, seed % 3 ? 600 : 120));
  traffic.open = 6;
  traffic.longest_answer = 60;
  traffic.repetition = 2;
  traffic.fault = 0.002;
  simulate<FakeDevice>(traffic, seed);
}
TEST(WindowsSimulation, OnADevice) { windows_on_a_device(400 / shorter, 1); }
TEST(WindowsSimulation, SlowOnADevice) {
  for (uint64_t seed = 2; seed <= 6; ++seed) windows_on_a_device(1500, seed);
}

// Windows of one token, chunks, hardly a block more than one sequence needs, with recurrent states and without.
void windows_of_every_shape(uint32_t requests, uint64_t seed) {
  RandomShape shape(requests, seed);
  Traffic& traffic = shape.traffic;
  traffic.window = shape.one_of(0u, 1u, 2u, 7u, 8u, 31u, 100u, 1000u);
  traffic.chunk = traffic.window && shape.one_of(true, false) ? 0 : shape.one_of(1u, 5u, 16u, 32u, 100u);
  const uint32_t seen = model::Windows{{{traffic.window, traffic.chunk}}}.longest(),
                 block = traffic.limits.block_tokens;
  traffic.limits.window_blocks =
      (seen + traffic.limits.rows + block - 1) / block + 1 + shape.below(shape.one_of(1u, 20u, 200u));
  traffic.limits.state_slots = shape.one_of(0u, 0u, 1u, 5u, 40u);
  shape.run();
}
TEST(WindowsSimulation, OfEveryShape) {
  for (uint64_t seed = 1; seed <= 20; ++seed) windows_of_every_shape(60 / shorter, seed);
}
TEST(WindowsSimulation, SlowOfEveryShape) {
  for (uint64_t seed = 100; seed < 150; ++seed) windows_of_every_shape(300, seed);
}

TEST(WindowsSimulation, AllRequestsFailWithTheBackend) {
  expect_all_fail(window_traffic(2000, 15, window_limits(40, 200)), 10);
}

}  // namespace
}  // namespace heddle::test::fake
