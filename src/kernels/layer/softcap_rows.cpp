// A thread takes one value of one row.
#include "kernels/layer/softcap_rows.h"

#include "kernels/spec/chain.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

Kernel SoftcapRows::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  const U32 row = k.block_id(), col = k.block_y() * threads + k.thread();
  chain_wait(k, chained);  // all blocks: even one without work vouches for the kernels before
  k.when(row < k.arg(&Args::rows) && col < k.arg(&Args::cols), [&] {
    const auto y = k.arg(&Args::y) + mul_wide(row, k.arg(&Args::stride)) + col;
    F32 v = load(y);
    if (bias) v = v + load(k.arg(&Args::bias) + col, {.nc = true});
    v = v * k.arg(&Args::scale);
    if (cap) v = tanh(v / k.arg(&Args::cap)) * k.arg(&Args::cap);
    store(y, v);
  });
  return k.finish();
}

Grid SoftcapRows::grid(const Args& args) const {
  if (cap && !(args.cap > 0)) throw Error("{}: a cap of {}; it must be above 0", name, args.cap);
  if (args.rows > 1 && args.stride < args.cols)
    throw Error("{}: a stride of {}, but {} columns", name, args.stride, args.cols);
  const uint64_t blocks = (uint64_t(args.cols) + threads - 1) / threads;
  if (blocks > 65535) throw Error("{}: {} columns, {} at most", name, args.cols, uint64_t(65535) * threads);
  return {.x = args.rows ? args.rows : 1, .y = blocks ? uint32_t(blocks) : 1};
}

}  // namespace heddle::kernels
