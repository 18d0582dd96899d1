// Traffic of a random shape: blocks of one token, two rows, limits that hardly fit a request, faults, conversations and
// drafts, in every combination.
#pragma once
#include <concepts>

#include "tests/engine/simulation.h"

namespace heddle::test::fake {

class RandomShape {
 public:
  RandomShape(uint32_t requests, uint64_t seed) : traffic{.requests = requests}, seed_(seed), random_(seed) {
    traffic.open = 1 + below(50);
    traffic.longest_prompt = 1 + below(200);
    traffic.longest_answer = 1 + below(60);
    traffic.context = traffic.longest_prompt + 2 + below(150);
    block_ = one_of(1u, 2u, 3u, 4u, 8u, 16u, 32u);
    least_ = traffic.longest_prompt / block_ + 2;
    traffic.limits = fake_limits(least_ + below(one_of(20u, 3 * least_)), block_, 2 + below(one_of(6u, 60u)));
  }

  Tally tally;      // of run()
  Traffic traffic;  // of which the test may change the model and its limits before run()

  template <class T>
  T one_of(T first, std::same_as<T> auto... others) {
    return std::array{first, others...}[random_() % (1 + sizeof...(others))];
  }
  uint32_t below(uint32_t end) { return uint32_t(random_() % end); }

  void run() {
    traffic.repetition = one_of(0.0f, 0.0f, 1.0f, 4.0f);
    traffic.fault = one_of(0.0, 0.0, 0.01);
    traffic.penalties = one_of(true, false);
    traffic.cancelled = one_of(0.1, 0.5);
    traffic.throwing = one_of(0.02, 0.2);
    traffic.turns = one_of(0.0, 0.5, 0.9);
    traffic.options.prefix_cache = one_of(true, true, true, false);
    traffic.options.speculation = engine::Speculation(below(3));
    traffic.options.max_stall = one_of(0.001, 0.01, 0.05, 0.3);
    traffic.options.max_waiting = 1 + below(60);
    traffic.clients = 1 + below(4);
    const bool slots = traffic.limits.state_slots > 0;
    if (one_of(true, false)) {
      traffic.draft = fake_limits(least_ + below(60), block_, 2 + below(60));
      if (slots) traffic.draft->state_slots = one_of(0u, 1u, 2u, 5u, 40u);
      traffic.draft_right = one_of(0.5, 0.9, 1.0);
    } else if (slots && one_of(true, false)) {
      traffic.head_right = one_of(0.5, 0.9, 1.0);
    }
    SCOPED_TRACE(fmt::format("seed {}", seed_));
    tally = one_of(true, false) ? Simulation<FakeDevice>(traffic, seed_).run() : Simulation<>(traffic, seed_).run();
    if (::testing::Test::HasFailure()) fmt::print("with seed {}\n", seed_);
  }

 private:
  uint64_t seed_;
  std::mt19937_64 random_;
  uint32_t block_, least_;  // tokens of a block; blocks with which the longest prompt fits
};

// Every request fails when the backend has failed for good.
inline void expect_all_fail(Traffic traffic, uint64_t seeds) {
  traffic.unusable = 0.02;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    traffic.open = uint32_t(1 + seed % 8);
    Simulation<FakeDevice> simulation(traffic, seed);
    EXPECT_GT(simulation.run().failed, 0u);
    EXPECT_EQ(simulation.engine().stopped(), "the end");
  }
}

}  // namespace heddle::test::fake
