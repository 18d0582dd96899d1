// The row of x is read once more for each use: it comes out of L1. The coefficients, up to streams^2, are found by
// neighbouring threads and kept in shared memory.
#include "kernels/layer/altup.h"

#include "kernels/layer/norm.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/memory.h"

namespace heddle::kernels {

using namespace ptx;

Kernel Altup::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  const U32 row = k.block_id(), cols = k.arg(&Args::cols);
  const uint32_t count = step == predict ? streams * streams : streams;  // of coefficients
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows), [&] {
    const U64 start = mul_wide(row, cols);
    const auto x = k.arg(&Args::x) + start, kept = k.arg(&Args::kept) + start, others = k.arg(&Args::others) + start;
    auto other = [&](uint32_t i) { return others + k.arg(&Args::stream_stride) * uint64_t(i - 1); };
    auto each = [&](auto&& f) { k.loop(k.thread(), cols, threads, f); };

    const RowNorm norm = row_norm(
        k, norm_rms, cols, k.arg(&Args::epsilon), [&](auto&& f) { each([&](U32 i) { f(load(x + i)); }); },
        [&](F32 v) { return block_sum(k, v); });
    std::vector<Var<float>> sums;
    for (uint32_t s = 0; s < streams; ++s) sums.push_back(k.var(0.0f));
    each([&](U32 i) {
      const F32 v = norm.of(load(x + i)) * load(k.arg(&Args::weight) + i, {.nc = true});
      for (uint32_t s = 0; s < streams; ++s)
        sums[s].add_product(v, load(k.arg(&Args::router) + mul_wide(cols, s) + i, {.nc = true}));
    });
    std::vector<F32> routed;
    for (const auto& sum : sums) routed.push_back(tanh(block_sum(k, sum.get())));

    const auto all = k.shared<float>(count);
    k.loop(k.thread(), k.constant(count), threads, [&](U32 c) {
      const auto from = k.arg(&Args::coefficients) + c * streams;
      F32 sum = routed[0] * load(from, {.nc = true});
      for (uint32_t s = 1; s < streams; ++s) sum = fma(routed[s], load(from.offset(s), {.nc = true}), sum);
      store(all + c, sum);
    });
    k.barrier();
    auto coefficient = [&](uint32_t c) { return load(all.offset(c)); };

    each([&](U32 i) {
      if (step == correct) {
        const F32 before = load(kept + i), change = load(x + i) - before;
        store(x + i, fma(coefficient(0) + 1.0f, change, before));
        for (uint32_t s = 1; s < streams; ++s)
          store(other(s) + i, fma(coefficient(s) + 1.0f, change, load(other(s) + i)));
        return;
      }
      std::vector<F32> before{load(x + i)};
      for (uint32_t s = 1; s < streams; ++s) before.push_back(load(other(s) + i));
      for (uint32_t s = 0; s < streams; ++s) {
        F32 sum = before[s];
        for (uint32_t j = 0; j < streams; ++j) sum = fma(coefficient(s * streams + j), before[j], sum);
        store((s ? other(s) : x) + i, sum);
        if (s == 0) store(kept + i, sum);
      }
    });
  });
  return k.finish();
}

Grid Altup::grid(const Args& args) const {
  if (args.cols == 0) throw Error("{}: rows of 0 columns", name);
  if (args.stream_stride < uint64_t(args.rows) * args.cols)
    throw Error("{}: streams {} values apart, but {} rows of {}", name, args.stream_stride, args.rows, args.cols);
  return {.x = args.rows ? args.rows : 1};
}

void add_altup_kernels(std::vector<Entry>& all) { all.push_back(entry<Altup>()); }

}  // namespace heddle::kernels
