// Models on several ranks, which are threads here, against the same models on one.
#include "cpu/ranks.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/cpu/small_features.h"
#include "tests/model/fixture.h"
#include "tests/support/closeness.h"
#include "tests/support/ranks_in_memory.h"
#include "tests/support/reference_models.h"
#include "tests/support/running.h"
#include "tests/support/shorter.h"

namespace heddle::test {
namespace {

MakeRank fast_rank(bool exact) {
  return [exact](const model::Model& part, const model::Limits& limits, model::Collective& ranks) {
    return cpu::make_cpu(part, limits, {.threads = 1, .exact = exact, .ranks = &ranks});
  };
}
MakeBackend on_ranks(uint32_t ranks, const MakeRank& make, const model::ShardOptions& options = {}) {
  return [=](const model::Model& model, const model::Limits& limits) {
    return std::make_unique<RanksBackend>(model, limits, ranks, options, make);
  };
}

class Ranks : public testing::TestWithParam<std::string> {};

TEST_P(Ranks, LogitsAreThoseOfOne) {
  const Fixture fixture(GetParam());
  const Folder folder;
  fixture.write(folder, fixture.config);
  const auto logits = [&](const MakeBackend& make) {
    return Running(folder.path(), fixture.context, 9, make).all_logits(fixture.ids);
  };
  const std::vector<float> expected = logits(fast(true));
  for (const uint32_t ranks : {2u, 3u, 4u}) {
    const double found = worst(expected, logits(on_ranks(ranks, fast_rank(true))));
    EXPECT_LT(found, 1e-4) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Ranks, testing::ValuesIn(fewer(Fixture::names())),
                         [](const auto& one) { return as_test_name(one.param); });

}  // namespace
}  // namespace heddle::test
