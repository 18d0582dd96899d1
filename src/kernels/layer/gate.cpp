// Activations and gates: each thread takes `vec` neighbours of one row.
#include "kernels/layer/gate.h"

#include "kernels/layer/activation.h"
#include "kernels/spec/chain.h"
#include "kernels/spec/wide.h"

namespace heddle::kernels {

using namespace ptx;

Kernel Gate::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  U32 row = k.block_id(), col = (k.block_y() * threads + k.thread()) * vec;
  chain_wait(k, chained);  // all blocks: even one without work vouches for the kernels before
  k.when(row < k.arg(&Args::rows) && col < k.arg(&Args::cols), [&] {
    auto at = [&](auto buffer, auto stride) { return k.arg(buffer) + mul_wide(row, k.arg(stride)) + col; };
    auto v = load_wide(at(&Args::gate, &Args::gate_stride), vec);
    for (F32& x : v) x = activate(act, x);
    if (times_up) {
      auto up = load_wide(at(&Args::up, &Args::up_stride), vec);
      for (uint32_t j = 0; j < vec; ++j) v[j] = v[j] * up[j];
    }
    if (out == out_f32) return store_wide(at(&Args::y, &Args::y_stride), v);
    std::vector<BF16> narrow;
    for (F32 x : v) narrow.push_back(to_bf16(x));
    store_wide(at(&Args::narrow, &Args::y_stride), narrow);
  });
  return k.finish();
}

Grid Gate::grid(const Args& args) const {
  auto suits = [&](const char* which, uint64_t address, uint32_t stride, uint32_t bytes = 4) {
    if (args.rows > 1 && stride < args.cols)
      throw Error("gate: {} has a stride of {}, but {} columns", which, stride, args.cols);
    if (address % (bytes * vec) || (args.rows > 1 && stride % vec))
      throw Error(
          "gate: with vec = {} addresses must be multiples of {} bytes and strides of {}; {} is at {:#x} with {}", vec,
          bytes * vec, vec, which, address, stride);
  };
  out == out_f32 ? suits("y", args.y.address, args.y_stride) : suits("narrow", args.narrow.address, args.y_stride, 2);
  suits("gate", args.gate.address, args.gate_stride);
  if (times_up) suits("up", args.up.address, args.up_stride);
  if (args.cols % vec) throw Error("gate: {} columns are not a multiple of vec = {}", args.cols, vec);
  const uint64_t per_block = uint64_t(threads) * vec, blocks = (args.cols + per_block - 1) / per_block;
  if (blocks > 65535) throw Error("gate: {} columns, {} at most", args.cols, 65535 * per_block);
  return {.x = args.rows ? args.rows : 1, .y = blocks ? uint32_t(blocks) : 1};
}

}  // namespace heddle::kernels
