// Real layers on the CPU with a store: a conversation goes on after its blocks were dropped, and in an engine that has
// just started, with the tokens that it would have without a store.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "model/load.h"
#include "tests/model/fixture.h"
#include "tests/support/folder.h"
#include "tests/support/reference_models.h"
#include "tests/tiers/conversation.h"
#include "tiers/tiered_store.h"

namespace heddle::test {
namespace {

void expect_resumes(const model::Model& model, model::KvFormat kv) {
  const Conversation conversation(model, kv);
  const model::Limits& limits = conversation.limits;
  const Folder folder;
  for (int process = 0; process < 2; ++process) {
    tiers::TieredStore store(64 << 20, std::make_unique<tiers::PartFolder>(folder.path(), 64 << 20));
    const auto backend = cpu::make_cpu(model, limits, {.threads = 1});
    engine::Engine engine(model, *backend, limits, {.store = &store, .store_identity = model.name});
    if (process == 0) conversation.begin_and_drop(engine);
    const Said again = conversation.go_on(engine);
    EXPECT_EQ(again.tokens, conversation.second.tokens) << "process " << process;
    EXPECT_GE(again.cached, conversation.least_cached) << "process " << process;
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
  if (GetParam() == "gpt2") GTEST_SKIP() << "it has learned 32 positions, and no more";
  const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = 192});
  if (!model::is_causal(model)) GTEST_SKIP() << "a text is computed at once";
  expect_resumes(model, model::KvFormat::f16);
  if (model::has_states(model) || !model::windows_of(model).all.empty()) expect_resumes(model, model::KvFormat::q8);
}
INSTANTIATE_TEST_SUITE_P(All, StoredFixtures, testing::ValuesIn(Fixture::one_of_each_class()),
                         [](const auto& one) { return as_test_name(one.param); });

}  // namespace
}  // namespace heddle::test
