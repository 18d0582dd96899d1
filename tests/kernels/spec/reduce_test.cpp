// Reductions and scans over a block.
#include "kernels/spec/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ptx/builder.h"
#include "ptx/interpret.h"
#include "ptx/verify.h"

namespace heddle::kernels {
namespace {

struct ReduceArgs {
  ptx::DevicePtr<uint64_t> before, total, largest, x;
};

class Reduce : public testing::TestWithParam<uint32_t> {};
TEST_P(Reduce, ScansAndMaximaOf64Bits) {
  const uint32_t threads = GetParam();
  ptx::Builder<ReduceArgs> k("reduce", threads);
  ptx::U64 v = load(k.arg(&ReduceArgs::x) + k.thread());
  Scan scan = block_scan(k, v);
  store(k.arg(&ReduceArgs::before) + k.thread(), scan.before);
  store(k.arg(&ReduceArgs::total) + k.thread(), scan.total);
  store(k.arg(&ReduceArgs::largest) + k.thread(), block_max(k, v));
  const ptx::Kernel kernel = k.finish();
  ptx::verify(kernel);

  std::mt19937_64 rng(threads);
  std::vector<uint64_t> x(threads), before;
  for (auto& one : x) one = rng() >> 11;
  uint64_t sum = 0;
  for (uint64_t one : x) {
    before.push_back(sum);
    sum += one;
  }
  ptx::Memory memory;
  const ReduceArgs args{memory.alloc<uint64_t>(threads), memory.alloc<uint64_t>(threads),
                        memory.alloc<uint64_t>(threads), memory.put(x)};
  ptx::interpret(kernel, {}, args, memory, {.seed = 3});
  EXPECT_EQ(memory.get(args.before, threads), before);
  EXPECT_EQ(memory.get(args.total, threads), std::vector<uint64_t>(threads, sum));
  EXPECT_EQ(memory.get(args.largest, threads), std::vector<uint64_t>(threads, *std::max_element(x.begin(), x.end())));
}
INSTANTIATE_TEST_SUITE_P(Threads, Reduce, testing::Values(32, 64, 96, 1024));

struct OrderArgs {
  ptx::DevicePtr<uint32_t> y;
  ptx::DevicePtr<float> x;
};
TEST(Reduce, OrderedBitsKeepTheOrder) {
  const std::vector<float> x{-INFINITY, -3e38f, -2.5f, -1, -1e-40f, -0.0f, 0.0f, 1e-45f, 0.5f, 1, 7, INFINITY};
  ptx::Builder<OrderArgs> k("order", 32);
  k.when(k.thread() < uint32_t(x.size()),
         [&] { store(k.arg(&OrderArgs::y) + k.thread(), ordered_bits(load(k.arg(&OrderArgs::x) + k.thread()))); });
  ptx::Memory memory;
  const OrderArgs args{memory.alloc<uint32_t>(x.size()), memory.put(x)};
  ptx::interpret(k.finish(), {}, args, memory);
  const auto bits = memory.get(args.y, x.size());
  EXPECT_EQ(bits[0], 0x007fffffu);
  for (size_t i = 1; i < bits.size(); ++i) EXPECT_LT(bits[i - 1], bits[i]) << x[i];
}

}  // namespace
}  // namespace heddle::kernels
