// One warp routes a row; one thread mixes a few columns of one.
#include "kernels/mixture/mixture.h"

#include "kernels/mixture/pick_experts.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

constexpr uint32_t warps = 4;

}  // namespace

Kernel Route::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), warps * 32);
  chain_start(k, chained);
  const U32 row = k.block_id() * warps + k.warp(), experts = k.arg(&Args::experts), used = k.arg(&Args::used);
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows), [&] {
    const auto logits = k.arg(&Args::logits) + mul_wide(row, k.arg(&Args::logits_stride));
    ExpertLogits of{.experts = experts, .used = used};
    for (uint32_t i = 0; i < largest / 32; ++i) {
      const U32 expert = k.lane() + i * 32u;
      auto logit = k.var(0.0f);
      k.when(expert < experts, [&] { logit = load(logits + expert); });
      of.logits.push_back(logit.get());
    }
    set_choice(k, *this, of);
    const PickedExperts picked = pick_experts(k, choice_of(*this), of);
    k.when(k.lane() < used, [&] {
      const U64 at = mad_wide(row, used, widen(k.lane()));
      store(k.arg(&Args::ids) + at, picked.id);
      store(k.arg(&Args::weights) + at, picked.weight);
    });
  });
  return k.finish();
}

Grid Route::grid(const Args& args) const {
  if (args.experts == 0 || args.experts > largest)
    throw Error("{}: {} experts, 1 to {} expected", name, args.experts, largest);
  if (args.used == 0 || args.used > args.experts || args.used > 32)
    throw Error("{}: {} of {} experts are used; 1 to 32, not above that, expected", name, args.used, args.experts);
  check_choice(*this, args);
  if (args.rows > 1 && args.logits_stride < args.experts)
    throw Error("{}: logits have a stride of {}, but {} experts", name, args.logits_stride, args.experts);
  return {.x = args.rows ? args.rows / warps + (args.rows % warps != 0) : 1};
}

// A thread takes `vec` columns of one row.
Kernel Mix::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  const U32 row = k.block_id(), col = (k.block_y() * threads + k.thread()) * vec;
  const U32 cols = k.arg(&Args::cols), used = k.arg(&Args::used);
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows) && col < cols, [&] {
    std::vector<Var<float>> sum;
    for (uint32_t i = 0; i < vec; ++i) sum.push_back(k.var(0.0f));
    auto add_times = [&](F32 weight, Global<float> from) {
      const std::vector<F32> v = load_wide(from, vec);
      for (uint32_t i = 0; i < vec; ++i) weight.rec ? sum[i].add_product(weight, v[i]) : sum[i] += v[i];
    };
    k.loop(0u, used, 1u, [&](U32 j) {
      const U64 at = mad_wide(row, used, widen(j));
      const auto add_row = [&](U64 slot) {
        add_times(weighted ? load(k.arg(&Args::weights) + at) : F32{}, k.arg(&Args::y) + slot * widen(cols) + col);
      };
      if (!by_slot) return add_row(at);
      const U32 slot = load(k.arg(&Args::slots) + at);
      if (skips)
        k.when(slot != ~0u, [&] { add_row(widen(slot)); });
      else
        add_row(widen(slot));
    });
    const U64 at = mad_wide(row, cols, widen(col));
    if (shared) {
      const F32 gate = load(k.arg(&Args::shared_gate) + mul_wide(row, k.arg(&Args::gate_stride)));
      add_times(sigmoid(gate), k.arg(&Args::shared) + at);
    }
    const auto out = k.arg(&Args::out) + at;
    const F32 scale = k.arg(&Args::scale);
    std::vector<F32> before, result;
    if (add) before = load_wide(out, vec);
    for (uint32_t i = 0; i < vec; ++i)
      result.push_back(add ? fma(sum[i].get(), scale, before[i]) : sum[i].get() * scale);
    store_wide(out, result);
  });
  return k.finish();
}

Grid Mix::grid(const Args& args) const {
  if (args.cols % vec) throw Error("{}: {} columns, expected a multiple of {}", name, args.cols, vec);
  const uint64_t of_block = uint64_t(threads) * vec, blocks = (args.cols + of_block - 1) / of_block;
  if (blocks > 65535) throw Error("{}: {} columns, {} at most", name, args.cols, 65535 * of_block);
  return {.x = args.rows ? args.rows : 1, .y = blocks ? uint32_t(blocks) : 1};
}

void add_mixture_kernels(std::vector<Entry>& all) {
  all.push_back(entry<Route>());
  all.push_back(entry<Mix>());
}

}  // namespace heddle::kernels
