// Argmax in one launch: blocks join through an atomic maximum of (value, index) keys.
#include "kernels/sample/argmax.h"

#include "kernels/spec/catalog.h"
#include "kernels/spec/chain.h"
#include "kernels/spec/reduce.h"
#include "ptx/memory.h"

namespace heddle::kernels {

using namespace ptx;

Kernel Argmax::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  chain_wait(k, chained);
  U32 row = k.block_y(), cols = k.arg(&Args::cols);
  k.when(row < k.arg(&Args::rows), [&] {
    auto x = k.arg(&Args::x) + mul_wide(row, cols);
    auto best = k.var(uint64_t(0));
    for (uint32_t j = 0; j < loads; ++j) {
      U32 i = ((k.block_id() * loads + j) * threads + k.thread()) * vec;
      k.when(i < cols, [&] {
        auto v = load_wide(x + i, vec);
        for (uint32_t e = 0; e < vec; ++e) best = max(best.get(), argmax_key(v[e], i + e));
      });
    }
    U64 of_block = block_max(k, best.get());
    k.when(k.thread() == 0u, [&] {
      auto all = k.arg(&Args::best) + row;
      auto arrived = k.arg(&Args::arrived) + row;
      reduce(Atomic::max, all, of_block);
      // release: the maximum above comes before; acquire: the last to come sees those of all
      U32 before = atomic(Atomic::inc, arrived, k.grid_x() - 1u, {.order = Order::acq_rel});
      k.when(before == k.grid_x() - 1u, [&] {  // the count is 0 again
        U64 key = atomic(Atomic::exch, all, uint64_t(0));
        store(k.arg(&Args::ids) + mul_wide(row, k.arg(&Args::stride)), argmax_index(key));
      });
    });
  });
  return k.finish();
}

Grid Argmax::grid(const Args& args) const {
  if (args.cols == 0 || args.cols % vec)
    throw Error("argmax: {} columns, but with vec = {} they must be a positive multiple of {}", args.cols, vec, vec);
  if (args.x.address % (4 * vec))
    throw Error("argmax: x at {:#x}, but with vec = {} it must be {}-byte aligned", args.x.address, vec, 4 * vec);
  if (args.rows > 65535) throw Error("argmax: {} rows, 65535 at most", args.rows);
  const uint32_t per_block = threads * vec * loads;
  if (args.cols > ~0u - per_block) throw Error("argmax: {} columns, {} at most", args.cols, ~0u - per_block);
  return {.x = args.cols / per_block + (args.cols % per_block != 0), .y = args.rows ? args.rows : 1};
}

void add_argmax_kernels(std::vector<Entry>& all) { all.push_back(entry<Argmax>()); }

}  // namespace heddle::kernels
