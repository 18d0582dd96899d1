// RMSNorm: two passes over a row, the second out of L1 or L2 (a row of 8192 f32 is 32 KB).
#include "kernels/norm.h"

#include "kernels/wide.h"

namespace heddle::kernels {

using namespace ptx;

Kernel RmsNorm::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  U32 row = k.block_id(), cols = k.arg(&Args::cols);
  k.when(row < k.arg(&Args::rows), [&] {
    U64 start = mul_wide(row, cols);
    auto x = k.arg(&Args::x) + start, y = k.arg(&Args::y) + start, w = k.arg(&Args::w);

    auto sum = k.var(0.0f);
    k.loop(k.thread() * vec, cols, threads * vec, [&](U32 i) {
      for (F32 v : load_wide(x + i, vec)) sum.add_product(v, v);
    });
    F32 scale = rsqrt_approx(block_sum(k, sum.get()) / to_f32(cols) + k.arg(&Args::eps));
    k.loop(k.thread() * vec, cols, threads * vec, [&](U32 i) {
      auto v = load_wide(x + i, vec), weight = load_wide(w + i, vec);
      for (uint32_t j = 0; j < vec; ++j) v[j] = v[j] * scale * weight[j];
      store_wide(y + i, v);
    });
  });
  return k.finish();
}

Grid RmsNorm::grid(const Args& args) const {
  if (args.cols == 0 || args.cols % vec)
    throw Error("rms_norm: {} columns, but with vec = {} they must be a positive multiple of {}", args.cols, vec, vec);
  return {.x = args.rows ? args.rows : 1};  // a grid of nothing cannot be launched
}

}  // namespace heddle::kernels
