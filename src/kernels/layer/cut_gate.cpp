// The row of the gate is read three times: twice out of L1 or L2 (a row of 16384 f32 is 64 KB).
#include "kernels/layer/cut_gate.h"

#include "kernels/layer/row_kernel.h"
#include "kernels/spec/catalog.h"
#include "ptx/memory.h"
#include "ptx/warp.h"

namespace heddle::kernels {

using namespace ptx;

Kernel CutGate::build() const {
  return row_kernel(*this, [&](Builder<Args>& k, U32 row, U32 cols) {
    const U64 start = mul_wide(row, k.arg(&Args::in_stride));
    const auto gate = k.arg(&Args::gate) + start, up = k.arg(&Args::up) + start;
    const auto y = k.arg(&Args::y) + mul_wide(row, k.arg(&Args::y_stride));
    const F32 part = rcp(to_f32(cols));
    auto each = [&](auto&& f) { k.loop(k.thread(), cols, threads, [&](U32 i) { f(i, load(gate + i)); }); };
    auto total = k.var(0.0f), differences = k.var(0.0f), squares = k.var(0.0f);
    each([&](U32, F32 v) { total += v; });
    const F32 mean = block_sum(k, total.get()) * part;
    // the mean of the differences corrects the mean, and the variance
    each([&](U32, F32 v) {
      const F32 d = v - mean;
      differences += d;
      squares.add_product(d, d);
    });
    const F32 rest = block_sum(k, differences.get()) * part;
    const F32 variance = max(fma(-rest, rest, block_sum(k, squares.get()) * part), 0.0f);
    const F32 above = fma(sqrt(variance), k.arg(&Args::cutoff), rest);  // the mean
    each([&](U32 i, F32 v) { store(y + i, gate_with(k, act, max(v - mean - above, 0.0f), load(up + i))); });
  });
}

Grid CutGate::grid(const Args& args) const {
  for (uint32_t stride : {args.y_stride, args.in_stride})
    if (args.rows > 1 && stride < args.cols) throw Error("{}: a stride of {}, but {} columns", name, stride, args.cols);
  return row_grid(*this, args);
}

void add_cut_gate_kernels(std::vector<Entry>& all) { all.push_back(entry<CutGate>()); }

}  // namespace heddle::kernels
