// An engine on the fake backend that records every event.
#pragma once
#include <map>

#include "engine/engine.h"
#include "tests/engine/alone.h"

namespace heddle::test::fake {

inline model::Limits fake_limits(uint32_t blocks, uint32_t block_tokens = 4, uint32_t rows = 64) {
  return {.rows = rows, .kv_blocks = blocks, .block_tokens = block_tokens};
}

// Compares as many as were found.
inline void expect_same(const std::vector<engine::Pick>& found, const std::vector<engine::Pick>& expected) {
  ASSERT_LE(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const engine::Pick &a = found[i], &b = expected[i];
    ASSERT_EQ(a.id, b.id) << "token " << i << " of " << expected.size();
    ASSERT_EQ(a.log_probability, b.log_probability);
    ASSERT_EQ(a.top.size(), b.top.size());
    for (size_t j = 0; j < a.top.size(); ++j) {
      ASSERT_EQ(a.top[j].id, b.top[j].id);
      ASSERT_EQ(a.top[j].log_probability, b.top[j].log_probability);
    }
  }
}
inline void expect_same(const Answer& found, const Answer& expected, bool whole = true) {
  if (whole) {
    ASSERT_EQ(found.picks.size(), expected.picks.size());
    ASSERT_EQ(found.prompt_picks.size(), expected.prompt_picks.size());
    EXPECT_EQ(found.embedding, expected.embedding);
    EXPECT_EQ(found.finish_reason, expected.finish_reason);
  }
  expect_same(found.picks, expected.picks);
  expect_same(found.prompt_picks, expected.prompt_picks);
}

template <class Backend = FakeBackend>
struct EngineFixture {
  explicit EngineFixture(model::Limits with_limits, engine::EngineOptions options = {},
                         model::Model with_model = fake_model(256))
      : model(std::move(with_model)), limits(with_limits), backend(model, limits) {
    options.now = [this] { return backend.clock; };
    engine.emplace(model, backend, limits, options);
  }

  engine::RequestId submit(const engine::Request& request, std::function<void(const engine::Event&)> then = {}) {
    const auto id = engine->submit(request, [this, then](const engine::Event& event) {
      on_event(event);
      if (then) then(event);
    });
    requests[id] = request;
    answers[id].resize(request.n);
    return id;
  }
  void on_event(const engine::Event& event) {
    Answer& answer = answers.at(event.request).at(event.index);
    EXPECT_EQ(answer.finish_reason, engine::FinishReason::none) << "nothing comes after the end";
    note(requests.at(event.request), event, answer);
    if (event.finish_reason == engine::FinishReason::none) {
      answer.picks.push_back(event.pick);
      return;
    }
    EXPECT_EQ(event.generated, answer.picks.size());
    answer.finish_reason = event.finish_reason;
    answer.reason = event.reason;
    answer.prompt = event.prompt_tokens;
    answer.cached_tokens = event.cached_tokens;
    answer.generated = event.generated;
  }
  bool step() {
    const bool worked = engine->step();
    engine->check_invariants();
    return worked;
  }
  uint32_t run(uint32_t max_steps = 100000) {  // how many steps it took
    uint32_t steps = 0;
    while (step()) {
      if (++steps < max_steps) continue;
      ADD_FAILURE() << "the engine does not become idle";
      break;
    }
    EXPECT_TRUE(engine->idle());
    return steps;
  }
  Answer& answer(engine::RequestId id, uint32_t index = 0) { return answers.at(id).at(index); }
  Answer alone(engine::RequestId id, uint32_t index = 0) const {
    return answer_alone(model, requests.at(id), index, limits.kv_blocks * limits.block_tokens);
  }
  void expect_as_alone() {
    for (const auto& [id, completions] : answers)
      for (uint32_t index = 0; index < completions.size(); ++index) {
        SCOPED_TRACE(fmt::format("request {}, completion {}", id, index));
        expect_same(completions[index], alone(id, index));
      }
  }
  const engine::Metrics& metrics() const { return engine->metrics(); }

  model::Model model;
  model::Limits limits;
  Backend backend;
  std::optional<engine::Engine> engine;
  std::map<engine::RequestId, engine::Request> requests;
  std::map<engine::RequestId, std::vector<Answer>> answers;
};

// Tokens 1, 2, 3, ... of a small vocabulary.
inline std::vector<uint32_t> some_tokens(uint32_t count, uint32_t first = 1) {
  std::vector<uint32_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i) tokens[i] = (first + i * (1 + first % 3)) % 16;
  return tokens;
}
// Prompts of different seeds share no prefix.
inline std::vector<uint32_t> random_tokens(uint32_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> tokens(count);
  for (uint32_t& token : tokens) token = uint32_t(random() % 16);
  return tokens;
}
inline engine::Request greedy(std::vector<uint32_t> prompt, uint32_t max_tokens) {
  return {.prompt = std::move(prompt), .sampling = {.temperature = 0, .seed = 0}, .max_tokens = max_tokens};
}
inline engine::Request seeded(std::vector<uint32_t> prompt, uint32_t max_tokens, uint64_t seed) {
  return {.prompt = std::move(prompt), .sampling = {.seed = seed}, .max_tokens = max_tokens};
}

}  // namespace heddle::test::fake
