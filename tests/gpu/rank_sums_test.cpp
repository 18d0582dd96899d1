// Ranks as threads, each with an interpreted GPU: what they compute together is what the reference computes alone,
// whether they sum through memory that all see, by NCCL, or both.
#include "gpu/rank_sums.h"

#include "formats/checkpoint.h"
#include "model/load.h"
#include "tests/gpu/interpreted_gpu.h"
#include "tests/model/fixture.h"
#include "tests/support/ranks_in_memory.h"
#include "tests/support/reference_models.h"

namespace heddle::gpu {
namespace {

using Sums = RankOptions::Sums;

constexpr double ranks_bound = 4e-3;  // as of one GPU

class InterpretedRanks : public InterpretedGpu {
 protected:
  void SetUp() override {
    InterpretedGpu::SetUp();
    setenv("HEDDLE_LIBNCCL", driver_path(11080).c_str(), 1);
    control().pinned_as_device = true;
  }
  void TearDown() override {
    unsetenv("HEDDLE_LIBNCCL");
    InterpretedGpu::TearDown();
  }
  std::unique_ptr<model::Backend> make_ranks(const model::Model& model, const model::Limits& limits, uint32_t ranks,
                                             const RankOptions& how, Options options = {},
                                             const model::ShardOptions& shard = {}) {
    ranks_ = ranks;
    return std::make_unique<test::RanksBackend>(
        model, limits, ranks, shard,
        [=](const model::Model& part, const model::Limits& of_rank, model::Collective& group) {
          Options own = options;
          own.ranks = how;
          own.ranks.group = &group;
          return make_gpu(part, of_rank, interpreted(own));
        });
  }
};

class SlowRanksOfClasses : public InterpretedRanks, public testing::WithParamInterface<std::string> {
 protected:
  model::Model load(const test::Folder& folder) {
    const test::Fixture fixture(GetParam());
    fixture.write(folder, fixture.config, quant::Format::f16);
    return model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
  }
  const model::Limits limits_{.rows = 80, .kv_blocks = 40, .block_tokens = 16, .state_slots = 8};
};

TEST_P(SlowRanksOfClasses, GiveTheReferencesLogits) {
  const test::Folder folder;
  const model::Model model = load(folder);
  BesideReference both(model, limits_, make_ranks(model, limits_, 2, {.sums = Sums::own}), ranks_bound);
  both.use_text(test::Fixture(GetParam()).ids);
  both.feed({{0, 5}});
  both.feed({{0, 1}});
  both.feed({{1, 1}, {0, 1}});
  both.feed({{1, 1}, {3, 14}, {0, 2}}, BesideReference::last);
  EXPECT_GT(meetings_, 0u);
}
// Norms after the sum, streams beside the residual, latents, mixtures with shared experts, biases, states, layers in
// parallel.
INSTANTIATE_TEST_SUITE_P(All, SlowRanksOfClasses,
                         testing::Values("bloom", "deepseek2", "falcon-h1", "gemma2", "gemma3n", "gpt-oss", "lfm2",
                                         "llama", "llama4", "mamba2", "olmo2", "phi2", "qwen2moe", "qwen3next"),
                         [](const auto& one) { return test::as_test_name(one.param); });

// Whole experts by rank: with shared ones, biases, and weighted inputs; more rows are grouped by expert.
class SlowRanksOfExperts : public SlowRanksOfClasses {};
TEST_P(SlowRanksOfExperts, GiveTheReferencesLogits) {
  const test::Folder folder;
  const model::Model model = load(folder);
  BesideReference both(model, limits_,
                       make_ranks(model, limits_, 3, {.sums = Sums::own}, {}, {.expert_parallel = true}), ranks_bound);
  both.use_text(test::Fixture(GetParam()).ids);
  both.feed({{0, 5}});
  both.feed({{1, 1}, {0, 1}});
  both.feed({{1, 1}, {3, 14}, {0, 2}}, BesideReference::last);
}
INSTANTIATE_TEST_SUITE_P(All, SlowRanksOfExperts, testing::Values("deepseek3", "gpt-oss", "llama4", "qwen2moe"),
                         [](const auto& one) { return test::as_test_name(one.param); });

class RanksOfSmallModels : public InterpretedRanks {
 protected:
  void SetUp() override {
    InterpretedRanks::SetUp();
    const test::Fixture fixture("llama");
    fixture.write(folder_, fixture.config, quant::Format::f16);
    model_ = model::load(formats::open_checkpoint(folder_.path()), {.context = fixture.context});
    text_ = fixture.ids;
  }
  const test::Folder folder_;
  model::Model model_;
  std::vector<uint32_t> text_;
  const model::Limits limits_{.rows = 80, .kv_blocks = 40, .block_tokens = 16, .state_slots = 8};

  void expect_reference(uint32_t ranks, const RankOptions& how, Options options = {}) {
    BesideReference both(model_, limits_, make_ranks(model_, limits_, ranks, how, options), ranks_bound);
    both.use_text(text_);
    both.feed({{0, 5}});
    both.feed({{0, 1}});
    both.feed({{0, 1}});
    both.feed({{1, 3}, {0, 2}}, BesideReference::last);
  }
};

TEST_F(RanksOfSmallModels, SumThroughPeerMemoryAlone) {
  setenv("HEDDLE_LIBNCCL", "/nowhere/libnccl.so.2", 1);  // is not needed
  expect_reference(2, {});
  EXPECT_GT(meetings_, 0u);
  EXPECT_EQ(control().count("ncclAllReduce"), 0u);
}

TEST_F(RanksOfSmallModels, SumByNcclAlone) {
  expect_reference(2, {.sums = Sums::nccl});
  EXPECT_EQ(meetings_, 0u);
  EXPECT_GT(control().count("ncclAllReduce"), 0u);
}

TEST_F(RanksOfSmallModels, SumLargeRowsByNccl) {
  expect_reference(2, {.max_own_bytes = 2 * model_.width * 4});
  EXPECT_GT(meetings_, 0u);
  EXPECT_GT(control().count("ncclAllReduce"), 0u);
}

TEST_F(RanksOfSmallModels, SumWithoutGraphsAndWithTimesOfAllKernels) {
  expect_reference(2, {}, {.graphs = false});
  expect_reference(2, {.max_own_bytes = model_.width * 4}, {.trace = true});
}

// Steps go on by themselves: graphs that are launched again, with the sums inside, and tokens picked on the device.
TEST_F(RanksOfSmallModels, PickTheSameTokensInStepsThatFollow) {
  for (const Sums sums : {Sums::own, Sums::nccl}) {
    BesideReference both(model_, limits_, make_ranks(model_, limits_, 2, {.sums = sums}), ranks_bound);
    both.use_text(text_);
    both.feed({{0, 4}, {1, 3}});
    both.pick({0}, 5);
    both.pick({0, 1}, 3);
    both.pick({0, 1}, 2, {}, true);
    both.feed({{0, 1}, {1, 1}});
  }
}

TEST_F(RanksOfSmallModels, ThatCannotSumSayWhy) {
  setenv("HEDDLE_LIBNCCL", "/nowhere/libnccl.so.2", 1);
  control().fail["cuIpcGetMemHandle"] = 801;
  const auto make = [&] { make_ranks(model_, limits_, 2, {}); };
  const std::string why = cuda::message<Error>(make);
  cuda::expect_says(why, {"the GPUs of 2 ranks cannot sum", "not through peer memory: cuIpcGetMemHandle", "not by NCCL",
                          "/nowhere/libnccl.so.2"});
}

// As if rank 1 had not come: the word that its kernel sets when it gives up.
TEST_F(RanksOfSmallModels, ThatLoseOneSayWhichAndAreNotUsable) {
  const auto backend = make_ranks(model_, limits_, 2, {.sums = Sums::own});
  BesideReference both(model_, limits_, cpu::make_reference(model_, limits_), ranks_bound);
  both.use_text(text_);
  const model::Batch batch = both.batch_of({{0, 2}}, BesideReference::all);
  model::forward(model_, *backend, batch);
  EXPECT_TRUE(backend->usable());
  for (const fake::LaunchRecord& launch : launched("all_reduce", 0))
    *reinterpret_cast<uint32_t*>(args_of<kernels::AllReduce::Args>(launch).stop.address) = 2;
  EXPECT_EQ(cuda::message<Error>([&] { backend->result(); }), "rank 1 has not come to a sum of rank 0 within 10 s");
  EXPECT_FALSE(backend->usable());
}

TEST_F(RanksOfSmallModels, NeedTheOthers) {
  const model::Model part = model::shard_of(model_, 0, 2);
  cuda::expect_says(cuda::message<Error>([&] { make_gpu(part, limits_, interpreted()); }),
                    {"one rank's part of a model cannot run without the other ranks"});
}

TEST_F(RanksOfSmallModels, RefuseNormsOverTheValuesOfSeveralAfterARotation) {
  model::Attention& a = model_.layers[0].get<model::Attention>();
  a.norm_after_rope = true;
  a.q_norm.across = model::Norm::Across{.size = 1, .counted = true};
  cuda::expect_says(cuda::message<Error>([&] { make_gpu(model_, limits_, interpreted()); }),
                    {"norms over the values of several ranks after a rotation cannot run on the GPU"});
}

}  // namespace
}  // namespace heddle::gpu
