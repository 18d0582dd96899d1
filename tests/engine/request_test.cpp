// Completions do not depend on the other requests: in any batch a request gets what it gets alone.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "engine/engine_thread.h"
#include "tests/engine/crowd.h"

namespace heddle::test {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::Event;
using engine::Speculation;

using Answers = std::vector<std::vector<Answer>>;  // (requests, completions)

Answers room_for(const std::vector<Asked>& all) {
  Answers answers;
  for (const Asked& asked : all) answers.emplace_back(asked.request.n);
  return answers;
}
void note(Answer& answer, const Event& event) {
  EXPECT_EQ(answer.finish_reason, FinishReason::none) << "an event after the end";
  answer.finish_reason = event.finish_reason;
  if (event.prompt_picks) {
    EXPECT_TRUE(answer.tokens.empty() && answer.prompt.tokens.empty()) << "more than once, or late";
    for (const engine::Pick& pick : *event.prompt_picks) answer.prompt.add(pick);
  }
  answer.embedding = event.embedding;
  if (event.finish_reason == FinishReason::none)
    answer.add(event.pick);
  else
    EXPECT_EQ(event.generated, answer.tokens.size()) << event.reason;
}
void expect_as_alone(const Answers& answers, const std::vector<Asked>& all) {
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t index = 0; index < all[i].alone.size(); ++index)
      EXPECT_EQ(answers[i][index], all[i].alone[index]) << "request " << i << ", completion " << index;
}

struct Crowd {
  std::string name;
  EngineOptions options;
  uint32_t blocks = 0;  // 0: all of them
};

// Requests arrive in a random order, some at once and some a few steps later.
engine::Metrics run(World& world, const std::vector<Asked>& all, const Crowd& crowd) {
  SCOPED_TRACE(crowd.name);
  model::Limits limits = world.limits;
  if (crowd.blocks) limits.kv_blocks = crowd.blocks;
  EngineOptions options = crowd.options;
  options.now = [clock = 0.0]() mutable { return clock += 0.0005; };  // so that every run is the same
  Engine engine(world.model, *world.backend, limits, options);
  std::mt19937 random(5);
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  Answers answers = room_for(all);
  for (const size_t i : order) {
    engine.submit(all[i].request, [&answers, i](const Event& event) { note(answers[i][event.index], event); });
    for (uint32_t steps = uint32_t(random() % 8); steps > 5; --steps) engine.step();
  }
  for (uint32_t steps = 0; !engine.idle() && steps < 100'000; ++steps) {
    engine.step();
    engine.check_invariants();
  }
  EXPECT_TRUE(engine.idle());
  expect_as_alone(answers, all);
  EXPECT_EQ(engine.metrics().blocks_in_use, 0u);
  return engine.metrics();
}

void run_all_crowds(World& world, const std::vector<Asked>& all) {
  const uint32_t few = world.model.context / world.limits.block_tokens;  // for the longest
  const engine::Metrics plain = run(world, all, {"plain", {.prefix_cache = false, .speculation = Speculation::off}});
  EXPECT_EQ(plain.proposed, 0u);
  const engine::Metrics reused = run(world, all, {"reused", {.max_stall = 0.002, .speculation = Speculation::off}});
  EXPECT_GT(reused.prompt_cached, plain.prompt_cached);
  EXPECT_LT(reused.prompt_computed, plain.prompt_computed);
  const engine::Metrics speculating =
      run(world, all, {"speculating", {.max_stall = 10, .prefix_cache = false, .speculation = Speculation::on}});
  EXPECT_GT(speculating.accepted, 0u);
  EXPECT_GT(speculating.proposed, speculating.accepted);
  const engine::Metrics crammed = run(world, all, {"crammed", {.speculation = Speculation::automatic}, few});
  EXPECT_GT(crammed.preemptions, 0u);
  run(world, all,
      {"crammed and speculating", {.max_stall = 1e-9, .prefix_cache = false, .speculation = Speculation::on}, few});
}

TEST(Crowd, AnswersAreThoseOfEachAlone) {
  World world(tiny_model(), {.rows = 48, .kv_blocks = 400, .block_tokens = 8});
  run_all_crowds(world, Asker(world, 1).ask(24, 20));
}

TEST(Crowd, AnswersAreThoseOfEachAloneWithASmallCache) {
  World world(tiny_model(), {.rows = 16, .kv_blocks = 800, .block_tokens = 4, .kv = model::KvFormat::q8});
  run_all_crowds(world, Asker(world, 2).ask(20, 20));
}

TEST(Crowd, SlowSixtyFourRequestsToWeft) {
  World world(weft(160), {.rows = 128, .kv_blocks = 1000, .block_tokens = 16});
  run_all_crowds(world, Asker(world, 3).ask(64, 20));
}

TEST(Crowd, AnswersAreThoseOfEachAloneThroughThreads) {
  World world(tiny_model(), {.rows = 48, .kv_blocks = 400, .block_tokens = 8});
  const std::vector<Asked> all = Asker(world, 4).ask(16, 12);
  Answers answers = room_for(all);
  std::mutex mutex;
  std::condition_variable ended;
  size_t open = 0;
  for (const Asked& asked : all) open += asked.request.n;
  Engine engine(world.model, *world.backend, world.limits);
  engine::EngineThread thread(engine);
  std::vector<std::thread> users;
  for (size_t user = 0; user < 4; ++user)
    users.emplace_back([&, user] {
      for (size_t i = user; i < all.size(); i += 4)
        thread.submit(all[i].request, [&, i](const Event& event) {
          note(answers[i][event.index], event);  // one call after the other
          if (event.finish_reason == FinishReason::none) return;
          const std::lock_guard lock(mutex);
          --open;
          ended.notify_all();
        });
    });
  for (std::thread& user : users) user.join();
  std::unique_lock lock(mutex);
  ASSERT_TRUE(ended.wait_for(lock, std::chrono::seconds(100), [&] { return open == 0; }));
  expect_as_alone(answers, all);
}

// A second request with the same prefix does not compute it again.
TEST(Crowd, APrefixIsComputedOnce) {
  World world(tiny_model(), {.rows = 48, .kv_blocks = 64, .block_tokens = 16});
  Engine engine(world.model, *world.backend, world.limits, {.speculation = Speculation::off});
  const auto ask = [&](const std::vector<uint32_t>& prompt, bool reuse = true) {
    engine::Request request{.prompt = prompt, .max_tokens = 3, .reuse = reuse};
    request.sampling.temperature = 0;
    Event end;
    engine.submit(request, [&](const Event& event) { end = event; });
    const uint64_t before = engine.metrics().prompt_computed;
    while (!engine.idle()) engine.step();
    EXPECT_EQ(end.finish_reason, FinishReason::length);
    EXPECT_EQ(end.prompt_tokens, prompt.size());
    EXPECT_EQ(engine.metrics().prompt_computed - before, end.prompt_tokens - end.cached_tokens);
    return end.cached_tokens;
  };
  std::vector<uint32_t> first(150), second(160);
  for (uint32_t i = 0; i < 160; ++i) second[i] = (i * 7919) % world.model.vocabulary;
  std::copy_n(second.begin(), 150, first.begin());
  second[155] ^= 1;

  EXPECT_EQ(ask(first), 0u);
  EXPECT_EQ(ask(second), 150u);  // nine whole blocks of 16, and a part of the tenth
  EXPECT_EQ(ask(first), 149u);   // one token must be computed, or there is nothing to pick from
  EXPECT_EQ(ask(first, false), 0u);
  first[15] ^= 1;
  EXPECT_EQ(ask(first), 15u);  // the first block differs in its last token
  first[15] ^= 1;
  first[16] ^= 1;
  EXPECT_EQ(ask(first), 16u);  // the second one in its first
  first.resize(10);
  EXPECT_EQ(ask(first), 9u);
  second.resize(144);
  EXPECT_EQ(ask(second), 143u);
  second.resize(4);
  EXPECT_EQ(ask(second), 0u);  // three tokens are not worth a copy
}

}  // namespace
}  // namespace heddle::test
