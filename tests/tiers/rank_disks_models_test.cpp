// Real layers on CPUs of several processes with a store: a conversation goes on after its blocks were dropped, and in a
// group that has just started, with the tokens that one process without a store would give.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "model/load.h"
#include "ranks/leader.h"
#include "tests/model/fixture.h"
#include "tests/ranks/processes.h"
#include "tests/ranks/rank_part.h"
#include "tests/support/folder.h"
#include "tests/support/reference_models.h"
#include "tests/tiers/conversation.h"
#include "tests/tiers/damage.h"
#include "tiers/rank_disks.h"
#include "tiers/tiered_store.h"

namespace heddle::test {
namespace {

constexpr uint64_t store_bytes = 64 << 20;

std::unique_ptr<tiers::PartFolder> folder_of(const Folder& folder, const ranks::Group& group) {
  return std::make_unique<tiers::PartFolder>(tiers::rank_folder(folder.path(), group.rank(), group.ranks()),
                                             store_bytes, 10);
}

// Rank 0 of a group of processes, with an engine and a store.
class RankedEngine {
 public:
  RankedEngine(const model::Model& model, const model::Limits& limits, const Folder& folder, uint32_t ranks,
               uint32_t stages)
      : processes_(
            ranks, [&](ranks::Joined& joined) { follow_one(model, limits, folder, joined); }, stages),
        part_(model, limits, processes_.joined),
        backend_(ranks::make_leader(std::move(part_.backend), group(), &numbers_)),
        store(store_bytes, std::make_unique<tiers::GroupDisk>(folder_of(folder, group()), group(), numbers_), nullptr,
              [this](const uint8_t* data) { numbers_.drop(data); }),
        engine(model, *backend_, limits, {.store = &store, .store_identity = model.name}) {}

  // The work is done, and so is that of the others.
  void end() {
    while (engine.save_some() != engine::Engine::Saving::done) store.drain();
    store.drain();
    group().send(ranks::Message::Kind::end, {});
    EXPECT_TRUE(processes_.end());
  }

 private:
  static void follow_one(const model::Model& model, const model::Limits& limits, const Folder& folder,
                         ranks::Joined& joined) {
    RankPart part(model, limits, joined);
    ranks::PartBuffers buffers(store_bytes);
    const tiers::RankDisk disk(folder_of(folder, *joined.group), *joined.group, buffers, *part.backend);
    ranks::follow(part.own(), *part.backend, limits, *joined.group, &buffers);
  }
  ranks::Group& group() { return *processes_.joined.group; }

  RankProcesses processes_;
  ranks::PartNumbers numbers_;
  RankPart part_;
  std::unique_ptr<model::Backend> backend_;

 public:
  tiers::TieredStore store;
  engine::Engine engine;
};

void expect_resumes_on_ranks(const model::Model& model, uint32_t ranks, uint32_t stages) {
  SCOPED_TRACE(fmt::format("{} on {} ranks in {} stages", model.name, ranks, stages));
  const Conversation conversation(model, model::KvFormat::f16, true);
  const Folder folder;
  for (int process = 0; process < 3; ++process) {
    if (process == 2) {  // one byte of one rank
      const auto files = tiers::part_files(tiers::rank_folder(folder.path(), ranks - 1, ranks));
      for (const auto& file : files) tiers::damage_byte(file, std::filesystem::file_size(file) - 1, 1);
    }
    RankedEngine ranked(model, conversation.limits, folder, ranks, stages);
    if (process == 0) conversation.begin_and_drop(ranked.engine);
    const Said again = conversation.go_on(ranked.engine);
    EXPECT_EQ(again.tokens, conversation.second.tokens) << "process " << process;
    EXPECT_EQ(again.cached >= conversation.least_cached, process < 2) << "process " << process << ": " << again.cached;
    EXPECT_TRUE(process == 2 || (ranked.engine.metrics().store.loaded > 0) == (process == 1));
    EXPECT_EQ(ranked.engine.metrics().store.failures > 0, process == 2);
    ranked.end();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RankedStores, WeftResumes) {
  const model::Model model = weft(192);
  expect_resumes_on_ranks(model, 2, 1);
  expect_resumes_on_ranks(model, 3, 1);
}

// With states, with windows, and with both in different stages.
TEST(RankedStores, ModelsOfEveryKindResume) {
  uint32_t with_states = 0, with_windows = 0;
  for (const std::string& name : Fixture::one_of_each_class()) {
    if (name == "gpt2") continue;  // it has learned 32 positions
    const Fixture fixture{name};
    const Folder folder;
    fixture.write(folder, fixture.config);
    const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = 192});
    const bool states = model::has_states(model), windows = !model::windows_of(model).all.empty();
    if (!model::is_causal(model) || !(states || windows)) continue;
    if ((states && with_states >= 3) || (windows && with_windows >= 3)) continue;
    with_states += states;
    with_windows += windows;
    expect_resumes_on_ranks(model, 2, 1);
    try {
      model::stages_of(model, 2);
    } catch (const Error&) {  // its layers read more than the residual stream, or it has one
      continue;
    }
    expect_resumes_on_ranks(model, 2, 2);
  }
  EXPECT_GE(with_states, 3u);
  EXPECT_GE(with_windows, 3u);
}

}  // namespace
}  // namespace heddle::test
