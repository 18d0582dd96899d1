// Attention: the arguments and shapes of its kernels for batches of all kinds.
#include <set>

#include "gpu/gpu.h"
#include "kernels/attention/cluster_attention.h"
#include "kernels/attention/heads.h"
#include "kernels/attention/prompt_attention.h"
#include "model/forward.h"
#include "tests/gpu/fake_gpu.h"
#include "tests/gpu/small_model.h"

namespace heddle::gpu {
namespace {

using kernels::ClusterAttention;
using kernels::Heads;
using kernels::PromptAttention;
using model::KvFormat;

class Attend : public FakeGpu {
 protected:
  // The fake device's memory is the host's.
  static std::vector<uint32_t> numbers(ptx::DevicePtr<uint32_t> at, size_t count) {
    const auto* first = reinterpret_cast<const uint32_t*>(at.address);
    return {first, first + count};
  }

  const model::Limits f16_{.rows = 100, .kv_blocks = 64, .block_tokens = 32};
  const model::Limits q8_{.rows = 100, .kv_blocks = 64, .block_tokens = 32, .kv = KvFormat::q8};
};

// Batches of all shapes find kernels, and every kernel gets the addresses of the scales.
TEST_F(Attend, Q8GoesThroughTheKernelThatSeesWholeHeads) {
  for (bool joined : {true, false})
    for (bool deterministic : {false, true}) {
      WideModel wide(joined);
      auto backend = make_gpu(wide.model, q8_, {.deterministic = deterministic});
      const std::vector<std::vector<std::pair<uint32_t, uint32_t>>> shapes = {
          {{1, 0}}, {{1, 5}, {1, 9}, {1, 40}}, {{7, 2}}, {{1, 9}, {20, 3}, {1, 0}}, {{64, 0}, {30, 9}}};
      for (const auto& shape : shapes) {
        const size_t before = launches();
        model::forward(wide.model, *backend, batch_of(shape));
        backend->result();
        const auto heads = launched("heads", before);
        ASSERT_EQ(heads.size(), wide.model.layers.size());
        for (const auto& launch : heads) {
          const auto args = args_of<Heads::Args>(launch);
          const uint64_t values = 64u * 32 * 2 * 64;
          EXPECT_EQ(args.k_scale.address, args.k_cache.address + values);
          EXPECT_EQ(args.v_scale.address, args.v_cache.address + values);
        }
        const auto cluster = launched("cluster_attention", before);
        for (const auto& launch : cluster) {
          const auto args = args_of<ClusterAttention::Args>(launch);
          EXPECT_EQ(args.k_scale.address % 16, 0u);
          EXPECT_NE(args.k_scale.address, 0u);
        }
        // tokens of streams first, then prompts: both in one batch are two launches
        const auto prompts = launched("prompt_attention", before);
        const bool mixed = !deterministic && shape.size() == 3 && shape[1].first > 1;
        EXPECT_EQ(cluster.size() + prompts.size(), wide.model.layers.size() * (mixed ? 2 : 1));
        if (!mixed) continue;
        for (const auto& launch : prompts) EXPECT_EQ(args_of<PromptAttention::Args>(launch).tile_count, 2u);
        for (const auto& launch : cluster) EXPECT_EQ(args_of<ClusterAttention::Args>(launch).sequences, 1u);
      }
    }
}

// Every row is given to the same shape of the same kernel, whatever else is in the batch.
TEST_F(Attend, DeterministicAttentionHasOneShape) {
  for (KvFormat kv : {KvFormat::f16, KvFormat::q8}) {
    WideModel wide;
    model::Limits limits = f16_;
    limits.kv = kv;
    auto backend = make_gpu(wide.model, limits, {.deterministic = true});
    std::set<std::vector<uint32_t>> shapes;
    auto run = [&](const std::vector<std::pair<uint32_t, uint32_t>>& rows_after) {
      const model::Batch batch = batch_of(rows_after);
      const size_t before = launches();
      model::forward(wide.model, *backend, batch);
      backend->result();
      EXPECT_TRUE(launched("prompt_attention", before).empty());
      const auto all = launched("cluster_attention", before);
      EXPECT_EQ(all.size(), wide.model.layers.size());
      for (const auto& launch : all) {
        const auto args = args_of<ClusterAttention::Args>(launch);
        EXPECT_EQ(args.sequences, batch.tokens.size());
        EXPECT_EQ(launch.grid[1], batch.tokens.size());
        shapes.insert(
            {launch.grid[0], launch.grid[2], launch.block[0], launch.cluster[0], launch.shared, args.clusters});
      }
    };
    run({{1, 0}});
    run({{1, 60}, {1, 2}});
    run({{7, 2}});
    run({{64, 0}});
    run({{1, 9}, {30, 3}, {1, 0}});
    run({{60, 0}, {1, 5}, {20, 20}});
    run(std::vector<std::pair<uint32_t, uint32_t>>(32, {1, 8}));
    EXPECT_EQ(shapes.size(), 1u);
  }
  SmallModel small;  // heads that the fast kernel does not take
  auto backend = make_gpu(small.model, f16_, {.deterministic = true});
  const size_t before = launches();
  for (const auto& shape : {batch_of({{1, 0}}), batch_of({{60, 0}})}) model::forward(small.model, *backend, shape);
  EXPECT_EQ(launched("any_attention", before).size(), 2u);
}

// Many sequences of one new token each take the same kernel as a few do.
TEST_F(Attend, ManySingleTokensAreNoPrompt) {
  WideModel wide;
  auto backend = make_gpu(wide.model, {.rows = 100, .kv_blocks = 200, .block_tokens = 32});
  for (uint32_t rows : {1u, 9u, 64u, 65u, 100u}) {
    const size_t before = launches();
    model::forward(wide.model, *backend, batch_of(std::vector<std::pair<uint32_t, uint32_t>>(rows, {1, 30})));
    backend->result();
    EXPECT_EQ(launched("cluster_attention", before).size(), wide.model.layers.size()) << rows;
    EXPECT_TRUE(launched("prompt_attention", before).empty());
  }
}

// A layer with a window or with chunks shares no more positions than a row sees among blocks.
TEST_F(Attend, WindowsAndChunksChooseShapesByWhatARowSees) {
  WideModel wide;
  wide.model.context = 20000;
  auto grids_after = [&](uint32_t position) {
    auto backend = make_gpu(wide.model, {.rows = 4, .kv_blocks = 700, .block_tokens = 32});
    model::Batch batch{.tokens = {1}, .positions = {position}, .sequences = {0}, .blocks = {{}}, .outputs = {0}};
    for (uint32_t block = 0; block <= position / 32; ++block) batch.blocks[0].push_back(block);
    const size_t before = launches();
    model::forward(wide.model, *backend, batch);
    backend->result();
    std::vector<uint32_t> blocks;
    for (const auto& launch : launched("cluster_attention", before)) blocks.push_back(launch.grid[0] * launch.grid[2]);
    return blocks;
  };
  const std::vector<uint32_t> shorts = grids_after(100);
  model::Attention &first = wide.attention(), &second = wide.model.layers[1].get<model::Attention>();
  first.window = 128;
  const std::vector<uint32_t> longs = grids_after(19000);
  EXPECT_EQ(longs[0], shorts[0]);
  EXPECT_GT(longs[1], shorts[1]);
  second.chunk = 100;
  EXPECT_EQ(grids_after(19000), shorts);
}

// Rows of texts, and their tiles, know where the text ends.
TEST_F(Attend, TextsInBothDirectionsHaveTheirLengths) {
  WideModel wide;
  for (model::Layer& layer : wide.model.layers) layer.get<model::Attention>().causal = false;
  auto backend = make_gpu(wide.model, f16_);
  const size_t before = launches();
  model::forward(wide.model, *backend, batch_of({{1, 0}, {30, 0}, {7, 0}}));
  backend->result();
  const auto prompts = launched("prompt_attention", before), single = launched("cluster_attention", before);
  ASSERT_EQ(prompts.size(), 2u);
  const auto args = args_of<PromptAttention::Args>(prompts[0]);
  EXPECT_EQ(args.tile_count, 2u);
  EXPECT_EQ(numbers(args.lengths, 2), (std::vector<uint32_t>{30, 7}));
  ASSERT_EQ(single.size(), 2u);
  const auto lengths = args_of<ClusterAttention::Args>(single[0]).lengths;
  EXPECT_EQ(numbers({lengths.address}, 3), (std::vector<uint32_t>{1, 30, 30}));
  EXPECT_EQ(numbers({lengths.address + 30 * 4}, 3), (std::vector<uint32_t>{30, 7, 7}));
}

}  // namespace
}  // namespace heddle::gpu
