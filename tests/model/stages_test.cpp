// Stages of layers, one after the other, give what the whole model gives.
#include "model/stages.h"

#include <gtest/gtest.h>

#include "model/split.h"
#include "tests/model/fixture.h"
#include "tests/support/closeness.h"
#include "tests/support/ranks_in_memory.h"
#include "tests/support/reference_models.h"
#include "tests/support/refused.h"
#include "tests/support/running.h"
#include "tests/support/shorter.h"

namespace heddle::test {
namespace {

using model::Model;
using model::Stage;

// The stages of a model in one process: the residual stream goes from each to the next.
class StagesBackend : public model::Backend {
 public:
  StagesBackend(const Model& model, const model::Limits& limits, uint32_t count, const MakeBackend& make) {
    for (const Stage& stage : model::stages_of(model, count)) {
      models_.push_back(std::make_unique<Model>(model::stage_of(model, stage)));
      backends_.push_back(make(*models_.back(), limits));
      for (uint32_t i = 0; i < stage.count; ++i) of_layer_.emplace_back(uint32_t(models_.size()) - 1, i);
    }
  }
  std::string describe() const override { return "stages"; }
  void begin(const model::Batch& batch) override {
    others_ = batch;
    others_.outputs.clear();
    others_.states.clear();
    for (auto& backend : backends_) backend->begin(backend == backends_.back() ? batch : others_);
    at_ = 0;
  }
  void embed() override { backends_[0]->embed(); }
  void compute(uint32_t layer, uint32_t sublayer) override {
    const auto [stage, own_layer] = of_layer_[layer];
    if (stage != at_) backends_[stage]->set_residual(backends_[at_]->residual());
    at_ = stage;
    backends_[stage]->compute(own_layer, sublayer);
  }
  void add(uint32_t layer, uint32_t sublayer) override { backends_[at_]->add(of_layer_[layer].second, sublayer); }
  void keep_states() override { backends_.back()->keep_states(); }
  void head() override { backends_.back()->head(); }
  model::Result result() override { return backends_.back()->result(); }
  void copy_block(uint32_t, uint32_t) override {}

 private:
  std::vector<std::unique_ptr<Model>> models_;
  std::vector<std::unique_ptr<model::Backend>> backends_;
  std::vector<std::pair<uint32_t, uint32_t>> of_layer_;  // stage, and the layer's number in it
  model::Batch others_;
  uint32_t at_ = 0;  // stage
};

MakeBackend in_stages(uint32_t count, const MakeBackend& make) {
  return [=](const Model& model, const model::Limits& limits) {
    return std::make_unique<StagesBackend>(model, limits, count, make);
  };
}

bool can_be_divided(const Model& model) {
  return std::all_of(model.layers.begin(), model.layers.end(),
                     [](const model::Layer& layer) { return model::reads_beside_residual(layer).empty(); });
}

class StagesOfFixture : public testing::TestWithParam<std::string> {};

TEST_P(StagesOfFixture, GiveTheSameLogits) {
  const Fixture fixture(GetParam());
  const Folder folder;
  fixture.write(folder, fixture.config);
  const auto loaded = [&] {
    return model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
  };
  if (!can_be_divided(loaded())) {
    EXPECT_REFUSED(model::stages_of(loaded(), 2), "it cannot be divided into stages of layers");
    return;
  }
  const auto logits = [&](const MakeBackend& make) { return Running(loaded(), make, 9).all_logits(fixture.ids); };
  const std::vector<float> expected = logits(fast(true)), reference = logits(cpu::make_reference);
  for (const uint32_t count : {2u, uint32_t(loaded().layers.size())}) {
    EXPECT_EQ(logits(in_stages(count, fast(true))), expected) << count;  // to the bit
    EXPECT_EQ(logits(in_stages(count, cpu::make_reference)), reference) << count;
  }
  const MakeBackend on_two_ranks = [](const Model& stage, const model::Limits& limits) {
    return std::make_unique<RanksBackend>(stage, limits, 2, model::ShardOptions(), cpu::make_reference_rank);
  };
  EXPECT_LT(worst(reference, logits(in_stages(2, on_two_ranks))), 2e-6);
}
INSTANTIATE_TEST_SUITE_P(All, StagesOfFixture, testing::ValuesIn(fewer(Fixture::one_of_each_class())),
                         [](const auto& one) { return as_test_name(one.param); });

// Layers of a feed-forward without data, each with as many inner values as said.
Model layers_of(const std::vector<uint64_t>& inner, uint64_t vocabulary) {
  Model model;
  model.name = "m";
  model.output = {.rows = vocabulary, .cols = 10, .data = {}};
  for (const uint64_t size : inner) {
    model::FeedForward f;
    f.up = {.rows = size, .cols = 10, .data = {}};
    f.down = {.rows = 10, .cols = size, .data = {}};
    model.layers.push_back({.sublayers = {f}});
  }
  return model;
}

TEST(Stages, AreAsEvenAsCanBeByBytes) {
  const auto stages = [](const std::vector<uint64_t>& inner, uint64_t vocabulary, uint32_t count) {
    return model::stages_of(layers_of(inner, vocabulary), count);
  };
  EXPECT_EQ(stages({5, 5, 5, 5}, 0, 2), (std::vector<Stage>{{0, 2}, {2, 2}}));
  EXPECT_EQ(stages({5, 5, 5, 5}, 20, 2), (std::vector<Stage>{{0, 3}, {3, 1}}));  // output is as two layers
  EXPECT_EQ(stages({1, 1, 1, 9, 1}, 0, 3)[1], (Stage{3, 1}));
  EXPECT_EQ(stages({9, 1, 1, 1}, 0, 4), (std::vector<Stage>{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(stages({9, 1, 1, 1}, 0, 1), (std::vector<Stage>{{0, 4}}));
  EXPECT_REFUSED(stages({1, 1}, 0, 3), "m: expected 1 to 2 stages, one for each layer, found 3");
  EXPECT_REFUSED(stages({1, 1}, 0, 0), "found 0");
}

}  // namespace
}  // namespace heddle::test
