// What the backend will take, counted before it is made.
#include <algorithm>
#include <set>

#include "base/parallel.h"
#include "cpu/attention.h"
#include "cpu/cpu.h"
#include "cpu/pack.h"

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
  void add(const model::Experts& experts) {
    for (uint64_t i = 0; i < experts.count; ++i) add(experts.expert(i));
  }

  uint64_t total = 0;

 private:
  const Isa& isa_;
  bool exact_;
  std::set<const uint8_t*> seen_;
};

// Of one row of a batch: at most 7 bytes for a value, with both of its quantised forms.
uint64_t row_bytes(const model::Model& model) {
  uint64_t most = 0;
  for (const model::Layer& layer : model.layers) {
    const model::Attention& a = layer.attention;
    const model::FeedForward& f = layer.ffn;
    const uint64_t used = std::max(1u, f.used);
    const uint64_t attention =
        uint64_t(a.heads) * (a.head + a.value_head) + uint64_t(a.kv_heads) * (a.head + a.value_head);
    const uint64_t inner = f.router ? used * f.down_experts.all.cols + f.down.cols : f.down.cols;
    most = std::max(most, attention + inner + model.width * (3 + used));
  }
  return most * 7;
}

}  // namespace

model::Memory memory_needed(const model::Model& model, const model::Limits& limits, const Options& options) {
  expect_kv_format(model, limits);
  WeightBytes weights(choose_isa(options.isa), options.exact);
  for (const model::Layer& layer : model.layers) {
    const model::Attention& a = layer.attention;
    const model::FeedForward& f = layer.ffn;
    for (const model::Matrix* matrix : {&a.q, &a.k, &a.v, &a.output, &f.gate, &f.up, &f.down, &f.router})
      weights.add(*matrix);
    for (const model::Experts* experts : {&f.gate_experts, &f.up_experts, &f.down_experts}) weights.add(*experts);
  }
  weights.add(model.output);
  weights.add(model.embedding);
  weights.add(model.positions);
  const uint64_t threads = options.threads ? options.threads : hardware_threads();
  constexpr uint64_t thread_bytes = 2 << 20;  // slabs and pieces of results
  return {weights.total, model::kv_bytes(model, limits),
          limits.rows * row_bytes(model) + threads * thread_bytes + uint64_t(model.vocabulary) * sizeof(float)};
}

}  // namespace heddle::cpu
