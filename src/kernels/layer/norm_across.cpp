#include "kernels/layer/norm_across.h"

#include "kernels/layer/row_kernel.h"
#include "kernels/spec/catalog.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

void check_strides(std::string_view name, bool gated, const auto& args) {
  check_stride(name, "x", args.rows, args.x_stride, args.cols);
  if (gated) check_stride(name, "gate", args.rows, args.gate_stride, args.cols);
}

}  // namespace

Kernel RankSquares::build() const {
  return row_kernel(*this, [&](Builder<Args>& k, U32 row, U32 cols) {
    const auto x = k.arg(&Args::x) + mul_wide(row, k.arg(&Args::x_stride));
    const auto gates = k.arg(&Args::gate) + mul_wide(row, k.arg(&Args::gate_stride));
    const auto sums = k.arg(&Args::sums) + mul_wide(row, k.arg(&Args::sums_stride));
    auto squares = k.var(0.0f);
    k.loop(k.thread(), cols, threads, [&](U32 i) {
      F32 v = load(x + i);
      if (gated) v = v * activate(act_silu, load(gates + i));
      squares.add_product(v, v);
    });
    const F32 sum = block_sum(k, squares.get());
    k.loop(k.thread(), k.arg(&Args::places), threads,
           [&](U32 i) { store(sums + i, select(i == k.arg(&Args::place), sum, 0.0f)); });
  });
}

Grid RankSquares::grid(const Args& args) const {
  check_strides(name, gated, args);
  check_stride(name, "sums", args.rows, args.sums_stride, args.places);
  if (args.place > args.places) throw Error("{}: place {} of {}", name, args.place, args.places);
  return row_grid(*this, args);
}

Kernel NormAcross::build() const {
  return row_kernel(*this, [&](Builder<Args>& k, U32 row, U32 cols) {
    const auto x = k.arg(&Args::x) + mul_wide(row, k.arg(&Args::x_stride));
    const auto gates = k.arg(&Args::gate) + mul_wide(row, k.arg(&Args::gate_stride));
    const F32 sum = load(k.arg(&Args::sums) + mul_wide(row, k.arg(&Args::sums_stride)));
    const F32 scale = rsqrt_approx(fma(sum, rcp(to_f32(k.arg(&Args::count))), k.arg(&Args::epsilon)));
    k.loop(k.thread(), cols, threads, [&](U32 i) {
      F32 v = load(x + i);
      const F32 times = gate == none ? v : activate(act_silu, load(gates + i));
      if (gate == first) v = v * times;
      v = v * scale * load(k.arg(&Args::weight) + i, {.nc = true});
      if (gate == last) v = v * times;
      store(x + i, v);
    });
  });
}

Grid NormAcross::grid(const Args& args) const {
  check_strides(name, gate != none, args);
  if (args.count < args.cols) throw Error("{}: sums over {} values, but {} of this rank", name, args.count, args.cols);
  return row_grid(*this, args);
}

void add_norm_across_kernels(std::vector<Entry>& all) {
  all.push_back(entry<RankSquares>());
  all.push_back(entry<NormAcross>());
}

}  // namespace heddle::kernels
