// The KV cache on the device: its formats, its memory, and copies of blocks.
#include "gpu/gpu.h"
#include "kernels/attention/heads.h"
#include "model/forward.h"
#include "tests/gpu/interpreted_gpu.h"
#include "tests/gpu/small_model.h"

namespace heddle::gpu {
namespace {

using cuda::message;
using kernels::Heads;
using model::KvFormat;

const model::Limits f16_blocks{.rows = 100, .kv_blocks = 64, .block_tokens = 32};
const model::Limits q8_blocks{.rows = 100, .kv_blocks = 64, .block_tokens = 32, .kv = KvFormat::q8};

struct CacheBuffer {
  uint8_t* at;
  size_t block;  // bytes
};

// Those of all layers, as `heads` was launched with them. The bytes of each block become a number.
std::vector<CacheBuffer> fill_caches(const std::vector<fake::LaunchRecord>& heads, bool q8) {
  std::vector<CacheBuffer> buffers;
  const size_t values = 32u * 2 * 64;  // of a block
  for (const auto& launch : heads) {
    const auto args = args_of<Heads::Args>(launch);
    for (uint64_t address : {args.k_cache.address, args.v_cache.address})
      buffers.push_back({reinterpret_cast<uint8_t*>(address), q8 ? values : values * 2});
    for (uint64_t address : {args.k_scale.address, args.v_scale.address})
      if (q8) buffers.push_back({reinterpret_cast<uint8_t*>(address), values / 16});
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    for (size_t j = 0; j < 64 * buffers[i].block; ++j) buffers[i].at[j] = uint8_t(j / buffers[i].block * 3 + i);
  return buffers;
}

class KvCaches : public FakeGpu {
 protected:
  const model::Limits &f16_ = f16_blocks, &q8_ = q8_blocks;
};

class KvCachesAsBytes : public InterpretedGpu {
 protected:
  void SetUp() override {
    InterpretedGpu::SetUp();
    control().pinned_as_device = true;
  }
};

TEST_F(KvCaches, Q8TakesAsMuchAsIsPlanned) {
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

// A text is computed in one batch, so no layer needs the keys and values of another.
TEST_F(KvCaches, LayersInBothDirectionsShareOne) {
  WideModel wide(false);
  const cuda::DeviceInfo device = cuda::devices()[0];
  const uint64_t causal = memory_needed(wide.model, f16_, device).kv;
  for (model::Layer& layer : wide.model.layers) layer.get<model::Attention>().causal = false;
  EXPECT_EQ(memory_needed(wide.model, f16_, device).kv * 2, causal);
  EXPECT_EQ(model::kv_bytes(wide.model, f16_) * 2, causal);
  control().free_bytes = memory_needed(wide.model, f16_, device).total();
  auto backend = make_gpu(wide.model, f16_);
  const size_t before = launches();
  model::forward(wide.model, *backend, batch_of({{3, 0}}));
  backend->result();
  const auto heads = launched("heads", before);
  ASSERT_EQ(heads.size(), 2u);
  const auto first = args_of<Heads::Args>(heads[0]), second = args_of<Heads::Args>(heads[1]);
  EXPECT_EQ(first.k_cache.address, second.k_cache.address);
  EXPECT_EQ(first.v_cache.address, second.v_cache.address);
}

// A head of 16 has one scale, one of 80 three.
TEST_F(KvCaches, Q8TakesHeadsOfAnySize) {
  const cuda::DeviceInfo device = cuda::devices()[0];
  SmallModel small;
  const model::Attention& a = small.model.layers[0].get<model::Attention>();
  ASSERT_EQ(a.head, 16u);
  const uint64_t of_token = model::kv_bytes(a, KvFormat::q8);
  EXPECT_EQ(of_token, a.kv_heads * 2 * (16 + 2));
  const uint64_t planned = memory_needed(small.model, q8_, device).kv, all = model::kv_bytes(small.model, q8_);
  EXPECT_GE(planned, all);
  EXPECT_LT(planned, all + small.model.layers.size() * 2 * 512);  // of the pages that are allocated
  make_gpu(small.model, q8_);
  WideModel wide;
  for (model::Layer& layer : wide.model.layers) layer.get<model::Attention>().value_head = 80;
  EXPECT_EQ(model::kv_bytes(wide.model.layers[0].get<model::Attention>(), KvFormat::q8), 2 * (64 + 2 * 2 + 80 + 3 * 2));
}

// The first of two layers has blocks of windows: its cache is small, and it is addressed by another table.
TEST_F(KvCaches, OfWindowsHaveBlocksOfTheirOwn) {
  WideModel wide(false);
  wide.model.layers[0].get<model::Attention>().window = 8;
  model::Limits limits = f16_;
  limits.window_blocks = 16;
  const cuda::DeviceInfo device = cuda::devices()[0];
  EXPECT_EQ(memory_needed(wide.model, limits, device).kv, memory_needed(wide.model, f16_, device).kv / 2 * 5 / 4);
  EXPECT_GT(memory_needed(wide.model, limits, device).workspace, memory_needed(wide.model, f16_, device).workspace);
  auto backend = make_gpu(wide.model, limits);
  const size_t before = launches();
  model::Batch batch = batch_of({{3, 0}});
  EXPECT_THROW(model::forward(wide.model, *backend, batch), std::logic_error) << "no table of windows";
  batch.window_blocks = {std::vector<uint32_t>(batch.blocks[0].size(), model::no_block)};
  batch.window_blocks[0][0] = 16;
  EXPECT_THROW(model::forward(wide.model, *backend, batch), std::logic_error) << "no such block";
  batch.window_blocks[0][0] = 15;
  model::forward(wide.model, *backend, batch);
  backend->result();
  const auto heads = launched("heads", before);
  ASSERT_GE(heads.size(), 2u);
  const auto first = args_of<Heads::Args>(heads[heads.size() - 2]), second = args_of<Heads::Args>(heads.back());
  ASSERT_NE(first.table.address, second.table.address);
  EXPECT_EQ(*reinterpret_cast<const uint32_t*>(first.table.address), 15u);
  EXPECT_EQ(*reinterpret_cast<const uint32_t*>(second.table.address), batch.blocks[0][0]);
  size_t asked = calls();
  backend->copy_block(5, 63);
  EXPECT_EQ(calls_since(asked), Calls(2, "cuMemcpyDtoDAsync_v2"));
  asked = calls();
  backend->copy_window_block(3, 15);
  EXPECT_EQ(calls_since(asked), Calls(2, "cuMemcpyDtoDAsync_v2"));
  EXPECT_THROW(backend->copy_window_block(16, 0), std::logic_error);
}

TEST_F(KvCaches, ABlockIsCopiedInAllLayers) {
  for (const model::Limits& limits : {f16_, q8_}) {
    WideModel wide(false);  // norms: `heads` tells where the cache is
    auto backend = make_gpu(wide.model, limits);
    const size_t before = launches();
    model::forward(wide.model, *backend, batch_of({{1, 0}}));
    backend->result();
    const std::vector<CacheBuffer> buffers = fill_caches(launched("heads", before), limits.kv == KvFormat::q8);
    ASSERT_EQ(buffers.size(), wide.model.layers.size() * (limits.kv == KvFormat::q8 ? 4 : 2));
    const size_t asked = calls();
    backend->copy_block(5, 63);
    backend->copy_block(0, 1);
    backend->copy_block(7, 7);
    const Calls since = calls_since(asked);
    EXPECT_EQ(since, Calls(buffers.size() * 2, "cuMemcpyDtoDAsync_v2"));
    for (size_t i = 0; i < buffers.size(); ++i)
      for (size_t j = 0; j < 64 * buffers[i].block; ++j) {
        const size_t block = j / buffers[i].block, from = block == 63 ? 5 : block == 1 ? 0 : block;
        ASSERT_EQ(buffers[i].at[j], uint8_t(from * 3 + i)) << i << " " << j;
      }
    EXPECT_THROW(backend->copy_block(64, 0), std::logic_error);
    EXPECT_THROW(backend->copy_block(0, 64), std::logic_error);
  }
}

// Buffer after buffer, through pinned memory, and more at once than there are slots of it.
TEST_F(KvCachesAsBytes, AreReadAndWritten) {
  for (const model::Limits& limits : {f16_blocks, q8_blocks}) {
    WideModel wide(false);
    auto backend = make_gpu(wide.model, limits, interpreted());
    const size_t before = launches();
    model::forward(wide.model, *backend, batch_of({{1, 0}}));
    backend->result();
    const std::vector<CacheBuffer> buffers = fill_caches(launched("heads", before), limits.kv == KvFormat::q8);
    ASSERT_EQ(buffers.size(), wide.model.layers.size() * (limits.kv == KvFormat::q8 ? 4 : 2));
    using model::KvPart;
    const size_t bytes = backend->kv_part_bytes(KvPart::block);
    EXPECT_EQ(bytes * 64, model::kv_bytes(wide.model, limits));
    EXPECT_EQ(backend->kv_part_bytes(KvPart::window), 0u);
    EXPECT_EQ(backend->kv_part_bytes(KvPart::state), 0u);
    std::vector<std::vector<uint8_t>> read(11, std::vector<uint8_t>(bytes));
    std::vector<model::KvRead> reads;
    for (uint32_t i = 0; i < read.size(); ++i) reads.push_back({{KvPart::block, 20 + i}, read[i]});
    backend->read_kv(reads);
    for (uint32_t i = 0; i < read.size(); ++i) {
      EXPECT_EQ(std::count(read[i].begin(), read[i].end(), uint8_t((20 + i) * 3)), ptrdiff_t(buffers[0].block));
      backend->write_kv({KvPart::block, 40 + i}, read[i]);
    }
    for (size_t i = 0; i < buffers.size(); ++i)
      for (size_t j = 0; j < 64 * buffers[i].block; ++j) {
        const size_t block = j / buffers[i].block, from = block >= 40 && block < 51 ? block - 20 : block;
        ASSERT_EQ(buffers[i].at[j], uint8_t(from * 3 + i)) << i << " " << j;
      }
    EXPECT_THROW(backend->write_kv({KvPart::block, 64}, read[0]), std::logic_error);
  }
}

}  // namespace
}  // namespace heddle::gpu
