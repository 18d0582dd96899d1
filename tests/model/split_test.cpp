// A model on two backends gives what it gives on one, to the bit where both compute alike.
#include "model/split.h"

#include <gtest/gtest.h>

#include "cpu/cpu.h"
#include "formats/checkpoint.h"
#include "model/forward.h"
#include "model/load.h"
#include "model/session.h"
#include "tests/model/fixture.h"
#include "tests/support/reference_models.h"
#include "tests/support/refused.h"

namespace heddle::model {
namespace {

using test::Fixture;
using test::Folder;

Model load_fixture(const std::string& name, const Folder& folder) {
  const Fixture fixture(name);
  fixture.write(folder, fixture.config, quant::Format::f16);
  return load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
}

std::vector<float> fed_logits(const Model& model, Backend& backend, const Limits& limits) {
  Session session(model, backend, limits);
  std::vector<float> all;
  const auto keep = [&](size_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); };
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 9; ++i) ids.push_back((i * 17 + 5) % model.vocabulary);
  session.feed_each(ids, keep);
  session.feed_each(std::vector<uint32_t>{3 % model.vocabulary}, keep);
  return all;
}

// Every second sublayer on the other side, where a layer allows that.
Placement alternating(const Model& model, Place head) {
  Placement placement = Placement::first_layers(model, 0);
  placement.head = head;
  uint32_t count = 0;
  for (size_t i = 0; i < model.layers.size(); ++i)
    for (Place& place : placement.sublayers[i])
      if (count++ % 2 == 0 && !model.layers[i].parallel) place = Place::device;
  return placement;
}

class Splits : public testing::TestWithParam<std::string> {};

TEST_P(Splits, GiveTheSameLogitsToTheBit) {
  const Folder folder;
  const Model model = load_fixture(GetParam(), folder);
  const Limits limits = limits_for(model.context, 4);
  const MakeBackend cpu = [&](const Model& part) { return cpu::make_cpu(part, limits, {.threads = 2}); };
  const MakeBackend reference = [&](const Model& part) { return cpu::make_reference(part, limits); };
  const auto layers = uint32_t(model.layers.size());
  std::vector<Placement> placements;
  for (const uint32_t first : {0u, 1u, layers - 1, layers}) placements.push_back(Placement::first_layers(model, first));
  for (const Place head : {Place::device, Place::host}) placements.push_back(alternating(model, head));
  if (model.token_inputs) {  // of which there is no way from one to the other
    EXPECT_REFUSED(make_split(model, placements[1], cpu, cpu), "cannot be divided between a GPU and the CPU");
    placements = {Placement::first_layers(model, 0)};
  }
  for (const MakeBackend& make : {cpu, reference}) {
    const std::vector<float> whole = fed_logits(model, *make(model), limits);
    for (const Placement& placement : placements)
      EXPECT_EQ(fed_logits(model, *make_split(model, placement, make, make), limits), whole);
  }
}
INSTANTIATE_TEST_SUITE_P(All, Splits, testing::ValuesIn(Fixture::one_of_each_class()),
                         [](const auto& one) { return test::as_test_name(one.param); });

// Remembers the sublayers that it computes; the residual stream is what the test sees of it.
class Watched : public Backend {
 public:
  Watched(const std::string& name, std::vector<std::string>& log) : name_(name), log_(log) {}
  std::string describe() const override { return name_; }
  void begin(const Batch& batch) override {
    log_.push_back(fmt::format("{} begins {} with {}", name_, batch.tokens.size(), batch.outputs.size()));
    rows_.resize(batch.tokens.size());
  }
  void embed() override { log_.push_back(name_ + " embeds"); }
  void compute(uint32_t layer, uint32_t sublayer) override {
    log_.push_back(fmt::format("{} {}.{}", name_, layer, sublayer));
  }
  void add(uint32_t, uint32_t) override {}
  void head() override { log_.push_back(name_ + " head"); }
  Result result() override { return {}; }
  bool can_pick(const Picking&) const override { return name_ == "device"; }
  void copy_block(uint32_t from, uint32_t to) override {
    log_.push_back(fmt::format("{} copies {} to {}", name_, from, to));
  }
  std::span<const float> residual() override { return rows_; }
  void set_residual(std::span<const float> rows) override {
    log_.push_back(fmt::format("{} takes {}", name_, rows.size()));
  }

 private:
  const std::string name_;
  std::vector<std::string>& log_;
  std::vector<float> rows_;
};

TEST(Split, RowsCrossWhereThePlaceChangesAndWeightsVisitForManyRows) {
  Model model{.vocabulary = 9};
  model.layers.resize(2);
  for (Layer& layer : model.layers) layer.sublayers = {Attention{}, FeedForward{}};
  Placement placement = Placement::first_layers(model, 2);
  placement.sublayers[1][1] = Place::visiting;
  placement.head = Place::device;
  ASSERT_EQ(visitors(model, placement).size(), 1u);
  EXPECT_EQ(visitors(model, placement)[0].layer, 1u);
  EXPECT_EQ(visitors(model, placement)[0].sublayer, 1u);
  EXPECT_EQ(part_of(model, placement, Place::device).layers[1].sublayers.size(), 2u);
  EXPECT_EQ(part_of(model, placement, Place::host).layers[1].sublayers.size(), 1u);

  using Log = std::vector<std::string>;
  Log log;
  const auto backend = make_split(
      model, placement, [&](const Model&) { return std::make_unique<Watched>("device", log); },
      [&](const Model&) { return std::make_unique<Watched>("host", log); }, {.visit_rows = 3});
  EXPECT_EQ(backend->describe(), "device, with host; weights visit the device for 3 rows or more");
  EXPECT_TRUE(backend->can_pick({}));
  EXPECT_EQ(backend->max_in_flight(), 1u);
  EXPECT_EQ(backend->max_followed_rows(), 0u);
  forward(model, *backend,
          {.tokens = {1, 2}, .positions = {0, 1}, .sequences = {0, 0}, .blocks = {{0}}, .outputs = {1}});
  EXPECT_EQ(log, (Log{"device begins 2 with 1", "host begins 2 with 0", "host embeds", "device takes 2", "device 0.0",
                      "device 0.1", "device 1.0", "host takes 2", "host 1.0", "device takes 2", "device head"}));
  log.clear();
  forward(model, *backend,
          {.tokens = {1, 2, 3}, .positions = {0, 1, 2}, .sequences = {0, 0, 0}, .blocks = {{0}}, .outputs = {2}});
  EXPECT_EQ(log, (Log{"device begins 3 with 1", "host begins 3 with 0", "host embeds", "device takes 3", "device 0.0",
                      "device 0.1", "device 1.0", "device 1.1", "device head"}));
  const SplitTimes times = backend->split_times().value();
  EXPECT_EQ(times.batches, 2u);
  EXPECT_EQ(times.crossings, 4u);
  for (const double seconds : {times.host, times.launch, times.wait}) EXPECT_GT(seconds, 0);
  EXPECT_EQ(backend->split_times()->batches, 0u);
  log.clear();
  backend->copy_block(2, 5);
  EXPECT_EQ(log, (Log{"device copies 2 to 5", "host copies 2 to 5"}));

  placement.head = Place::host;
  const auto picks_on_host = make_split(
      model, placement, [&](const Model&) { return std::make_unique<Watched>("device", log); },
      [&](const Model&) { return std::make_unique<Watched>("host", log); });
  EXPECT_FALSE(picks_on_host->can_pick({}));
  EXPECT_THROW(picks_on_host->begin({.follows = true}), std::logic_error);
}

}  // namespace
}  // namespace heddle::model
