// The kernels of the usual batches are loaded before the first of them comes.
#include <numeric>

#include "gpu/gpu.h"
#include "model/forward.h"
#include "tests/gpu/fake_gpu.h"
#include "tests/gpu/small_model.h"

namespace heddle::gpu {
namespace {

// A stream must not wait for the assembler.
TEST_F(FakeGpu, UsualBatchesFindTheirKernelsLoaded) {
  WideModel wide;
  wide.model.context = 64 * 32;
  for (model::Layer& layer : wide.model.layers) {  // wgmma_product has many shapes for these
    auto& f = layer.get<model::FeedForward>();
    f.gate = f.up = wide.matrix(6000, 64);
    f.down = wide.matrix(64, 6000);
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
    if (batch.tokens.size() % 2) batch.picking[0] = model::Picking{.logprob = true, .top = 5};
    model::forward(wide.model, *backend, batch);
    EXPECT_EQ(backend->result().picked.size(), batch.outputs.size());
    expect_nothing_loaded(name);
    for (auto& picking : batch.picking) picking->constrained = true;
    model::forward(wide.model, *backend, batch);
    backend->allow(std::vector<std::span<const uint32_t>>(batch.outputs.size()));
    EXPECT_EQ(backend->result().picked.size(), batch.outputs.size());
    expect_nothing_loaded(name + ", constrained");
    for (auto& picking : batch.picking) picking->constrained = false;
    batch.picking.back().reset();  // its logits come to the host
    model::forward(wide.model, *backend, batch);
    EXPECT_EQ(backend->result().logits.size(), wide.model.vocabulary);
    expect_nothing_loaded(name + ", one for the host");
  };
  for (uint32_t after : {30u, 200u, 300u, 600u, 1000u, 1500u}) {
    for (uint32_t streams = 1; streams <= 256; streams += streams < 64 ? 1 : 16)
      run(std::vector<std::pair<uint32_t, uint32_t>>(streams, {1, after}), fmt::format("{} streams", streams));
    for (uint32_t streams : {0u, 1u, 2u, 4u, 8u, 12u, 20u, 33u, 60u})
      for (uint32_t rows : {2u, 30u, 64u, 65u, 71u, 90u, 100u, 130u, 175u, 200u, 257u, 310u, 400u, 452u}) {
        std::vector<std::pair<uint32_t, uint32_t>> shape(streams, {1, after});
        shape.emplace_back(rows, after);
        run(shape, fmt::format("{} streams and a prompt of {} after {}", streams, rows, after));
      }
  }
}

TEST_F(FakeGpu, ExpertsOfAnyBatchFindTheirKernelsLoaded) {
  SmallModel small;
  small.mix(6, 2);
  auto backend = make_gpu(small.model, {.rows = 200, .kv_blocks = 400, .block_tokens = 32});
  for (uint32_t rows : {1u, 2u, 8u, 9u, 12u, 23u, 40u, 64u}) {
    const size_t before = calls();
    model::forward(small.model, *backend, batch_of(std::vector<std::pair<uint32_t, uint32_t>>(rows, {1, 30})));
    backend->result();
    const Calls since = calls_since(before);
    EXPECT_EQ(std::count_if(since.begin(), since.end(), is_compiling), 0) << rows;
  }
}

TEST_F(FakeGpu, LatentsOfAnyBatchFindTheirKernelsLoaded) {
  control().sms = 8;
  SmallModel small;
  small.make_latent();
  small.model.context = 640;
  auto backend = make_gpu(small.model, {.rows = 400, .kv_blocks = 400, .block_tokens = 32});
  using Shape = std::vector<std::pair<uint32_t, uint32_t>>;
  for (const Shape& shape : {Shape{{1, 30}}, Shape(5, {1, 30}), Shape(70, {1, 30}), Shape{{30, 9}}, Shape{{255, 0}},
                             Shape{{256, 0}}, Shape{{400, 0}}, Shape{{1, 3}, {300, 40}}, Shape{{50, 3}, {300, 40}},
                             Shape{{1, 3}, {260, 0}, {20, 7}, {40, 0}}}) {
    model::Batch batch = batch_of(shape);
    for (auto& blocks : batch.blocks) {
      blocks.resize(20);
      std::iota(blocks.begin(), blocks.end(), 0u);
    }
    const size_t before = calls();
    model::forward(small.model, *backend, batch);
    backend->result();
    const Calls since = calls_since(before);
    EXPECT_EQ(std::count_if(since.begin(), since.end(), is_compiling), 0)
        << shape[0].first << " rows of " << shape.size();
  }
  EXPECT_EQ(launched("latent_expand", 0).size(), 5u);
}

}  // namespace
}  // namespace heddle::gpu
