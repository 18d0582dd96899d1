// The memory that is planned against the memory that is taken.
#include "base/memory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cpu/cpu.h"
#include "cpu/pages.h"
#include "tests/cpu/small_features.h"
#include "tests/support/sanitized.h"

namespace heddle::test {
namespace {

// Takes as many steps as fill the cache; what they take of memory is within the plan, and more than half of it.
void expect_plan_holds(const model::Model& model, const model::Limits& limits) {
  if (sanitized) return;  // the memory of sanitizers would count
  const cpu::Options options{.threads = 2};
  const model::Memory planned = cpu::memory_needed(model, limits, options);
  forget_peak_memory();
  const uint64_t before = peak_memory();
  const auto backend = cpu::make_cpu(model, limits, options);
  model::Batch batch;
  batch.blocks.resize(1);
  for (uint32_t i = 0; i < limits.kv_blocks; ++i) batch.blocks[0].push_back(i);
  batch.outputs = {limits.rows - 1};
  for (uint32_t first = 0; first < limits.kv_blocks * limits.block_tokens; first += limits.rows) {
    batch.tokens.assign(limits.rows, 3);
    batch.sequences.assign(limits.rows, 0);
    batch.positions.resize(limits.rows);
    std::iota(batch.positions.begin(), batch.positions.end(), first);
    model::forward(model, *backend, batch);
  }
  // the weights of this model are in memory already: only the packed ones are new, and the embedding is not packed
  const uint64_t taken = peak_memory() - before;
  EXPECT_LT(taken, planned.total());
  EXPECT_GT(taken, planned.total() / 2);
}

TEST(CpuMemory, ThePlanHoldsForAStepAtTheLimit) {
  const Shape small{.format = quant::Format::q8_0, .layers = 4};  // nothing is measured under the sanitizers
  const Shape large{.format = quant::Format::q8_0,
                    .layers = 4,
                    .width = 512,
                    .heads = 8,
                    .head = 64,
                    .inner = 4096,
                    .vocabulary = 4000};
  Builder builder(sanitized ? small : large);
  const model::Model& model = builder.model();
  const model::Limits limits{.rows = 256, .kv_blocks = 64};
  const model::Memory planned = cpu::memory_needed(model, limits, {.threads = 2});

  uint64_t weights = model.embedding.data.size() + model.output.data.size();
  for (const model::Layer& layer : model.layers)
    for (const auto& [m, used, experts] : model::matrices_of(layer)) weights += m->data.size();
  EXPECT_NEAR(double(planned.weights), double(weights), double(weights) / 100);
  EXPECT_EQ(planned.kv, 4u * 64 * 32 * (2 * 64 + 2 * 64) * 2);

  expect_plan_holds(model, limits);
}

// Heads of their own products, and rows of their own for the experts that a row uses.
TEST(CpuMemory, ThePlanHoldsForLatentAttentionAndExperts) {
  Builder builder({.format = quant::Format::q8_0, .layers = 2, .width = 256, .heads = 24, .inner = 512});
  add_latent(builder, 128, 64, 32, 64);
  add_features(builder, {"shared_expert", "sigmoid_routing", "expert_biases"});
  expect_plan_holds(builder.model(), {.rows = 256, .kv_blocks = 64});
  EXPECT_EQ(cpu::memory_needed(builder.model(), {.kv_blocks = 64}).kv, 2u * 64 * 32 * (128 + 32) * 2);
}

// The engine lends its block tables for the step: 40 MB here.
TEST(CpuMemory, BlockTablesAreNotCopied) {
  if (sanitized) GTEST_SKIP() << "the memory of sanitizers would count";
  Builder builder({.layers = 1});
  const model::Limits limits{.rows = 1, .kv_blocks = 1};
  model::Batch batch;
  batch.tokens = batch.positions = batch.sequences = batch.outputs = {0};
  batch.blocks.assign(1, std::vector<uint32_t>(10'000'000));
  for (const bool reference : {false, true}) {
    const auto backend = reference ? cpu::make_reference(builder.model(), limits)
                                   : cpu::make_cpu(builder.model(), limits, {.threads = 1});
    model::forward(builder.model(), *backend, batch);
    forget_peak_memory();
    const uint64_t before = peak_memory();
    model::forward(builder.model(), *backend, batch);
    EXPECT_LT(peak_memory() - before, 10'000'000u) << backend->describe();
  }
}

TEST(CpuMemory, TiedWeightsCountOnce) {
  Builder tied({.format = quant::Format::q8_0, .tied = true}), two({.format = quant::Format::q8_0});
  const model::Limits limits{.kv_blocks = 1};
  EXPECT_LT(cpu::memory_needed(tied.model(), limits).weights, cpu::memory_needed(two.model(), limits).weights);
}

TEST(CpuMemory, PagesAreZerosAndMove) {
  cpu::Pages pages(10'000'000);
  EXPECT_EQ(pages.data()[0] | pages.data()[9'999'999], 0);
  pages.data()[5] = 7;
  cpu::Pages other(std::move(pages));
  EXPECT_EQ(other.data()[5], 7);
  EXPECT_EQ(pages.data(), nullptr);
  EXPECT_EQ(cpu::Pages(0).data(), nullptr);
}

// Large ones begin where a large page can, and the system was asked for those.
TEST(CpuMemory, LargePagesAreAskedForWhole) {
  constexpr uint64_t large = 2 << 20;
  for (const uint64_t bytes : {large, 3 * large - 4097, 5 * large + 1}) {
    std::vector<cpu::Pages> all;  // neighbours, of which one is at the right place by chance
    for (int i = 0; i < 3; ++i) {
      const cpu::Pages& pages = all.emplace_back(bytes, cpu::Pages::Size::large);
      EXPECT_EQ(reinterpret_cast<uint64_t>(pages.data()) % large, 0u) << bytes;
      EXPECT_EQ(pages.bytes(), bytes);
      EXPECT_EQ(pages.bytes_in_large_pages(), 0u);
      for (uint64_t at = 0; at < bytes; at += 4096) {
        ASSERT_EQ(pages.data()[at], 0);
        pages.data()[at] = uint8_t(i + 1);
      }
      EXPECT_LE(pages.bytes_in_large_pages(), bytes);
      pages.data()[bytes - 1] = uint8_t(i + 1);
    }
    for (int i = 0; i < 3; ++i) EXPECT_EQ(all[size_t(i)].data()[bytes - 1], i + 1);
  }
  const cpu::Pages small(large / 2, cpu::Pages::Size::large), usual(2 * large);
  std::memset(usual.data(), 1, usual.bytes());
  std::memset(small.data(), 1, small.bytes());
  EXPECT_EQ(small.bytes_in_large_pages(), 0u);
}

TEST(CpuMemory, ThereIsABandwidth) { EXPECT_GT(cpu::read_bandwidth(2), 1e8); }

}  // namespace
}  // namespace heddle::test
