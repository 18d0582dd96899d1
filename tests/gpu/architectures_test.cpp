// Every architecture that is read can be described for the device, and its steps recorded.
#include "formats/checkpoint.h"
#include "gpu/gpu.h"
#include "model/forward.h"
#include "model/load.h"
#include "model/session.h"
#include "tests/gpu/expect_sources.h"
#include "tests/gpu/fake_gpu.h"
#include "tests/model/fixture.h"
#include "tests/support/reference_models.h"

namespace heddle::gpu {
namespace {

using quant::Format;

// All rows of the model are among the sources once, whatever its architecture.
void expect_described(const model::Model& model) {
  DeviceModel d = describe_weights(model);
  ASSERT_EQ(d.layers.size(), model.layers.size());
  for (Weights* w : d.all()) {
    EXPECT_EQ(w->sources.size() % w->count, 0u);
    if (w->places.empty()) {
      EXPECT_EQ(w->sources.size(), w->count);
    } else if (w->count == 1) {
      expect_sources_fill_places(*w, w->sources.size());
    }
    EXPECT_TRUE(w->bias.empty() || w->bias.size() >= w->shape.rows);
  }
  for (size_t i = 0; i < d.layers.size(); ++i) {
    const auto& a = model.layers[i].get<model::Attention>();
    uint64_t rows = 0;
    for (const Weights& w : d.layers[i].find<DeviceAttention>()->qkv) rows += w.shape.rows;
    EXPECT_EQ(rows, a.q.rows + a.k.rows + a.v.rows);
    EXPECT_EQ(bool(d.layers[i].find<DeviceMixture>()), bool(model.layers[i].find<model::Mixture>()));
    EXPECT_EQ(d.layers[i].sublayers.size(), model.layers[i].sublayers.size());
  }
}

class DescribeArchitectures : public testing::TestWithParam<std::string> {};
TEST_P(DescribeArchitectures, TheirTensorsAreAllThere) {
  const test::Fixture fixture(GetParam());
  const test::Folder folder;
  for (Format format : {Format::f32, Format::bf16}) {
    fixture.write(folder, fixture.config, format);
    expect_described(model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context}));
  }
}
INSTANTIATE_TEST_SUITE_P(All, DescribeArchitectures, testing::ValuesIn(test::Fixture::names()),
                         [](const auto& one) { return test::as_test_name(one.param); });

using test::HfArch;
TEST_P(HfArch, IsDescribed) {
  SHARED_DATA(path, folder());
  expect_described(model::load(formats::open_checkpoint(path)));
}
HEDDLE_FOR_ALL_OF_HF_ARCH();

// Prompts by the matrix units, a few rows by products, and steps: arguments of every launch suit its kernel.
void expect_runs(const model::Model& model) {
  const model::Limits limits = model::limits_for(std::min(model.context, 128u), 32);
  auto backend = make_gpu(model, limits);
  model::Session session(model, *backend, limits);
  for (size_t rows : {13u, 3u, 1u}) {
    const std::vector<uint32_t> tokens(rows, 1);
    EXPECT_EQ(session.feed(tokens).size(), model.vocabulary);
  }
  model::forward(model, *backend,
                 {.tokens = {2},
                  .positions = {17},
                  .sequences = {0},
                  .blocks = {{0}},
                  .outputs = {0},
                  .picking = {model::Picking()}});
  model::forward(model, *backend, {.follows = true});
  EXPECT_EQ(backend->result().picked.size(), 1u);
}

class FakeGpuArchitectures : public FakeGpu, public testing::WithParamInterface<std::string> {};
TEST_P(FakeGpuArchitectures, Run) {
  const test::Fixture fixture(GetParam());
  const test::Folder folder;
  fixture.write(folder, fixture.config, quant::Format::f16);
  expect_runs(model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context}));
}
INSTANTIATE_TEST_SUITE_P(All, FakeGpuArchitectures, testing::ValuesIn(test::Fixture::names()),
                         [](const auto& one) { return test::as_test_name(one.param); });

}  // namespace
}  // namespace heddle::gpu
