// A thread takes one column of one row.
#include "kernels/mixture/mix.h"

#include "kernels/spec/chain.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

Kernel Mix::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  const U32 row = k.block_id(), col = k.block_y() * threads + k.thread();
  const U32 cols = k.arg(&Args::cols), used = k.arg(&Args::used);
  chain_wait(k, chained);  // all blocks: even one without work vouches for the kernels before
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

}  // namespace heddle::kernels
