// Simulations with a store beyond the KV cache: small ones, full ones, disks that fail, files that are damaged, engines
// that start anew. Every answer is that of the same request alone.
#include <gtest/gtest.h>

#include <functional>

#include "tests/engine/random_shape.h"
#include "tests/support/folder.h"
#include "tests/tiers/damage.h"
#include "tiers/tiered_store.h"

namespace heddle::test::fake {
namespace {

using tiers::damage_a_file;
using tiers::PartFolder;
using tiers::TieredStore;

struct Sums {
  uint64_t restored = 0, loaded = 0;
};

// Random traffic with a store of a random size, in several runs one after another, of which each has a new engine and a
// new store in the same folder.
void run_with_store(uint64_t seed, uint32_t requests, Sums& sums) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  const Folder folder;
  std::mt19937_64 random(seed * 7919);
  const auto below = [&](uint64_t end) { return random() % end; };
  const bool on_disk = below(3) > 0;
  const uint64_t memory = below(2) ? 2'000 + below(20'000) : below(2'000'000);
  for (uint32_t turn = 0; turn < (on_disk ? 3 : 1); ++turn) {
    TieredStore store(memory, on_disk
                                  ? std::make_unique<PartFolder>(folder.path(), below(2) ? below(200'000) : 100'000'000)
                                  : nullptr);
    RandomShape shape(requests, seed);  // the same each time: later engines find what earlier ones left
    shape.traffic.options.store = &store;
    shape.traffic.options.store_identity = "fake";
    if (seed % 3 == 1) {
      shape.traffic.limits.state_slots = 1 + uint32_t(seed % 7);
    } else if (seed % 3 == 2) {
      shape.traffic.window = 1 + uint32_t(seed % 40);
      const model::Limits& limits = shape.traffic.limits;
      const uint32_t least = (shape.traffic.window + limits.rows + limits.block_tokens - 1) / limits.block_tokens + 1;
      shape.traffic.limits.window_blocks = std::min(least + uint32_t(seed % 5), limits.kv_blocks);
    }
    if (on_disk && seed % 2) shape.traffic.disturb = [&] { damage_a_file(folder.path(), random); };
    shape.run();
    sums.restored += shape.tally.metrics.restored;
    sums.loaded += shape.tally.metrics.store.loaded;
    EXPECT_LE(shape.tally.metrics.store.memory_bytes, memory);
    if (::testing::Test::HasFailure()) return;
  }
}

// Random traffic with a small cache and a large store in memory: nearly all that is evicted is restored. `run`
// completes the traffic of a seed and simulates it.
void run_with_memory(uint64_t seeds, const std::function<Tally(Traffic&, uint64_t)>& run) {
  uint64_t restored = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    TieredStore store(100'000'000);
    const uint32_t block = 1u << seed % 4;
    Traffic traffic{.requests = 150 / shorter, .open = uint32_t(2 + seed % 20), .turns = 0.8};
    traffic.limits = fake_limits(traffic.longest_prompt / block + 40, block, uint32_t(8 + seed % 60));
    traffic.options.store = &store;
    traffic.options.store_identity = "fake";
    restored += run(traffic, seed).metrics.restored;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(restored, 300u / shorter);
}

// A head's proposals are computed before the next batch is launched, in blocks that may have just been evicted.
TEST(StoreSimulation, WithAHead) {
  run_with_memory(12, [](Traffic& traffic, uint64_t seed) {
    traffic.limits.state_slots = uint32_t(3 + seed % 30);
    traffic.head_right = 0.9;
    traffic.options.speculation = engine::Speculation::on;
    return seed % 2 ? Simulation<>(traffic, seed).run() : Simulation<FakeDevice>(traffic, seed).run();
  });
}

// A sequence may hold windows that it will not see after what is restored.
TEST(StoreSimulation, WithFewWindows) {
  run_with_memory(40, [](Traffic& traffic, uint64_t seed) {
    traffic.limits.rows = uint32_t(2 + seed % 7);
    traffic.window = uint32_t(1 + seed % 37);
    const uint32_t block = traffic.limits.block_tokens;
    traffic.limits.window_blocks = (traffic.window + traffic.limits.rows + block - 1) / block + 1 + uint32_t(seed % 3);
    return Simulation<>(traffic, seed).run();
  });
}

TEST(StoreSimulation, OfEveryShape) {
  Sums sums;
  for (uint64_t seed = 1; seed <= 18; ++seed) run_with_store(seed, 30 / shorter, sums);
  EXPECT_GT(sums.restored, 300u);
  EXPECT_GT(sums.loaded, 30u);
}
TEST(StoreSimulation, SlowOfEveryShape) {
  Sums sums;
  for (uint64_t seed = 100; seed < 120; ++seed) run_with_store(seed, 100, sums);
  EXPECT_GT(sums.restored, 1000u);
  EXPECT_GT(sums.loaded, 100u);
}

}  // namespace
}  // namespace heddle::test::fake
