// Real layers on the CPU with a store: a conversation goes on after its blocks were dropped, and in an engine that has
// just started, with the tokens that it would have without a store.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "model/load.h"
#include "tests/engine/crowd.h"
#include "tests/model/fixture.h"
#include "tests/support/folder.h"
#include "tests/support/reference_models.h"
#include "tiers/tiered_store.h"

namespace heddle::test {
namespace {

using Ids = std::vector<uint32_t>;

Ids random_ids(const model::Model& model, uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  Ids ids;
  while (ids.size() < count) ids.push_back(uint32_t(random() % model.vocabulary));
  return ids;
}

struct Said {
  Ids tokens;
  uint32_t cached = 0;
};
Said ask(engine::Engine& engine, const Ids& prompt, uint32_t count) {
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

// Blocks for one text of 160 tokens and a little more.
model::Limits small_limits(const model::Model& model, model::KvFormat kv) {
  model::Limits limits{.rows = 32, .kv_blocks = 22, .block_tokens = 8, .kv = kv};
  if (model::has_states(model)) limits.state_slots = 4;
  const uint32_t seen = model::windows_of(model).longest();
  if (const uint32_t windows = (seen + limits.rows + 7) / 8 + 2; seen && windows < limits.kv_blocks)
    limits.window_blocks = windows;
  return limits;
}

void expect_resumes(const model::Model& model, model::KvFormat kv) {
  const model::Limits limits = small_limits(model, kv);
  const Ids first = random_ids(model, 1, 61), more = random_ids(model, 2, 30);
  const auto next_prompt = [&](const Said& said) {
    Ids prompt = first;
    prompt.insert(prompt.end(), said.tokens.begin(), said.tokens.end());
    prompt.insert(prompt.end(), more.begin(), more.end());
    return prompt;
  };
  const auto expected = [&] {
    const auto backend = cpu::make_cpu(model, limits, {.threads = 1});
    engine::Engine engine(model, *backend, limits, {.prefix_cache = false});
    const Said one = ask(engine, first, 20);
    return std::pair(one, ask(engine, next_prompt(one), 12));
  }();
  const Folder folder;
  for (int process = 0; process < 2; ++process) {
    tiers::TieredStore store(64 << 20, std::make_unique<tiers::PartFolder>(folder.path(), 64 << 20));
    const auto backend = cpu::make_cpu(model, limits, {.threads = 1});
    engine::Engine engine(model, *backend, limits, {.store = &store, .store_identity = model.name});
    if (process == 0) {
      EXPECT_EQ(ask(engine, first, 20).tokens, expected.first.tokens);
      for (uint32_t other = 0; other < 3; ++other) ask(engine, random_ids(model, 10 + other, 130), 2);  // it is dropped
    }
    const Said again = ask(engine, next_prompt(expected.first), 12);
    EXPECT_EQ(again.tokens, expected.second.tokens) << "process " << process;
    // of a conversation of 81 tokens, all whole blocks but the last ones, of which a state may be missing
    EXPECT_GE(again.cached, model::has_states(model) ? 48u : 72u) << "process " << process;
    EXPECT_GT(engine.metrics().restored, 0u);
    EXPECT_EQ(engine.metrics().store.loaded > 0, process == 1);
    while (engine.save_some() != engine::Engine::Saving::done) store.drain();
  }
}

TEST(StoredModels, WeftResumes) {
  const model::Model model = weft(192);
  for (const model::KvFormat kv : {model::KvFormat::f16, model::KvFormat::q8}) expect_resumes(model, kv);
}

class StoredFixtures : public testing::TestWithParam<std::string> {};
TEST_P(StoredFixtures, Resume) {
  const Fixture fixture{GetParam()};
  const Folder folder;
  fixture.write(folder, fixture.config);
  const model::Model model = model::load(formats::open_checkpoint(folder.path()));
  if (!model::is_causal(model)) GTEST_SKIP() << "a text is computed at once";
  if (model.context < 160) GTEST_SKIP() << "a context of " << model.context;
  expect_resumes(model, model::KvFormat::f16);
  if (model::has_states(model) || !model::windows_of(model).all.empty()) expect_resumes(model, model::KvFormat::q8);
}
INSTANTIATE_TEST_SUITE_P(All, StoredFixtures, testing::ValuesIn(Fixture::one_of_each_class()),
                         [](const auto& one) { return as_test_name(one.param); });

}  // namespace
}  // namespace heddle::test
