// The row of y is read once more for what is added: it comes out of L1.
#include "kernels/layer/norm_add.h"

#include "kernels/spec/chain.h"

namespace heddle::kernels {

using namespace ptx;

Kernel NormAdd::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  const U32 row = k.block_id(), cols = k.arg(&Args::cols);
  chain_wait(k, chained);  // all blocks: even one without work vouches for the kernels before
  k.when(row < k.arg(&Args::rows), [&] {
    const U64 start = mul_wide(row, cols);
    const auto h = k.arg(&Args::h) + start, y = k.arg(&Args::y) + start;
    auto each = [&](auto&& f) { k.loop(k.thread(), cols, threads, [&](U32 i) { f(load(y + i)); }); };
    auto sum = [&](F32 v) { return block_sum(k, v); };
    const RowNorm made = row_norm(k, norm, cols, k.arg(&Args::epsilon), each, sum);
    k.loop(k.thread(), cols, threads, [&](U32 i) {
      F32 v = made.of(load(y + i));
      if (norm != norm_none) v = v * load(k.arg(&Args::weight) + i, {.nc = true});
      if (bias) v = v + load(k.arg(&Args::bias) + i, {.nc = true});
      store(h + i, fma(v, k.arg(&Args::scale), load(h + i)));
    });
  });
  return k.finish();
}

Grid NormAdd::grid(const Args& args) const {
  if (args.cols == 0) throw Error("{}: rows of 0 columns", name);
  return {.x = args.rows ? args.rows : 1};
}

}  // namespace heddle::kernels
