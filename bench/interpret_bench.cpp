// How fast the interpreter is, in lane-instructions per second on one core.
#include <benchmark/benchmark.h>

#include <random>

#include "ptx/builder.h"
#include "ptx/interpret.h"

namespace {
using namespace heddle;
using namespace heddle::ptx;

struct Args {
  DevicePtr<float> x, y;
  uint32_t n;
};

void count(benchmark::State& state, uint64_t lanes) {
  state.counters["lane_instructions"] = benchmark::Counter(double(lanes), benchmark::Counter::kIsRate);
}

// Arithmetic, loads and a loop: y[i] = a chain of fma over x.
void Fma(benchmark::State& state) {
  Builder<Args> k("fma", 256);
  auto x = k.arg(&Args::x), y = k.arg(&Args::y);
  U32 i = k.block_id() * 256u + k.thread();
  auto sum = k.var(0.0f);
  k.loop(0u, k.arg(&Args::n), 1u, [&](U32 j) { sum.add_product(load(x + j), to_f32(j + i) * 0.5f); });
  store(y + i, sum.get());
  Kernel kernel = k.finish();
  Memory m;
  auto px = m.put(std::vector<float>(256, 1.5f)), py = m.alloc<float>(4096);
  uint64_t lanes = 0;
  for (auto _ : state) lanes += interpret(kernel, {16}, Args{px, py, 256}, m).lane_instructions;
  count(state, lanes);
}
BENCHMARK(Fma)->Unit(benchmark::kMillisecond);

// Shared memory with race detection, barriers and shuffles: block sums.
void BlockSum(benchmark::State& state) {
  Builder<Args> k("block_sum", 256);
  auto x = k.arg(&Args::x), y = k.arg(&Args::y);
  auto tile = k.shared<float>(256);
  k.loop(0u, k.arg(&Args::n), 1u, [&](U32 j) {
    store(tile + k.thread(), load(x + (k.thread() ^ (j & 255u))));
    k.barrier();
    F32 s = warp_sum(load(tile + (k.thread() ^ 37u)));
    k.barrier();
    k.when(k.lane() == 0u, [&] { store(y + (k.block_id() * 8u + k.warp()), s); });
  });
  Kernel kernel = k.finish();
  Memory m;
  auto px = m.put(std::vector<float>(256, 1.5f)), py = m.alloc<float>(4096);
  uint64_t lanes = 0;
  for (auto _ : state)
    lanes += interpret(kernel, {16}, Args{px, py, 64}, m, {.races = state.range(0) != 0}).lane_instructions;
  count(state, lanes);
}
BENCHMARK(BlockSum)->Arg(1)->Arg(0)->ArgName("races")->Unit(benchmark::kMillisecond);

}  // namespace
