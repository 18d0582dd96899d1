// What the backend will take of memory, counted before it is constructed, and how fast memory is read.
#include "base/memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>

#include "base/clock.h"
#include "base/parallel.h"
#include "cpu/cpu.h"
#include "cpu/kv_cache.h"
#include "cpu/pack.h"
#include "cpu/pages.h"
#include "cpu/team.h"

namespace heddle::cpu {
namespace {

class WeightBytes {
 public:
  WeightBytes(const Isa& isa, bool exact) : isa_(isa), exact_(exact) {}

  void add(const model::Matrix& matrix) {
    if (!matrix || !seen_.insert(matrix.data.data()).second) return;  // tied ones count once
    const Weights weights = describe_weights(matrix, isa_, exact_);
    total += weights.kind == XKind::f32 ? matrix.data.size() : weights.tiles() * weights.tile_bytes;
  }

  uint64_t total = 0;

 private:
  const Isa& isa_;
  bool exact_;
  std::set<const uint8_t*> seen_;
};

// Values of one row that wait in scratch for a sublayer's add().
uint64_t scratch_values(const model::Attention& a) { return uint64_t(a.heads + a.kv_heads) * (a.head + a.value_head); }
uint64_t scratch_values(const model::FeedForward& f) { return f.down.cols + f.down.rows; }
uint64_t scratch_values(const model::Mixture& m) {
  return m.routing.used * (m.down.all.cols + m.down.all.rows / m.down.count) + (m.shared ? m.shared->down.cols : 0);
}

// Of one row of a batch: at most 7 bytes for a value, with both of its quantised forms.
uint64_t row_bytes(const model::Model& model) {
  uint64_t max = 0;
  for (const model::Layer& layer : model.layers) {
    uint64_t values = 3 * model.width;
    for (const model::Sublayer& sublayer : layer.sublayers)
      values += std::visit([](const auto& kind) { return scratch_values(kind); }, sublayer);
    max = std::max(max, values);
  }
  return max * 7;
}

}  // namespace

model::Memory memory_needed(const model::Model& model, const model::Limits& limits, const Options& options) {
  expect_kv_format(model, limits);
  WeightBytes weights(choose_isa(options.isa), options.exact);
  for (const model::Layer& layer : model.layers)
    for (const model::SublayerMatrix& all : model::matrices_of(layer)) {
      const uint64_t rows = all.matrix->rows / all.experts;
      for (uint64_t i = 0; i < all.experts; ++i) weights.add(all.matrix->slice(i * rows, rows));
    }
  weights.add(model.output);
  weights.add(model.embedding);
  weights.add(model.positions);
  const uint64_t threads = options.threads ? options.threads : hardware_threads();
  constexpr uint64_t thread_bytes = 2 << 20;  // slabs and pieces of results
  return {weights.total, model::kv_bytes(model, limits),
          limits.rows * row_bytes(model) + threads * thread_bytes + uint64_t(model.vocabulary) * sizeof(float)};
}

double read_bandwidth(uint32_t threads, uint64_t bytes_per_token) {
  const Isa& isa = choose_isa("auto");
  const uint64_t limit = std::clamp<uint64_t>(available_memory() / 4, 64 << 20, 2ull << 30);
  Team team(threads);
  const uint64_t chunks = 16ull * team.threads();
  const uint64_t chunk = std::max<uint64_t>(std::min(bytes_per_token, limit) / chunks / 4096, 1) * 4096;
  const uint64_t bytes = chunks * chunk;
  const Pages pages(bytes, Pages::Size::large);
  team.run(chunks, [&](uint64_t i, uint32_t) { std::memset(pages.data() + i * chunk, 1, chunk); });
  constexpr uint64_t min_timed_bytes = 256 << 20;  // 5 ms at 50 GB/s
  const uint64_t passes = (min_timed_bytes + bytes - 1) / bytes;
  std::atomic<uint64_t> sink{0};
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    const auto start = Clock::now();
    for (uint64_t pass = 0; pass < passes; ++pass)
      team.run(chunks, [&](uint64_t i, uint32_t) { sink ^= isa.read_all(pages.data() + i * chunk, chunk); });
    best = std::max(best, double(bytes * passes) / seconds_since(start));
  }
  return best;
}

}  // namespace heddle::cpu
