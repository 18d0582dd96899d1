// RMSNorm and LayerNorm: the passes after the first read the row out of L1 or L2 (a row of 8192 f32 is 32 KB).
#include "kernels/norm.h"

#include "kernels/chain.h"
#include "kernels/wide.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

template <class Spec>
Grid one_block_per_row(const Spec& spec, const typename Spec::Args& args) {
  if (args.cols == 0 || args.cols % spec.vec)
    throw Error("{}: {} columns, but with vec = {} they must be a positive multiple of {}", Spec::name, args.cols,
                spec.vec, spec.vec);
  return {.x = args.rows ? args.rows : 1};  // a grid of nothing cannot be launched
}

}  // namespace

Kernel RmsNorm::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  U32 row = k.block_id(), cols = k.arg(&Args::cols);
  chain_wait(k, chained);  // all blocks: even one without work vouches for the kernels before
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
      for (uint32_t j = 0; j < vec; ++j) v[j] = v[j] * scale * (plus_one ? weight[j] + 1.0f : weight[j]);
      store_wide(y + i, v);
    });
  });
  return k.finish();
}

Grid RmsNorm::grid(const Args& args) const { return one_block_per_row(*this, args); }

// The mean of large values is off by many of their units in the last place. So the second pass sums the differences
// from it too: what they lack to zero corrects the mean and the variance.
Kernel LayerNorm::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  U32 row = k.block_id(), cols = k.arg(&Args::cols);
  chain_wait(k, chained);  // all blocks: even one without work vouches for the kernels before
  k.when(row < k.arg(&Args::rows), [&] {
    U64 start = mul_wide(row, cols);
    auto x = k.arg(&Args::x) + start, y = k.arg(&Args::y) + start, w = k.arg(&Args::w), b = k.arg(&Args::b);
    F32 part = rcp(to_f32(cols));

    auto sum = k.var(0.0f);
    k.loop(k.thread() * vec, cols, threads * vec, [&](U32 i) {
      for (F32 v : load_wide(x + i, vec)) sum += v;
    });
    F32 mean = block_sum(k, sum.get()) * part;

    auto differences = k.var(0.0f), squares = k.var(0.0f);
    k.loop(k.thread() * vec, cols, threads * vec, [&](U32 i) {
      for (F32 v : load_wide(x + i, vec)) {
        F32 d = v - mean;
        differences += d;
        squares.add_product(d, d);
      }
    });
    F32 rest = block_sum(k, differences.get()) * part;
    F32 variance = max(fma(-rest, rest, block_sum(k, squares.get()) * part), 0.0f);
    F32 scale = rsqrt_approx(variance + k.arg(&Args::eps));
    k.loop(k.thread() * vec, cols, threads * vec, [&](U32 i) {
      auto v = load_wide(x + i, vec), weight = load_wide(w + i, vec);
      for (uint32_t j = 0; j < vec; ++j) v[j] = (v[j] - mean - rest) * scale;
      if (bias) {
        auto add = load_wide(b + i, vec);
        for (uint32_t j = 0; j < vec; ++j) v[j] = fma(v[j], weight[j], add[j]);
      } else {
        for (uint32_t j = 0; j < vec; ++j) v[j] = v[j] * weight[j];
      }
      store_wide(y + i, v);
    });
  });
  return k.finish();
}

Grid LayerNorm::grid(const Args& args) const { return one_block_per_row(*this, args); }

}  // namespace heddle::kernels
