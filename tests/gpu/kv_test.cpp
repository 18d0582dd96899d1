// The KV cache on the device: its formats, copies of blocks, and attention that does not depend on the batch.
#include <cstring>
#include <numeric>
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

using cuda::message;
using kernels::ClusterAttention;
using kernels::Heads;
using kernels::PromptAttention;
using model::KvFormat;

// Heads of 64, as the fast kernels take them; `joined`: q, k and v in one product.
struct WideModel : SmallModel {
  explicit WideModel(bool joined = true) : SmallModel(2) {
    for (model::Layer& layer : model.layers) {
      model::Attention& a = layer.get<model::Attention>();
      a.head = a.value_head = 64;
      a.q = matrix(256, 64), a.k = matrix(128, 64), a.v = matrix(128, 64), a.output = matrix(64, 256);
      set_rope(a, model::Rope::Style::halves, 64);
      if (!joined) a.q_norm = a.k_norm = norm(64);
    }
  }
};

// One batch: so many new tokens of each sequence, after so many that are there.
model::Batch batch_of(const std::vector<std::pair<uint32_t, uint32_t>>& rows_after) {
  model::Batch batch;
  for (uint32_t s = 0; s < rows_after.size(); ++s) {
    const auto [rows, after] = rows_after[s];
    for (uint32_t i = 0; i < rows; ++i)
      batch.tokens.push_back(i % 90), batch.sequences.push_back(s), batch.positions.push_back(after + i);
    batch.blocks.push_back({2 * s, 2 * s + 1});
    if (rows) batch.outputs.push_back(uint32_t(batch.tokens.size() - 1));
  }
  return batch;
}

template <class Args>
Args args_of(const fake::LaunchRecord& launch) {
  Args args;
  EXPECT_EQ(launch.args.size(), sizeof args) << launch.kernel;
  std::memcpy(&args, launch.args.data(), sizeof args);
  return args;
}

class Cache : public FakeGpu {
 protected:
  // Those of a kernel that were launched since then.
  std::vector<fake::LaunchRecord> launched(const std::string& kernel, size_t from) {
    std::lock_guard lock(control().mutex);
    std::vector<fake::LaunchRecord> all;
    for (size_t i = from; i < control().launches.size(); ++i)
      if (control().launches[i].kernel == kernel) all.push_back(control().launches[i]);
    return all;
  }
  static size_t count(const Calls& all, const std::string& one) {
    return size_t(std::count(all.begin(), all.end(), one));
  }

  const model::Limits f16_{.rows = 100, .kv_blocks = 64, .block_tokens = 32};
  const model::Limits q8_{.rows = 100, .kv_blocks = 64, .block_tokens = 32, .kv = KvFormat::q8};
};

TEST_F(Cache, Q8TakesAsMuchAsIsPlanned) {
  WideModel wide;
  const cuda::DeviceInfo device = cuda::devices()[0];
  const uint64_t values = 64u * 32 * 2 * (64 + 64) * 2;  // blocks, tokens, heads, K and V, layers
  EXPECT_EQ(memory_needed(wide.model, f16_, device).kv, values * 2);
  EXPECT_EQ(memory_needed(wide.model, q8_, device).kv, values / 32 * 34);
  EXPECT_EQ(memory_needed(wide.model, q8_, device).kv, model::kv_bytes(wide.model, q8_));
  control().free_bytes = memory_needed(wide.model, q8_, device).total();
  EXPECT_EQ(make_gpu(wide.model, q8_, {.deterministic = true})->describe(),
            "cuda:0 Fake GPU 0 (sm_90, 132 SMs), int8 and f16 activations, KV cache of q8, deterministic");
  EXPECT_THROW(make_gpu(wide.model, f16_), Error);
}

TEST_F(Cache, Q8WantsHeadsOfAMultipleOf32) {
  SmallModel small;  // heads of 16
  EXPECT_EQ(message<Error>([&] { make_gpu(small.model, q8_); }),
            "small: a KV cache of q8 has a scale for each 32 values, but this model's heads have 16");
  WideModel wide;
  wide.model.layers[1].get<model::Attention>().value_head = 80;
  EXPECT_THROW(make_gpu(wide.model, q8_), Error);
  EXPECT_EQ(control().count("cuMemAlloc_v2"), 0u);
}

// All shapes of batches find kernels, and every one of them is told where the scales are.
TEST_F(Cache, Q8GoesThroughTheKernelThatSeesWholeHeads) {
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

// A stream must not wait for the assembler.
TEST_F(Cache, UsualBatchesFindTheirKernelsLoaded) {
  WideModel wide;
  wide.model.context = 64 * 32;
  for (model::Layer& layer : wide.model.layers) {  // gemm has many shapes for these
    layer.get<model::FeedForward>().gate = layer.get<model::FeedForward>().up = wide.matrix(6000, 64),
    layer.get<model::FeedForward>().down = wide.matrix(64, 6000);
  }
  auto backend = make_gpu(wide.model, {.rows = 512, .kv_blocks = 256});
  size_t before = calls();
  auto expect_nothing_loaded = [&](const std::string& after) {
    const Calls since = calls_since(before);
    EXPECT_EQ(std::count_if(since.begin(), since.end(), is_compiling), 0) << after;
    before = calls();
  };
  auto run = [&](const std::vector<std::pair<uint32_t, uint32_t>>& shape, const std::string& name) {
    model::Batch batch = batch_of(shape);
    for (auto& blocks : batch.blocks) {
      blocks.resize(64);
      std::iota(blocks.begin(), blocks.end(), 0u);
    }
    batch.picking.assign(batch.outputs.size(), model::Picking{.logprob = batch.tokens.size() % 3 == 0});
    model::forward(wide.model, *backend, batch);
    EXPECT_EQ(backend->result().picked.size(), batch.outputs.size());
    expect_nothing_loaded(name);
    batch.picking.back().reset();  // its logits come to the host
    model::forward(wide.model, *backend, batch);
    EXPECT_EQ(backend->result().logits.size(), wide.model.vocabulary);
    expect_nothing_loaded(name + ", one for the host");
  };
  for (uint32_t after : {30u, 200u, 300u, 600u, 1000u, 1500u}) {
    for (uint32_t streams = 1; streams <= 140; streams += streams < 64 ? 1 : 19)
      run(std::vector<std::pair<uint32_t, uint32_t>>(streams, {1, after}), fmt::format("{} streams", streams));
    for (uint32_t streams : {0u, 1u, 2u, 4u, 8u, 12u, 20u, 33u, 60u})
      for (uint32_t rows : {2u, 30u, 64u, 65u, 71u, 90u, 100u, 130u, 175u, 200u, 257u, 310u, 400u, 452u}) {
        std::vector<std::pair<uint32_t, uint32_t>> shape(streams, {1, after});
        shape.emplace_back(rows, after);
        run(shape, fmt::format("{} streams and a prompt of {} after {}", streams, rows, after));
      }
  }
}

TEST_F(Cache, ABlockIsCopiedInAllLayers) {
  for (const model::Limits& limits : {f16_, q8_}) {
    WideModel wide(false);  // norms: `heads` tells where the cache is
    auto backend = make_gpu(wide.model, limits);
    const size_t before = launches();
    model::forward(wide.model, *backend, batch_of({{1, 0}}));
    backend->result();
    struct Part {
      uint8_t* at;
      size_t block;  // bytes
    };
    std::vector<Part> parts;
    const size_t values = 32u * 2 * 64;  // of a block
    for (const auto& launch : launched("heads", before)) {
      const auto args = args_of<Heads::Args>(launch);
      const bool q8 = limits.kv == KvFormat::q8;
      for (uint64_t address : {args.k_cache.address, args.v_cache.address})
        parts.push_back({reinterpret_cast<uint8_t*>(address), q8 ? values : values * 2});
      for (uint64_t address : {args.k_scale.address, args.v_scale.address})
        if (q8) parts.push_back({reinterpret_cast<uint8_t*>(address), values / 16});
    }
    ASSERT_EQ(parts.size(), wide.model.layers.size() * (limits.kv == KvFormat::q8 ? 4 : 2));
    for (size_t i = 0; i < parts.size(); ++i)
      for (size_t j = 0; j < 64 * parts[i].block; ++j) parts[i].at[j] = uint8_t(j / parts[i].block * 3 + i);
    const size_t asked = calls();
    backend->copy_block(5, 63), backend->copy_block(0, 1), backend->copy_block(7, 7);
    const Calls since = calls_since(asked);
    EXPECT_EQ(since, Calls(parts.size() * 2, "cuMemcpyDtoDAsync_v2"));
    for (size_t i = 0; i < parts.size(); ++i)
      for (size_t j = 0; j < 64 * parts[i].block; ++j) {
        const size_t block = j / parts[i].block, from = block == 63 ? 5 : block == 1 ? 0 : block;
        ASSERT_EQ(parts[i].at[j], uint8_t(from * 3 + i)) << i << " " << j;
      }
    EXPECT_THROW(backend->copy_block(64, 0), std::logic_error);
    EXPECT_THROW(backend->copy_block(0, 64), std::logic_error);
  }
}

// Each row is attended to by the same shape of the same kernel, whatever it comes with.
TEST_F(Cache, DeterministicAttentionHasOneShape) {
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
    run({{1, 0}}), run({{1, 60}, {1, 2}}), run({{7, 2}}), run({{64, 0}}), run({{1, 9}, {30, 3}, {1, 0}});
    run({{60, 0}, {1, 5}, {20, 20}}), run(std::vector<std::pair<uint32_t, uint32_t>>(32, {1, 8}));
    EXPECT_EQ(shapes.size(), 1u);
  }
  SmallModel small;  // heads that the fast kernel does not take
  auto backend = make_gpu(small.model, f16_, {.deterministic = true});
  const size_t before = launches();
  for (const auto& shape : {batch_of({{1, 0}}), batch_of({{60, 0}})}) model::forward(small.model, *backend, shape);
  EXPECT_EQ(launched("any_attention", before).size(), 2u);
}

// Many sequences of one new token each share their positions out as a few do.
TEST_F(Cache, ManySingleTokensAreNoPrompt) {
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

}  // namespace
}  // namespace heddle::gpu
