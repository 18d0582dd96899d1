// Attention over the KV cache on one core, in bytes of the cache per second: name is instruction set, format of the
// cache, size of a head, heads that share a kv head, rows of the batch, positions before them.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <random>

#include "cpu/attention.h"
#include "cpu/cpu.h"

namespace {
using namespace heddle;
using namespace heddle::cpu;

struct Shape {
  model::KvFormat format;
  uint32_t head, group, rows, before;
};

void attention(benchmark::State& state, const Isa& isa, const Shape& shape) {
  constexpr uint32_t kv_heads = 4;
  model::Attention a;
  a.heads = kv_heads * shape.group;
  a.kv_heads = kv_heads;
  a.head = a.value_head = shape.head;
  a.scale = 0.125f;
  const uint32_t tokens = shape.before + shape.rows;
  model::Limits limits{.rows = shape.rows, .kv = shape.format};
  limits.kv_blocks = tokens / limits.block_tokens + 1;
  // One row reads its cache from memory: those of other layers come between.
  constexpr uint64_t more_than_caches = 64 << 20;
  const uint64_t layers = shape.rows > 1 ? 1 : more_than_caches / (tokens * model::kv_bytes(a, shape.format)) + 1;
  std::vector<KvCache> caches;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(kv_heads * shape.head + 1009);
  for (float& value : numbers) value = normal(random);
  for (uint64_t layer = 0; layer < layers; ++layer) {
    KvCache& cache = caches.emplace_back(a, limits, limits.kv_blocks);
    for (uint32_t t = 0; t < tokens; ++t)
      for (uint32_t h = 0; h < kv_heads; ++h)
        cache.put(isa, h, t / limits.block_tokens, t % limits.block_tokens, numbers.data() + t * 31 % 1009,
                  numbers.data() + t * 37 % 1009);
  }
  Rows q(shape.rows, a.heads * a.head, {}), out(shape.rows, a.heads * a.head, {});
  model::Batch batch;
  batch.blocks.emplace_back();
  for (uint32_t i = 0; i < limits.kv_blocks; ++i) batch.blocks[0].push_back(i);
  for (uint32_t i = 0; i < shape.rows; ++i) {
    batch.tokens.push_back(0);
    batch.positions.push_back(shape.before + i);
    batch.sequences.push_back(0);
    for (uint32_t c = 0; c < q.cols(); ++c) q.row(i)[c] = normal(random);
  }

  Team team(1);
  Attend attend(isa, team, limits);
  uint64_t layer = 0;
  for (auto _ : state) {
    attend.run(batch, batch.blocks, a, caches[layer++ % layers], q, {out.row(0), out.cols(), a.value_head});
    benchmark::DoNotOptimize(out.row(0));
  }
  const uint64_t seen = shape.before + (shape.rows + 1) / 2;  // by a row, on average
  state.SetBytesProcessed(state.iterations() * int64_t(tokens * model::kv_bytes(a, shape.format)));
  state.counters["products"] = benchmark::Counter(double(2 * seen * shape.rows) * double(a.heads * a.head),
                                                  benchmark::Counter::kIsIterationInvariantRate);
}

const bool registered = [] {
  using enum model::KvFormat;
  for (const std::string& name : isa_names())
    for (const Shape& shape :
         {Shape{f16, 64, 4, 1, 4096}, Shape{f16, 128, 4, 1, 4096}, Shape{f16, 128, 1, 1, 4096},
          Shape{f16, 128, 7, 1, 4096}, Shape{q8, 64, 4, 1, 4096}, Shape{q8, 128, 4, 1, 4096}, Shape{f16, 64, 4, 512, 0},
          Shape{f16, 64, 4, 512, 3584}, Shape{f16, 128, 4, 512, 1536}, Shape{q8, 128, 4, 512, 1536}}) {
      const Isa& isa = choose_isa(name);
      benchmark::RegisterBenchmark(fmt::format("{}/{}/{}/{}/{}/{}", name, shape.format == q8 ? "q8" : "f16", shape.head,
                                               shape.group, shape.rows, shape.before)
                                       .c_str(),
                                   [&isa, shape](benchmark::State& state) { attention(state, isa, shape); });
    }
  return true;
}();

}  // namespace
