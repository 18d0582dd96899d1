// Models that a GPU and the CPU compute together, by value: the layers of the GPU are interpreted.
#include "model/split.h"

#include <set>

#include "formats/checkpoint.h"
#include "model/load.h"
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
  std::unique_ptr<model::Backend> split(const model::Model& model, const Placement& placement,
                                        const Options& options = {}) {
    return model::make_split(
        model, placement, [&](const model::Model& part) { return make_gpu(part, limits_, interpreted(options)); },
        [&](const model::Model& part) { return cpu::make_cpu(part, limits_, {.threads = 2, .exact = options.exact}); });
  }
  const model::Limits limits_{.rows = 40, .kv_blocks = 32, .block_tokens = 16};
};

class SlowSplitsOfArchitectures : public SplitModels, public testing::WithParamInterface<std::string> {};

// No layer on the GPU, one, all but one, all.
TEST_P(SlowSplitsOfArchitectures, GiveTheReferencesLogits) {
  const test::Folder folder;
  const test::Fixture fixture(GetParam());
  fixture.write(folder, fixture.config, quant::Format::f16);
  const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
  const auto layers = uint32_t(model.layers.size());
  for (const uint32_t on_gpu : std::set<uint32_t>{0, 1, layers - 1, layers}) {
    SCOPED_TRACE(on_gpu);
    BesideReference both(model, limits_, split(model, Placement::first_layers(model, on_gpu)), f16_bound_of_split);
    both.feed({{0, 5}});
    both.feed({{1, 1}, {0, 1}});
    both.feed({{2, 1}, {3, 9}, {1, 2}}, BesideReference::last);
  }
}
INSTANTIATE_TEST_SUITE_P(All, SlowSplitsOfArchitectures, testing::ValuesIn(test::Fixture::names()),
                         [](const auto& one) { return test::as_test_name(one.param); });

}  // namespace
}  // namespace heddle::gpu
