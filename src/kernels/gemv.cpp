// Q4_K matrix times vector: a warp takes a super-block at a time, each lane one word of nibbles (8 weights), so that
// the 128 bytes of nibbles are one transaction.
#include "kernels/gemv.h"

#include "kernels/q4k.h"

namespace heddle::kernels {

using namespace ptx;

Kernel Q4KGemv::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), warps * 32);
  U32 row = k.block_id() * warps + k.warp(), lane = k.lane();
  k.when(row < k.arg(&Args::rows), [&] {
    U32 blocks = k.arg(&Args::cols) / Q4K::values;
    auto w = k.arg(&Args::w) + mul_wide(row, blocks * Q4K::bytes);
    U32 chunk = lane / 8u;                       // of 64 values: sub-blocks 2 * chunk and 2 * chunk + 1
    U32 first = chunk * 64u + (lane & 7u) * 4u;  // this lane: values first ... first + 3 and 32 further
    auto x = k.arg(&Args::x) + first;

    auto sum = k.var(0.0f);
    k.loop(0u, blocks, 1u, [&](U32 b) {
      Q4K block{w + b * Q4K::bytes};
      Q4K::Head head = block.head();
      U32 q = block.quants(lane);
      auto lo = head.scale(chunk * 2u), hi = head.scale(chunk * 2u + 1u);
      auto here = x + b * Q4K::values;
      auto x_lo = load_vec<4>(here), x_hi = load_vec<4>(here.offset(32));
      for (uint32_t i = 0; i < 4; ++i) {
        sum.add_product(fma(Q4K::nibble(q, 2 * i), lo.scale, -lo.min), x_lo[i]);
        sum.add_product(fma(Q4K::nibble(q, 2 * i + 1), hi.scale, -hi.min), x_hi[i]);
      }
    });
    F32 total = warp_sum(sum.get());
    k.when(lane == 0u, [&] { store(k.arg(&Args::y) + row, total); });
  });
  return k.finish();
}

Grid Q4KGemv::grid(const Args& args) const {
  if (args.cols % Q4K::values) throw Error("q4k_gemv: {} columns are not a multiple of 256", args.cols);
  if (args.w.address % 16 || args.x.address % 16) throw Error("q4k_gemv: x and w must be 16-byte aligned");
  const uint32_t blocks = args.rows / warps + (args.rows % warps != 0);
  return {.x = blocks ? blocks : 1};  // a grid of nothing cannot be launched
}

}  // namespace heddle::kernels
