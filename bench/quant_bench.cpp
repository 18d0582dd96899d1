// How fast weights are encoded and decoded, in values per second on one core.
#include <benchmark/benchmark.h>

#include <random>

#include "quant/format.h"

namespace {
using namespace heddle::quant;

constexpr size_t values = 1 << 16;  // 256 KiB of f32, the second cache

std::vector<float> weights() {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> w(values);
  for (auto& v : w) v = normal(rng);
  return w;
}

void Encode(benchmark::State& state, Format format) {
  const std::vector<float> from = weights();
  std::vector<uint8_t> blocks(row_bytes(format, values));
  for (auto _ : state) {
    encode(format, from.data(), values, blocks.data());
    benchmark::DoNotOptimize(blocks.data());
  }
  state.SetItemsProcessed(state.iterations() * int64_t(values));
}

void Decode(benchmark::State& state, Format format) {
  std::vector<float> to = weights();
  std::vector<uint8_t> blocks(row_bytes(format, values), 0x35);
  if (can_encode(format)) encode(format, to.data(), values, blocks.data());
  for (auto _ : state) {
    decode(format, blocks.data(), values, to.data());
    benchmark::DoNotOptimize(to.data());
  }
  state.SetItemsProcessed(state.iterations() * int64_t(values));
}

const bool registered = [] {
  for (Format f : all_formats()) {
    const std::string text(name(f));
    benchmark::RegisterBenchmark(("Decode/" + text).c_str(), Decode, f);
    if (can_encode(f)) benchmark::RegisterBenchmark(("Encode/" + text).c_str(), Encode, f);
  }
  return true;
}();

}  // namespace
