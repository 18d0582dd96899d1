// A logit and its expert form one 64-bit key that orders by logit, and among equal logits by the lower expert. The warp
// picks and removes its largest key `used` times.
#include "kernels/mixture/mixture.h"

#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "kernels/spec/reduce.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

constexpr uint32_t warps = 4;

// Above 0 for every expert. NaN comes below -infinity; -0 counts as +0.
U64 key_of(F32 v, U32 expert) { return pack<uint64_t>(~expert, select(v == v, ordered_bits(v + 0.0f), 0u)); }
F32 logit_of(U64 key) { return float_of_ordered(unpack<uint32_t>(key)[1]); }

}  // namespace

Kernel Route::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), warps * 32);
  chain_start(k, chained);
  const U32 row = k.block_id() * warps + k.warp(), experts = k.arg(&Args::experts), used = k.arg(&Args::used);
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows), [&] {
    const auto logits = k.arg(&Args::logits) + mul_wide(row, k.arg(&Args::logits_stride));
    std::vector<Var<uint64_t>> keys;  // 0: no expert, or one that was picked
    for (uint32_t i = 0; i < largest / 32; ++i) {
      const U32 expert = k.lane() + i * 32u;
      keys.push_back(k.var(uint64_t(0)));
      k.when(expert < experts, [&] { keys[i] = key_of(load(logits + expert), expert); });
    }
    auto best = [&] {
      U64 all = keys[0].get();
      for (size_t i = 1; i < keys.size(); ++i) all = max(all, keys[i].get());
      return warp_max(all);
    };
    const F32 top = logit_of(best());
    auto share = [&](U64 key) { return select(key != uint64_t(0), exp(logit_of(key) - top), 0.0f); };
    auto total = k.var(0.0f);
    if (!sum_to_one) {
      for (auto& key : keys) total += share(key.get());
      total = warp_sum(total.get());
    }

    auto picked = k.var(uint64_t(0));  // lane j: the j-th
    k.loop(0u, used, 1u, [&](U32 j) {
      const U64 key = best();
      for (auto& mine : keys) mine = select(mine.get() != key, mine.get(), uint64_t(0));
      picked = select(k.lane() == j, key, picked.get());
    });
    const F32 mine = share(picked.get());
    if (sum_to_one) total = warp_sum(mine);
    k.when(k.lane() < used, [&] {
      const U64 at = mad_wide(row, used, widen(k.lane()));
      store(k.arg(&Args::ids) + at, ~to<uint32_t>(picked.get()));
      store(k.arg(&Args::weights) + at, mine / total.get());
    });
  });
  return k.finish();
}

Grid Route::grid(const Args& args) const {
  if (args.experts == 0 || args.experts > largest)
    throw Error("{}: {} experts, 1 to {} expected", name, args.experts, largest);
  if (args.used == 0 || args.used > args.experts || args.used > 32)
    throw Error("{}: {} of {} experts are used; 1 to 32, not above that, expected", name, args.used, args.experts);
  if (args.rows > 1 && args.logits_stride < args.experts)
    throw Error("{}: logits have a stride of {}, but {} experts", name, args.logits_stride, args.experts);
  return {.x = args.rows ? args.rows / warps + (args.rows % warps != 0) : 1};
}

// A thread takes one column of one row.
Kernel Mix::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  const U32 row = k.block_id(), col = k.block_y() * threads + k.thread();
  const U32 cols = k.arg(&Args::cols), used = k.arg(&Args::used);
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows) && col < cols, [&] {
    auto sum = k.var(0.0f);
    k.loop(0u, used, 1u, [&](U32 j) {
      const U64 slot = mad_wide(row, used, widen(j));
      sum.add_product(load(k.arg(&Args::weights) + slot), load(k.arg(&Args::y) + slot * widen(cols) + col));
    });
    const U64 at = mad_wide(row, cols, widen(col));
    if (shared) {
      const F32 gate = load(k.arg(&Args::shared_gate) + mul_wide(row, k.arg(&Args::gate_stride)));
      sum.add_product(sigmoid(gate), load(k.arg(&Args::shared) + at));
    }
    const auto out = k.arg(&Args::out) + at;
    const F32 scale = k.arg(&Args::scale), v = sum.get();
    store(out, add ? fma(v, scale, load(out)) : v * scale);
  });
  return k.finish();
}

Grid Mix::grid(const Args& args) const {
  const uint64_t blocks = (uint64_t(args.cols) + threads - 1) / threads;
  if (blocks > 65535) throw Error("{}: {} columns, {} at most", name, args.cols, uint64_t(65535) * threads);
  return {.x = args.rows ? args.rows : 1, .y = blocks ? uint32_t(blocks) : 1};
}

void add_mixture_kernels(std::vector<Entry>& all) {
  all.push_back(entry<Route>());
  all.push_back(entry<Mix>());
}

}  // namespace heddle::kernels
