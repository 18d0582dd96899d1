// How long a pick takes on one row of logits: 128256 as in Llama 3, 262144 as in Gemma 3.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "engine/sampling/sampler.h"

namespace {
using heddle::engine::Sampler;
using heddle::engine::Sampling;

// Normal logits, and 20 that stand out as in a trained model; without them the distribution is flat, the worst case.
std::vector<float> some_logits(size_t size, float spread, bool peaked) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(size);
  for (float& x : logits) x = normal(generator);
  for (size_t i = 0; peaked && i < 20; ++i) logits[generator() % size] = 8 * spread - float(i) / 2;
  return logits;
}

void pick(benchmark::State& state, const Sampling& sampling, bool peaked) {
  const auto logits = some_logits(size_t(state.range(0)), 2, peaked);
  Sampler sampler(sampling, uint32_t(logits.size()));
  for (uint32_t i = 0; i < 1000; ++i) sampler.accept(i * 7 % 500);
  for (auto _ : state) benchmark::DoNotOptimize(sampler.pick(logits));
}

const Sampling greedy{.temperature = 0}, plain{.temperature = 0.8f},
    usual{.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f}, top_p{.temperature = 0.8f, .top_p = 0.95f},
    min_p{.min_p = 0.05f}, typical{.typical_p = 0.9f}, sigma{.top_n_sigma = 1}, mirostat{.mirostat = 2},
    penalties{.temperature = 0, .repetition_penalty = 1.1f, .frequency_penalty = 0.1f},
    dry{.temperature = 0, .dry_multiplier = 0.8f}, logprobs{.temperature = 0, .logprobs = 20};

#define SAMPLING_BENCHMARK(name)                                                                        \
  BENCHMARK_CAPTURE(pick, name, name, true)->Arg(128'256)->Arg(262'144)->Unit(benchmark::kMicrosecond); \
  BENCHMARK_CAPTURE(pick, name##_flat, name, false)->Arg(128'256)->Unit(benchmark::kMicrosecond)

SAMPLING_BENCHMARK(greedy);
SAMPLING_BENCHMARK(plain);
SAMPLING_BENCHMARK(usual);
SAMPLING_BENCHMARK(top_p);
SAMPLING_BENCHMARK(min_p);
SAMPLING_BENCHMARK(typical);
SAMPLING_BENCHMARK(sigma);
SAMPLING_BENCHMARK(mirostat);
SAMPLING_BENCHMARK(penalties);
SAMPLING_BENCHMARK(dry);
SAMPLING_BENCHMARK(logprobs);

void accept(benchmark::State& state) {
  Sampler sampler(
      {.repetition_penalty = 1.1f, .frequency_penalty = 0.1f, .dry_multiplier = 1, .dry_penalty_last_n = 4096},
      100'000);
  uint32_t token = 0;
  for (auto _ : state) sampler.accept(token++ % 1000);
}
BENCHMARK(accept);

}  // namespace
