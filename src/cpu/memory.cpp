// What the backend will take of memory, counted before it is constructed, and how fast memory is read.
#include "base/memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <set>

#include "base/clock.h"
#include "base/parallel.h"
#include "cpu/attention.h"
#include "cpu/cpu.h"
#include "cpu/pack.h"
#include "cpu/pages.h"
#include "cpu/team.h"

namespace heddle::cpu {
namespace {

class WeightBytes {
 public:
  WeightBytes(const model::Model& model, const Options& options)
      : model_(model),
        is_part_(RowSizes(model).partial),
        isa_(choose_isa(options.isa)),
        exact_(options.exact),
        repack_(options.repack) {}

  void add(const model::Matrix& matrix) {
    if (!matrix || !seen_.insert({matrix.data.data(), matrix.rows}).second) return;  // tied ones count once
    if (!repack_) {
      (is_copy(matrix) ? total : in_file) += matrix.data.size();
      return;
    }
    const Weights weights = describe_weights(matrix, isa_, exact_);
    total += weights.kind == XKind::f32 ? matrix.data.size() : weights.tiles() * weights.tile_bytes;
    if (weights.kind != XKind::f32 && is_part_ && is_copy(matrix)) total += matrix.data.size();
  }

  uint64_t total = 0, in_file = 0;

 private:
  // Whether it is a copy that was made for one rank, or from a tensor that the file has in another form: those stay in
  // memory beside what is packed of them.
  bool is_copy(const model::Matrix& matrix) const {
    const uint8_t* at = matrix.data.data();
    return std::any_of(model_.storage.begin(), model_.storage.end(), [&](const std::vector<uint8_t>& one) {
      return std::less_equal<>()(one.data(), at) && std::less<>()(at, one.data() + one.size());
    });
  }

  const model::Model& model_;
  const bool is_part_;
  const Isa& isa_;
  bool exact_, repack_;
  std::set<std::pair<const uint8_t*, uint64_t>> seen_;  // and the number of rows
};

// Of one row of a batch: 4 bytes for a value, and at most 8 with its other forms, of which a model has one or two.
uint64_t row_bytes(const model::Model& model) {
  const RowSizes s(model);
  const uint64_t out = std::max<uint64_t>(model.width, s.latent);
  const uint64_t plain = (1 + (s.shared ? 1 : 0) + (s.latent ? 1 : 0) + (s.others ? 1 : 0)) * model.width +
                         s.used * out + s.q + s.k + s.v + s.experts + s.gate + s.mixed + 2 * s.steps + s.cut +
                         s.token_inputs + ((s.joined ? 2 : 0) + (s.partial ? 1 : 0)) * model.width;
  const uint64_t quantised = (2 + s.others) * model.width + s.low + s.attended + s.heads * s.by_head +
                             s.used * s.inner + s.shared + s.latent + s.recurred + s.laurel + s.joined;
  return plain * 4 + quantised * 8;
}

}  // namespace

model::Memory memory_needed(const model::Model& model, const model::Limits& limits, const Options& options) {
  WeightBytes weights(model, options);
  for (const model::Layer& layer : model.layers)
    for (const model::SublayerMatrix& all : model::matrices_of(layer)) {
      const uint64_t rows = all.matrix->rows / all.experts;
      for (uint64_t i = 0; i < all.experts; ++i) weights.add(all.matrix->slice(i * rows, rows));
    }
  weights.add(model.output);
  weights.add(model.embedding);
  if (model.token_inputs) weights.add(model.token_inputs->projection);
  if (model.token_inputs) weights.add(model.token_inputs->embedding);
  weights.add(model.positions);
  const uint64_t threads = options.threads ? options.threads : hardware_threads();
  constexpr uint64_t thread_bytes = 2 << 20;  // slabs and pieces of results
  uint64_t attention = 0;
  model::each_attention(model, [&](const model::Attention& a) {
    attention = std::max(attention, Attend::scratch_bytes(a, limits, uint32_t(threads)));
  });
  return {.weights = weights.total,
          .kv = model::kv_bytes(model, limits),
          .states = model::state_bytes(model, limits),
          .workspace = limits.rows * row_bytes(model) + threads * thread_bytes + attention +
                       uint64_t(model.vocabulary) * sizeof(float),
          .in_file = weights.in_file};
}

double read_bandwidth(uint32_t threads, uint64_t bytes_per_token) {
  const Isa& isa = choose_isa("auto");
  const uint64_t limit = std::clamp<uint64_t>(available_memory() / 4, 64 << 20, 2ull << 30);
  Team team(threads);
  const uint64_t chunks = 16ull * team.threads();
  const uint64_t chunk = std::max<uint64_t>(std::min(bytes_per_token, limit) / chunks / 4096, 1) * 4096;
  const uint64_t bytes = chunks * chunk;
  const Pages pages(bytes, Pages::Size::large);
  const RunsOn node(team.processors_of_caller());
  team.run(
      chunks, [&](uint64_t i, uint32_t) { std::memset(pages.data() + i * chunk, 1, chunk); }, Team::Help::own_node);
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
