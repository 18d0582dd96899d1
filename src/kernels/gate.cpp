// Activations and gates: each thread takes `vec` neighbours of one row.
#include "kernels/gate.h"

#include "kernels/chain.h"
#include "kernels/functions.h"
#include "kernels/wide.h"

namespace heddle::kernels {

using namespace ptx;

Kernel Gate::build() const {
  check_fields(*this);
  auto activate = [&](F32 x) {
    if (act == gelu_erf) return x * normal_below(x);
    if (act == silu) return x * sigmoid(x);
    // (1 + tanh(u)) / 2 = sigmoid(2 u), which does not cancel for negative u
    constexpr float two_root = 1.5957691216f, cubic = two_root * 0.044715f;
    return x * sigmoid(x * fma(x * x, cubic, two_root));
  };
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  U32 row = k.block_id(), col = (k.block_y() * threads + k.thread()) * vec;
  chain_wait(k, chained);  // all blocks: even one without work vouches for the kernels before
  k.when(row < k.arg(&Args::rows) && col < k.arg(&Args::cols), [&] {
    auto at = [&](auto buffer, auto stride) { return k.arg(buffer) + mul_wide(row, k.arg(stride)) + col; };
    auto v = load_wide(at(&Args::gate, &Args::gate_stride), vec);
    for (F32& x : v) x = activate(x);
    if (times_up) {
      auto up = load_wide(at(&Args::up, &Args::up_stride), vec);
      for (uint32_t j = 0; j < vec; ++j) v[j] = v[j] * up[j];
    }
    store_wide(at(&Args::y, &Args::y_stride), v);
  });
  return k.finish();
}

Grid Gate::grid(const Args& args) const {
  auto suits = [&](const char* which, uint64_t address, uint32_t stride) {
    if (args.rows > 1 && stride < args.cols)
      throw Error("gate: {} has a stride of {}, but {} columns", which, stride, args.cols);
    if (address % (4 * vec) || (args.rows > 1 && stride % vec))
      throw Error(
          "gate: with vec = {} addresses must be multiples of {} bytes and strides of {}; {} is at {:#x} with {}", vec,
          4 * vec, vec, which, address, stride);
  };
  suits("y", args.y.address, args.y_stride), suits("gate", args.gate.address, args.gate_stride);
  if (times_up) suits("up", args.up.address, args.up_stride);
  if (args.cols % vec) throw Error("gate: {} columns are not a multiple of vec = {}", args.cols, vec);
  const uint64_t per_block = uint64_t(threads) * vec, blocks = (args.cols + per_block - 1) / per_block;
  if (blocks > 65535) throw Error("gate: {} columns, {} at most", args.cols, 65535 * per_block);
  return {.x = args.rows ? args.rows : 1, .y = blocks ? uint32_t(blocks) : 1};
}

}  // namespace heddle::kernels
