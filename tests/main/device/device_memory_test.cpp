// How memory is divided between the blocks of layers with a window and all others.
#include "main/device/device_memory.h"

#include <gtest/gtest.h>

#include "tests/cpu/small_model.h"

namespace heddle::test {
namespace {

// Layers with a window of 128 positions, and as many without.
model::Model half_windows(uint32_t context, uint32_t window = 128) {
  Builder builder({});
  builder.model().context = context;
  builder.model().layers[0].get<model::Attention>().window = window;
  return std::move(builder.model());
}

TEST(WindowBlocksFor, AreThoseOfTextsAndOfABatch) {
  const model::Model model = half_windows(131072);
  const model::Limits limits{.rows = 2048, .kv_blocks = 4096};
  EXPECT_EQ(window_blocks_for(model, {}, limits), 4096u / 8);
  EXPECT_EQ(window_blocks_for(model, {.many = true}, limits), 4096u / 8);
  EXPECT_EQ(window_blocks_for(half_windows(131072, 1024), {}, limits), 4096u / 8);
  EXPECT_EQ(window_blocks_for(half_windows(131072, 1024), {.many = true}, limits), 32u * 34 + 64 + 1);
  EXPECT_EQ(window_blocks_for(half_windows(131072, 8192), {.many = true}, limits), 4u * 258 + 64 + 1);
  EXPECT_EQ(window_blocks_for(half_windows(131072, 65536), {}, limits), 0u) << "no fewer than KV blocks";
  EXPECT_EQ(window_blocks_for(half_windows(512), {}, {.rows = 512, .kv_blocks = 16}), 0u);
  model::Model encoder = half_windows(8192);
  for (model::Layer& layer : encoder.layers) layer.get<model::Attention>().causal = false;
  EXPECT_EQ(window_blocks_for(encoder, {}, limits), 0u);
  EXPECT_EQ(window_blocks_for(std::move(Builder({}).model()), {}, limits), 0u);
}

TEST(WindowBlocksFor, LongerTextsFit) {
  const DeviceOptions options{.device = "cpu", .threads = 1};
  const model::Model plain = [] {
    model::Model all = half_windows(131072);
    all.layers[0].get<model::Attention>().window = 0;
    return all;
  }();
  const model::Model windows = half_windows(131072);
  const uint64_t available = memory_for(plain, options, limits_for(plain, options, 65536, 512)).total();
  const uint32_t before = largest_context(plain, options, 1 << 20, 512, available);
  const uint32_t after = largest_context(windows, options, 1 << 20, 512, available);
  EXPECT_EQ(before, 65536u);
  EXPECT_NEAR(after, 65536 * 2 / 1.125, 64);
  EXPECT_LE(memory_for(windows, options, limits_for(windows, options, after, 512)).total(), available);
}

// Short texts fill a cache of tokens that was asked for, if there is memory for that; otherwise long ones do.
TEST(WindowBlocksFor, TakeWhatIsLeftOfACacheThatWasAskedFor) {
  const model::Model model = half_windows(8192);
  DeviceOptions options{.device = "cpu", .threads = 1, .cache_tokens = 1 << 20};
  const Fit all = fit(model, options, 512, uint64_t(1) << 40);
  EXPECT_EQ(all.limits.kv_blocks, (1u << 20) / 32);
  EXPECT_EQ(all.limits.window_blocks, 0u) << "as many as KV blocks: one table";
  const uint64_t needed = memory_for(model, options, all.limits).total();
  const Fit some = fit(model, options, 512, needed - 1);
  EXPECT_EQ(some.limits.kv_blocks, all.limits.kv_blocks);
  EXPECT_LT(some.limits.window_blocks, all.limits.kv_blocks);
  EXPECT_GT(some.limits.window_blocks, all.limits.kv_blocks - 64);
  EXPECT_LT(memory_for(model, options, some.limits).total(), needed);
  options.cache_tokens = 0;
  options.many = true;
  const Fit many = fit(model, options, 512, needed);
  EXPECT_EQ(many.limits.window_blocks, window_blocks_for(model, options, many.limits));
}

TEST(WindowBlocksFor, ADraftHasNone) {
  model::Limits limits{.kv_blocks = 100};
  limits.window_blocks = 7;
  EXPECT_EQ(draft_limits(limits).window_blocks, 0u);
  EXPECT_EQ(draft_limits(limits).kv_blocks, 100u);
}

}  // namespace
}  // namespace heddle::test
