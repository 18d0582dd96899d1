// Residual add: a block takes 4 * threads neighbours, as quads where they are aligned and whole.
#include "kernels/layer/residual.h"

#include "kernels/spec/chain.h"

namespace heddle::kernels {

using namespace ptx;

Kernel ResidualAdd::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  chain_wait(k, chained);
  auto y = k.arg(&Args::y), a = k.arg(&Args::a), b = k.arg(&Args::b);
  U32 n = k.arg(&Args::n), first = k.block_id() * (threads * 4);  // of the block
  auto add = [&](F32 u, F32 v) { return scaled ? fma(v, k.arg(&Args::scale), u) : u + v; };
  k.when(first < n, [&] {
    U32 count = min(n - first, threads * 4);
    Pred aligned = ((y.address() | a.address() | b.address()) & uint64_t(15)) == uint64_t(0);
    k.when_else(
        aligned && count == threads * 4,
        [&] {
          U32 i = first + k.thread() * 4u;
          auto u = load_vec<4>(a + i), v = load_vec<4>(b + i);
          for (size_t j = 0; j < 4; ++j) u[j] = add(u[j], v[j]);
          store_vec(y + i, u);
        },
        [&] {
          k.loop(k.thread(), count, threads,
                 [&](U32 i) { store(y + (first + i), add(load(a + (first + i)), load(b + (first + i)))); });
        });
  });
  return k.finish();
}

Grid ResidualAdd::grid(const Args& args) const {
  const uint32_t per_block = threads * 4;
  if (args.n > ~0u - per_block) throw Error("residual_add: {} values, {} at most", args.n, ~0u - per_block);
  const uint32_t blocks = args.n / per_block + (args.n % per_block != 0);
  return {.x = blocks ? blocks : 1};
}

}  // namespace heddle::kernels
