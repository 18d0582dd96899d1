// A conversation of two turns. Between them its blocks are evicted from the KV cache.
#pragma once
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cpu/cpu.h"
#include "engine/engine.h"
#include "tests/engine/crowd.h"

namespace heddle::test {

struct Said {
  std::vector<uint32_t> tokens;
  uint32_t cached = 0;
};

class Conversation {
 public:
  using Ids = std::vector<uint32_t>;

  // What it says without a prefix cache.
  Conversation(const model::Model& model, model::KvFormat kv, bool exact = false)
      : limits(small_limits(model, kv)),
        // of a conversation of 81 tokens, all whole blocks but the last ones, of which a state may be missing
        least_cached(model::has_states(model) ? 48 : 72),
        model_(model) {
    const auto backend = cpu::make_cpu(model, limits, {.threads = 1, .exact = exact});
    engine::Engine engine(model, *backend, limits, {.prefix_cache = false});
    first = ask(engine, ids(1, 61), 20);
    second = go_on(engine);
  }

  void begin_and_drop(engine::Engine& engine) const {
    EXPECT_EQ(ask(engine, ids(1, 61), 20).tokens, first.tokens);
    for (uint32_t other = 0; other < 3; ++other) ask(engine, ids(10 + other, 130), 2);  // it is dropped
  }
  Said go_on(engine::Engine& engine) const {
    Ids prompt = ids(1, 61);
    const Ids more = ids(2, 30);
    prompt.insert(prompt.end(), first.tokens.begin(), first.tokens.end());
    prompt.insert(prompt.end(), more.begin(), more.end());
    return ask(engine, prompt, 12);
  }

  const model::Limits limits;  // blocks for one text of 160 tokens and a little more
  const uint32_t least_cached;
  Said first, second;

 private:
  Ids ids(uint32_t seed, size_t count) const {
    std::mt19937 random(seed);
    Ids some;
    while (some.size() < count) some.push_back(uint32_t(random() % model_.vocabulary));
    return some;
  }
  static Said ask(engine::Engine& engine, const Ids& prompt, uint32_t count) {
    Said said;
    engine::Request request{.prompt = prompt, .max_tokens = count};
    request.sampling.temperature = 0;
    bool ended = false;
    engine.submit(request, [&](const engine::Event& event) {
      if (event.finish_reason == FinishReason::none) return said.tokens.push_back(event.pick.id);
      EXPECT_EQ(event.reason, "");
      said.cached = event.cached_tokens;
      ended = true;
    });
    while (!ended) {
      engine.step();
      engine.check_invariants();
    }
    return said;
  }
  static model::Limits small_limits(const model::Model& model, model::KvFormat kv) {
    model::Limits limits{.rows = 32, .kv_blocks = 22, .block_tokens = 8, .kv = kv};
    if (model::has_states(model)) limits.state_slots = 4;
    const uint32_t seen = model::windows_of(model).longest();
    if (const uint32_t windows = (seen + limits.rows + 7) / 8 + 2; seen && windows < limits.kv_blocks)
      limits.window_blocks = windows;
    return limits;
  }

  const model::Model& model_;
};

}  // namespace heddle::test
