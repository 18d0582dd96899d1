// The order in which a forward pass calls its verbs.
#include "model/forward.h"

#include <gtest/gtest.h>

namespace heddle::model {
namespace {

struct Recorder : Backend {
  std::vector<std::string> calls;

  std::string describe() const override { return "recorder"; }
  void begin(const Batch&) override { calls.push_back("begin"); }
  void embed() override { calls.push_back("embed"); }
  void compute(uint32_t layer, uint32_t sublayer) override {
    calls.push_back(fmt::format("compute {} {}", layer, sublayer));
  }
  void add(uint32_t layer, uint32_t sublayer) override { calls.push_back(fmt::format("add {} {}", layer, sublayer)); }
  void keep_states() override { calls.push_back("states"); }
  void head() override { calls.push_back("head"); }
  Result result() override { return {}; }
  void copy_block(uint32_t, uint32_t) override {}
};

using Calls = std::vector<std::string>;

TEST(Forward, SublayersOfALayerReadWhatTheOneBeforeLeft) {
  Model model;
  model.layers.push_back({.sublayers = {Attention(), Attention(), Mixture()}});
  model.layers.push_back({.sublayers = {FeedForward()}});
  Recorder backend;
  forward(model, backend, {});
  EXPECT_EQ(backend.calls, (Calls{"begin", "embed", "compute 0 0", "add 0 0", "compute 0 1", "add 0 1", "compute 0 2",
                                  "add 0 2", "compute 1 0", "add 1 0", "head"}));
}

TEST(Forward, SublayersOfAParallelLayerReadItsInput) {
  Model model;
  model.layers.push_back({.sublayers = {Attention(), FeedForward()}, .parallel = true});
  Recorder backend;
  Batch batch;
  batch.states = {0};
  forward(model, backend, batch);
  EXPECT_EQ(backend.calls,
            (Calls{"begin", "embed", "compute 0 0", "compute 0 1", "add 0 0", "add 0 1", "states", "head"}));
}

TEST(Forward, ABatchThatPredictsComputesTheHeadAlone) {
  Model model;
  model.layers.push_back({.sublayers = {Attention(), Mixture()}});
  model.layers.push_back({.sublayers = {NextHead(), Attention(), FeedForward()}});
  EXPECT_EQ(own_layers(model), 1u);
  Recorder backend;
  Batch batch;
  batch.predicts = true;
  forward(model, backend, batch);
  EXPECT_EQ(backend.calls,
            (Calls{"begin", "compute 1 0", "add 1 0", "compute 1 1", "add 1 1", "compute 1 2", "add 1 2", "head"}));
}

TEST(Layers, AreAskedForASublayerByItsKind) {
  Model model;
  Layer& layer = model.layers.emplace_back();
  layer.sublayers = {Attention{.heads = 2}, Mixture(), Attention{.heads = 3}};
  EXPECT_EQ(layer.get<Attention>().heads, 2u);
  EXPECT_EQ(layer.find<FeedForward>(), nullptr);
  EXPECT_THROW(layer.get<FeedForward>(), std::logic_error);
  std::vector<uint32_t> heads;
  each_attention(model, [&](const Attention& a) { heads.push_back(a.heads); });
  EXPECT_EQ(heads, (std::vector<uint32_t>{2, 3}));
}

TEST(Layers, ListTheMatricesOfEverySublayer) {
  const Matrix one{quant::Format::f32, 8, 4, {}}, stack{quant::Format::f32, 48, 4, {}};
  FeedForward feed_forward{.up = one, .down = one};
  Mixture mixture{.router = one, .routing = {.used = 2}, .up = {6, stack}, .down = {6, stack}};
  mixture.shared = feed_forward;
  const Layer layer{.sublayers = {Attention{.q = one, .k = one, .v = one, .output = one}, feed_forward, mixture}};
  std::vector<std::pair<uint64_t, uint64_t>> rows;  // of each, and what a token is multiplied by
  for (const SublayerMatrix& m : matrices_of(layer))
    rows.emplace_back(m.matrix->rows, m.matrix->rows * m.used / m.experts);
  EXPECT_EQ(rows, (std::vector<std::pair<uint64_t, uint64_t>>{
                      {8, 8}, {8, 8}, {8, 8}, {8, 8}, {8, 8}, {8, 8}, {8, 8}, {48, 16}, {48, 16}, {8, 8}, {8, 8}}));
}

}  // namespace
}  // namespace heddle::model
