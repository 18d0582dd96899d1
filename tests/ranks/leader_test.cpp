// Models computed by processes, against the same models computed by one.
#include "ranks/leader.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/clock.h"
#include "tests/model/fixture.h"
#include "tests/ranks/processes.h"
#include "tests/ranks/rank_part.h"
#include "tests/support/closeness.h"
#include "tests/support/reference_models.h"
#include "tests/support/running.h"
#include "tests/support/shorter.h"

namespace heddle::ranks {
namespace {

using test::Fixture;
using test::Folder;
using test::RankPart;
using test::RankProcesses;
using test::Running;

// The parts of a sum are rounded to f32, and keys and values of f16 may then be rounded to their other neighbours.
constexpr double close_with_cache = 3e-4;

struct ModelOnDisk {
  std::string name;
  std::filesystem::path path;
  std::vector<uint32_t> ids;
  uint32_t context = 0;
  std::shared_ptr<Folder> folder = nullptr;  // it is in, if it was written for the test
};

// Rank 0's backend, which keeps its part.
test::MakeBackend on_processes(Joined& joined) {
  return [&joined](const model::Model& model, const model::Limits& limits) {
    struct Keeper : model::Backend {
      RankPart part;
      std::unique_ptr<model::Backend> leader;
      Joined& joined;
      Keeper(const model::Model& of, const model::Limits& with, Joined& by)
          : part(of, with, by), leader(make_leader(std::move(part.backend), *by.group)), joined(by) {}
      ~Keeper() override {
        if (!joined.group->alarm().raised()) joined.group->send(Message::Kind::end, {});
      }
      std::string describe() const override { return leader->describe(); }
      void begin(const model::Batch& batch) override { leader->begin(batch); }
      void embed() override { leader->embed(); }
      void compute(uint32_t layer, uint32_t sublayer) override { leader->compute(layer, sublayer); }
      void add(uint32_t layer, uint32_t sublayer) override { leader->add(layer, sublayer); }
      void head() override { leader->head(); }
      model::Result result() override { return leader->result(); }
      void copy_block(uint32_t from, uint32_t to) override { leader->copy_block(from, to); }
      void copy_state(uint32_t from, uint32_t to) override { leader->copy_state(from, to); }
    };
    return std::make_unique<Keeper>(model, limits, joined);
  };
}

constexpr uint32_t runs_of_each = 2, rows_of_batch = 9;

// What the other ranks do: follow once for each run of each model.
void follow_all(const std::vector<ModelOnDisk>& models, Joined& joined) {
  for (const ModelOnDisk& each : models)
    for (uint32_t run = 0; run < runs_of_each; ++run) {
      const model::Model model = model::load(formats::open_checkpoint(each.path), {.context = each.context});
      const model::Limits limits = model::limits_for(model.context, rows_of_batch);
      RankPart part(model, limits, joined);
      follow(part.own(), *part.backend, limits, *joined.group);
    }
}

void expect_same_on_processes(const std::vector<ModelOnDisk>& models, uint32_t ranks, uint32_t stages = 1) {
  RankProcesses processes(
      ranks, [&](Joined& joined) { follow_all(models, joined); }, stages);
  for (const ModelOnDisk& each : models) {
    SCOPED_TRACE(each.name + " on " + std::to_string(ranks) + " ranks");
    const auto running = [&](const test::MakeBackend& make) {
      return Running(each.path, each.context, rows_of_batch, make);
    };
    const size_t count = each.ids.size() + 6;
    EXPECT_LT(test::worst(running(test::fast(true)).all_logits(each.ids),
                          running(on_processes(processes.joined)).all_logits(each.ids)),
              close_with_cache);
    EXPECT_EQ(running(on_processes(processes.joined)).greedy(each.ids, count),
              running(test::fast(true)).greedy(each.ids, count));
  }
  EXPECT_TRUE(processes.end());
}

std::vector<ModelOnDisk> fixtures(const std::vector<std::string>& names) {
  std::vector<ModelOnDisk> models;
  for (const std::string& name : names) {
    const Fixture fixture(name);
    const auto folder = std::make_shared<Folder>();
    fixture.write(*folder, fixture.config);
    models.push_back({name, folder->path(), fixture.ids, fixture.context, folder});
  }
  return models;
}
ModelOnDisk weft_on_disk() {
  return {"weft", HEDDLE_SOURCE_DIR "/models/weft/weft-q8_0.gguf", {1, 300, 17, 5, 900, 42, 77, 3, 8, 8, 21}, 128};
}

class ProcessesOfFixtures : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(All, ProcessesOfFixtures, testing::Values(2u, 3u, 4u));

TEST_P(ProcessesOfFixtures, SlowEveryModelSaysWhatItSaysOnOne) {
  expect_same_on_processes(fixtures(test::fewer(Fixture::names())), GetParam());
}

TEST_P(ProcessesOfFixtures, HfArchSaysWhatItSaysOnOne) {
  std::vector<ModelOnDisk> models;
  SHARED_DATA(folder, "hf-arch");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!std::filesystem::exists(entry.path() / "ref.safetensors")) continue;
    models.push_back({entry.path().filename().string(), entry.path(),
                      test::read_values(entry.path() / "ref.safetensors").ids.at("input_ids")});
  }
  EXPECT_GE(models.size(), 9u);
  expect_same_on_processes(models, GetParam());
}

TEST(Processes, WeftSaysWhatItSaysOnOne) {
  for (const uint32_t ranks : {2u, 3u, 4u}) expect_same_on_processes({weft_on_disk()}, ranks);
}

// Of those that can be cut by layers.
TEST(Pipelines, SayWhatOneProcessSays) {
  std::vector<std::string> names;
  for (const std::string& name : test::fewer(Fixture::one_of_each_class())) {
    const Fixture fixture(name);
    const Folder folder;
    fixture.write(folder, fixture.config);
    const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
    try {
      model::stages_of(model, 2);
      names.push_back(name);
    } catch (const Error&) {  // its layers read more than the residual stream, or it has one
    }
  }
  EXPECT_GT(names.size(), 20u / test::shorter);
  const std::vector<ModelOnDisk> models = fixtures(names);
  expect_same_on_processes(models, 2, 2);
  expect_same_on_processes(models, 4, 2);
  expect_same_on_processes({weft_on_disk()}, 3, 3);
}

// Batches without an end, until the process is killed or stopped.
void expect_end_after(int signal_number, const std::string& reason) {
  const ModelOnDisk weft = weft_on_disk();
  RankProcesses processes(3, [&](Joined& joined) { follow_all({weft}, joined); }, 1, {.silence = 1.5});
  const model::Model model = model::load(formats::open_checkpoint(weft.path), {.context = 128});
  const model::Limits limits = model::limits_for(128, rows_of_batch);
  RankPart part(model, limits, processes.joined);
  const auto leader = make_leader(std::move(part.backend), *processes.joined.group);
  model::Session session(model, *leader, limits);
  session.feed(weft.ids);
  const auto start = Clock::now();
  std::string said;
  try {
    for (uint32_t token = 0; seconds_since(start) < 20; ++token) {
      if (token == 5) processes.signal(2, signal_number);
      session.rewind(0);
      session.feed(weft.ids);
    }
  } catch (const Error& error) {
    said = error.what();
  }
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_NE(said.find("rank 2"), said.npos) << said;
  EXPECT_NE(said.find(reason), said.npos) << said;
  EXPECT_FALSE(leader->usable());
  EXPECT_THROW(leader->copy_block(0, 1), Error);
}

TEST(Processes, ARankThatIsKilledEndsTheGroup) { expect_end_after(SIGKILL, "is gone"); }
TEST(Processes, ARankThatIsStoppedEndsTheGroup) { expect_end_after(SIGSTOP, "no sign of life for 1.5 s"); }

}  // namespace
}  // namespace heddle::ranks
