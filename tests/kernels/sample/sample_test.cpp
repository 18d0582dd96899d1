// sample and step_advance: what they refuse, and the arithmetic of sampling.
#include "kernels/sample/sample.h"

#include <gtest/gtest.h>

#include "kernels/sample/sample_row.h"
#include "ptx/interpret.h"
#include "ptx/verify.h"
#include "tests/kernels/refusal.h"

namespace heddle::kernels {

// The random numbers of sampling against known answers, and what the sampling kernels refuse.

namespace {

struct SampleTestArgs {
  ptx::DevicePtr<uint64_t> y;
  uint64_t seed, step;
};
uint64_t random(uint64_t seed, uint64_t step) {
  ptx::Builder<SampleTestArgs> k("random", 32);
  k.when(k.thread() == 0u, [&] {
    store(k.arg(&SampleTestArgs::y), random_bits(k.arg(&SampleTestArgs::seed), k.arg(&SampleTestArgs::step)));
  });
  ptx::Memory memory;
  const SampleTestArgs args{memory.alloc<uint64_t>(1), seed, step};
  ptx::interpret(k.finish(), {}, args, memory);
  return memory.get(args.y, 1)[0];
}

TEST(SampleRandom, IsPhilox) {
  EXPECT_EQ(random(0, 0), 0xe169c58d6627e8d5u);  // the published answer for a counter and key of zeros
  EXPECT_NE(random(0, 1), random(1, 0));
  EXPECT_NE(random(0, 1), random(0, uint64_t(1) << 32));
  EXPECT_NE(random(1, 0), random(uint64_t(1) << 32, 0));
}

TEST(Sample, RefusesWhatItCannotDo) {
  const Sample::Args good{.out = {8}, .logits = {16}, .params = {16}, .rows = 2, .vocab = 1024};
  const Sample spec{.threads = 32, .splits = 4, .vec = 4};
  EXPECT_EQ(spec.grid(good).x, 4u);
  EXPECT_EQ(spec.grid(good).y, 2u);
  auto with = [&](auto&& change) {
    Sample::Args a = good;
    change(a);
    return a;
  };
  EXPECT_THROW(spec.grid(with([](auto& a) { a.vocab = 0; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.vocab = 1022; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.logits = {8}; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.changed = {8}; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.params = {8}; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.biases = {4}; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.out = {4}; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.rows = 65536; })), Error);
  EXPECT_EQ(spec.grid(with([](auto& a) { a.rows = 0; })).y, 1u);
  EXPECT_THROW((Sample{.threads = 40}.build()), Error);
  EXPECT_THROW((Sample{.splits = 3}.build()), Error);
  EXPECT_NO_THROW(Sample{}.grid(with([](auto& a) { a.vocab = 1 << 18; })));
  EXPECT_THROW(Sample{}.grid(with([](auto& a) { a.vocab = (1 << 18) + 1; })), Error);  // sums would not be exact
}

TEST(TopTokens, RefusesWhatItCannotDo) {
  const TopTokens::Args good{.out = {8}, .logits = {16}, .params = {16}, .rows = 2, .vocab = 1024, .most = 5};
  const TopTokens spec{.threads = 32, .splits = 4};
  EXPECT_EQ(spec.grid(good).x, 4u);
  EXPECT_EQ(spec.grid(good).y, 2u);
  auto with = [&](auto&& change) {
    TopTokens::Args a = good;
    change(a);
    return a;
  };
  EXPECT_THROW(spec.grid(with([](auto& a) { a.vocab = 0; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.vocab = (1 << 18) + 1; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.out = {4}; })), Error);
  EXPECT_THROW(spec.grid(with([](auto& a) { a.rows = 65536; })), Error);
  EXPECT_EQ(spec.grid(with([](auto& a) { a.rows = 0; })).y, 1u);
  EXPECT_THROW((TopTokens{.threads = 40}.build()), Error);
  EXPECT_THROW((TopTokens{.splits = 3}.build()), Error);
}

TEST(Sample, SplitsFillTheGpu) {
  EXPECT_EQ(sample_splits(0, 132), 16u);
  EXPECT_EQ(sample_splits(1, 132), 16u);
  EXPECT_EQ(sample_splits(8, 132), 16u);
  EXPECT_EQ(sample_splits(9, 132), 8u);
  EXPECT_EQ(sample_splits(64, 132), 2u);
  EXPECT_EQ(sample_splits(1000, 132), 1u);
}

}  // namespace

// What step_advance refuses.

namespace {

TEST(StepAdvance, RefusesHistoriesAndAlignments) {
  StepAdvance::Args a{};
  a.rows = 3;
  a.ring = 2;
  EXPECT_EQ(refusal(StepAdvance{}, a), "");
  EXPECT_EQ(StepAdvance{}.grid(a).x, 1u);
  a.history = {4};
  EXPECT_EQ(refusal(StepAdvance{}, a), "step_advance: picked, history, params and step must be 8-byte aligned");
  a.history = {};
  a.ring = 0;
  EXPECT_EQ(refusal(StepAdvance{}, a), "step_advance: a history of 0 steps");
}

}  // namespace

}  // namespace heddle::kernels
