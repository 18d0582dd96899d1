// Models that a GPU and the CPU compute together, by value: the layers of the GPU are interpreted.
#include <set>

#include "formats/checkpoint.h"
#include "model/load.h"
#include "model/split.h"
#include "tests/cpu/small_model.h"
#include "tests/gpu/interpreted_gpu.h"
#include "tests/model/fixture.h"
#include "tests/support/reference_models.h"

namespace heddle::gpu {
namespace {

using model::Place;
using model::Placement;

constexpr double f16_bound_of_split = 4e-3;

class SplitModels : public InterpretedGpu {
 protected:
  std::unique_ptr<model::Backend> split(const model::Model& model, const Placement& placement, Options options = {},
                                        uint32_t visit_rows = ~0u) {
    for (const auto [layer, sublayer] : model::visitors(model, placement))
      options.visiting.push_back({layer, sublayer});
    return model::make_split(
        model, placement, [&](const model::Model& part) { return make_gpu(part, limits_, interpreted(options)); },
        [&](const model::Model& part) { return cpu::make_cpu(part, limits_, {.threads = 2, .exact = options.exact}); },
        {.visit_rows = visit_rows, .max_rows = limits_.rows});
  }
  const model::Limits limits_{.rows = 40, .kv_blocks = 32, .block_tokens = 16, .state_slots = 8};
};

class SlowSplitsOfArchitectures : public SplitModels, public testing::WithParamInterface<std::string> {};

// One layer on the GPU, and all but one; of a model without states and of one with them, also none and all.
TEST_P(SlowSplitsOfArchitectures, GiveTheReferencesLogits) {
  const test::Folder folder;
  const test::Fixture fixture(GetParam());
  fixture.write(folder, fixture.config, quant::Format::f16);
  const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
  const auto layers = uint32_t(model.layers.size());
  static const std::vector<std::string> classes = test::Fixture::one_of_each_class();
  static const std::set<std::string> with_all_cuts{test::Fixture::with_states(classes, false).front(),
                                                   test::Fixture::with_states(classes, true).front()};
  std::set<uint32_t> cuts{1, layers - 1};
  if (with_all_cuts.contains(GetParam())) cuts.insert({0, layers});
  for (const uint32_t on_gpu : cuts) {
    SCOPED_TRACE(on_gpu);
    BesideReference both(model, limits_, split(model, Placement::first_layers(model, on_gpu)), f16_bound_of_split);
    both.use_text(fixture.ids);
    both.feed({{0, 5}});
    both.feed({{1, 1}, {0, 1}});
    both.feed({{2, 1}, {3, 9}, {1, 2}}, BesideReference::last);
  }
}
// All but those that cannot be divided.
std::vector<std::string> names_of_divisible_models() {
  std::vector<std::string> all = test::Fixture::one_of_each_class();
  std::erase(all, "gemma3n");
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, SlowSplitsOfArchitectures, testing::ValuesIn(names_of_divisible_models()),
                         [](const auto& one) { return test::as_test_name(one.param); });

// Feed-forwards and mixtures on the host, all else on the GPU; they visit it for four rows or more.
Placement visiting_placement(const model::Model& model) {
  Placement placement = Placement::first_layers(model, uint32_t(model.layers.size()));
  placement.head = Place::device;
  for (size_t i = 0; i < model.layers.size(); ++i)
    for (size_t s = 0; s < model.layers[i].sublayers.size(); ++s)
      if (const model::Sublayer& sublayer = model.layers[i].sublayers[s];
          !model.layers[i].parallel &&
          (std::holds_alternative<model::FeedForward>(sublayer) || std::holds_alternative<model::Mixture>(sublayer)))
        placement.sublayers[i][s] = Place::visiting;
  return placement;
}

TEST_P(SlowSplitsOfArchitectures, WeightsVisitTheGpu) {
  const test::Folder folder;
  const test::Fixture fixture(GetParam());
  fixture.write(folder, fixture.config, quant::Format::f16);
  const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
  BesideReference both(model, limits_, split(model, visiting_placement(model), {}, 4), f16_bound_of_split);
  both.use_text(fixture.ids);
  both.feed({{0, 5}});
  both.feed({{1, 1}, {0, 1}});
  both.pick({0, 1}, 0);
  both.feed({{2, 1}, {3, 30}, {1, 2}}, BesideReference::last);
}

// The logits of a row are the same alone, in pieces, beside others and after a copied block.
TEST_F(SplitModels, AreDeterministicToTheBit) {
  test::Builder builder(
      {.format = quant::Format::f16, .width = 64, .heads = 4, .kv_heads = 2, .head = 64, .inner = 96});
  builder.model().context = 128;
  const model::Model& model = builder.model();
  Placement placement = Placement::first_layers(model, 1);
  placement.sublayers[0][1] = Place::host;
  const auto backend = split(model, placement, {.deterministic = true});
  // `count` tokens of text 0 from `first` on in these blocks, after those of another sequence; the last row's logits
  const auto logits = [&](uint32_t first, uint32_t count, const std::vector<uint32_t>& blocks, uint32_t others) {
    model::Batch batch{.blocks = {blocks, {8, 9}}};
    for (uint32_t i = 0; i < others; ++i) {
      batch.tokens.push_back(i * 3 % model.vocabulary);
      batch.positions.push_back(i);
      batch.sequences.push_back(1);
    }
    for (uint32_t i = first; i < first + count; ++i) {
      batch.tokens.push_back((i * 17 + 5) % model.vocabulary);
      batch.positions.push_back(i);
      batch.sequences.push_back(0);
    }
    batch.outputs = {others + count - 1};
    model::forward(model, *backend, batch);
    const std::span<const float> row = backend->result().logits;
    return std::vector<float>(row.begin(), row.end());
  };
  const std::vector<float> whole = logits(0, 20, {0, 1}, 0);
  logits(0, 7, {3, 2}, 0);
  EXPECT_EQ(logits(7, 13, {3, 2}, 5), whole);
  backend->copy_block(3, 6);
  EXPECT_EQ(logits(16, 4, {6, 4}, 1), whole);
  EXPECT_EQ(logits(19, 1, {0, 1}, 0), whole);
}

// Between two crossings a batch of single tokens is one graph, which later batches launch: the same bits as kernel by
// kernel. Weights that visit are in no graph.
TEST_F(SplitModels, StretchesBetweenCrossingsAreGraphs) {
  test::Builder builder(
      {.format = quant::Format::f16, .layers = 3, .width = 64, .heads = 4, .kv_heads = 2, .head = 64, .inner = 96});
  builder.model().context = 128;
  const model::Model& model = builder.model();
  Placement placement = visiting_placement(model);
  placement.sublayers[0][1] = Place::device;
  const auto run = [&](bool graphs) {
    const auto backend = split(model, placement, {.graphs = graphs}, 3);
    std::vector<std::vector<float>> logits;
    const auto feed = [&](uint32_t position, uint32_t sequences) {
      model::Batch batch;
      for (uint32_t i = 0; i < sequences; ++i) {
        batch.tokens.push_back((position * 17 + i * 5) % model.vocabulary);
        batch.positions.push_back(position);
        batch.sequences.push_back(i);
        batch.blocks.push_back({i});
        batch.outputs.push_back(i);
      }
      const size_t made = control().count("cuGraphInstantiateWithFlags"), launched = control().count("cuGraphLaunch");
      model::forward(model, *backend, batch);
      const std::span<const float> rows = backend->result().logits;
      logits.emplace_back(rows.begin(), rows.end());
      return std::pair(control().count("cuGraphInstantiateWithFlags") - made,
                       control().count("cuGraphLaunch") - launched);
    };
    using Counts = std::pair<size_t, size_t>;
    // layer 0 and the attention of layer 1; the attention of layer 2; the head is launched kernel by kernel
    const size_t two = graphs ? 2 : 0, one = graphs ? 1 : 0;
    EXPECT_EQ(feed(0, 1), (Counts{two, 0}));
    EXPECT_EQ(feed(1, 1), (Counts{0, two}));
    EXPECT_EQ(feed(2, 2), (Counts{two, 0}));
    EXPECT_EQ(feed(3, 1), (Counts{0, two}));
    EXPECT_EQ(feed(4, 4), (Counts{one, 0})) << "up to the first visit";
    EXPECT_EQ(feed(5, 4), (Counts{0, one}));
    EXPECT_EQ(feed(6, 2), (Counts{0, two}));
    return logits;
  };
  EXPECT_EQ(run(true), run(false));
}

}  // namespace
}  // namespace heddle::gpu
