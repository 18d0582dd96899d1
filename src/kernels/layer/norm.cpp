// RMSNorm and LayerNorm: the passes after the first read the row out of L1 or L2 (a row of 8192 f32 is 32 KB).
#include "kernels/layer/norm.h"

#include "kernels/layer/row_kernel.h"
#include "kernels/spec/catalog.h"
#include "ptx/memory.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

template <class Spec>
Grid one_block_per_row(const Spec& spec, const typename Spec::Args& args) {
  if (args.cols == 0 || args.cols % spec.vec)
    throw Error("{}: {} columns, but with vec = {} they must be a positive multiple of {}", Spec::name, args.cols,
                spec.vec, spec.vec);
  return {.x = args.rows ? args.rows : 1};  // an empty grid cannot be launched
}

// Every thread takes each `threads`-th piece of `vec` values.
template <class Spec>
RowNorm norm_of(Builder<typename Spec::Args>& k, const Spec& spec, uint32_t kind, Global<float> x) {
  using Args = typename Spec::Args;
  const U32 cols = k.arg(&Args::cols);
  auto each = [&](auto&& f) {
    k.loop(k.thread() * spec.vec, cols, spec.threads * spec.vec, [&](U32 i) {
      for (F32 v : load_wide(x + i, spec.vec)) f(v);
    });
  };
  return row_norm(k, kind, cols, k.arg(&Args::eps), each, [&](F32 v) { return block_sum(k, v); });
}

}  // namespace

Kernel RmsNorm::build() const {
  return row_kernel(*this, [&](Builder<Args>& k, U32 row, U32 cols) {
    U64 start = mul_wide(row, cols);
    auto x = k.arg(&Args::x) + start, y = k.arg(&Args::y) + start, w = k.arg(&Args::w);
    const RowNorm norm = norm_of(k, *this, norm_rms, x);
    k.loop(k.thread() * vec, cols, threads * vec, [&](U32 i) {
      auto v = load_wide(x + i, vec), weight = load_wide(w + i, vec);
      for (uint32_t j = 0; j < vec; ++j) v[j] = norm.of(v[j]) * (plus_one ? weight[j] + 1.0f : weight[j]);
      store_wide(y + i, v);
    });
  });
}

Grid RmsNorm::grid(const Args& args) const { return one_block_per_row(*this, args); }

Kernel LayerNorm::build() const {
  return row_kernel(*this, [&](Builder<Args>& k, U32 row, U32 cols) {
    U64 start = mul_wide(row, cols);
    auto x = k.arg(&Args::x) + start, y = k.arg(&Args::y) + start, w = k.arg(&Args::w), b = k.arg(&Args::b);
    const RowNorm norm = norm_of(k, *this, norm_layer, x);
    k.loop(k.thread() * vec, cols, threads * vec, [&](U32 i) {
      auto v = load_wide(x + i, vec), weight = load_wide(w + i, vec);
      auto add = bias ? load_wide(b + i, vec) : v;
      for (uint32_t j = 0; j < vec; ++j) {
        F32 n = norm.of(v[j]);
        v[j] = bias ? fma(n, weight[j], add[j]) : n * weight[j];
      }
      store_wide(y + i, v);
    });
  });
}

Grid LayerNorm::grid(const Args& args) const { return one_block_per_row(*this, args); }

// The row of y is read once more for what is added: it comes out of L1.
Kernel NormAdd::build() const {
  return row_kernel(*this, [&](Builder<Args>& k, U32 row, U32 cols) {
    const U64 start = mul_wide(row, cols);
    const auto h = k.arg(&Args::h) + start, y = k.arg(&Args::y) + start;
    auto each = [&](auto&& f) { k.loop(k.thread(), cols, threads, [&](U32 i) { f(load(y + i)); }); };
    auto sum = [&](F32 v) { return block_sum(k, v); };
    const RowNorm made = row_norm(k, norm, cols, k.arg(&Args::epsilon), each, sum);
    k.loop(k.thread(), cols, threads, [&](U32 i) {
      F32 v = made.of(load(y + i));
      if (norm != norm_none) v = v * load(k.arg(&Args::weight) + i, {.nc = true});
      if (bias) v = v + load(k.arg(&Args::bias) + i, {.nc = true});
      F32 result = fma(v, k.arg(&Args::scale), load(h + i));
      if (also) result = result + load(k.arg(&Args::also) + start + i);
      store(h + i, after ? result * k.arg(&Args::after) : result);
    });
  });
}

Grid NormAdd::grid(const Args& args) const { return row_grid(*this, args); }

Kernel NormSum::build() const {
  return row_kernel(*this, [&](Builder<Args>& k, U32 row, U32 cols) {
    const U64 start = mul_wide(row, cols);
    const auto h = k.arg(&Args::h) + start, a = k.arg(&Args::a) + start, b = k.arg(&Args::b) + start;
    auto each = [&](auto&& f) { k.loop(k.thread(), cols, threads, f); };
    auto norm_of_row = [&](F32 epsilon, auto&& value) {
      return row_norm(
          k, norm_rms, cols, epsilon, [&](auto&& f) { each([&](U32 i) { f(value(i)); }); },
          [&](F32 v) { return block_sum(k, v); });
    };
    const RowNorm of_a = norm_of_row(k.arg(&Args::a_epsilon), [&](U32 i) { return load(a + i); });
    const RowNorm of_b = norm_of_row(k.arg(&Args::b_epsilon), [&](U32 i) { return load(b + i); });
    auto both = [&](U32 i) {
      const F32 second = of_b.of(load(b + i)) * load(k.arg(&Args::b_weight) + i, {.nc = true});
      return fma(of_a.of(load(a + i)), load(k.arg(&Args::a_weight) + i, {.nc = true}), second);
    };
    const RowNorm of_both = norm_of_row(k.arg(&Args::epsilon), both);
    each([&](U32 i) {
      const F32 v = of_both.of(both(i)) * load(k.arg(&Args::weight) + i, {.nc = true});
      const F32 sum = fma(v, k.arg(&Args::scale), load(h + i));
      store(h + i, after ? sum * k.arg(&Args::after) : sum);
    });
  });
}

Grid NormSum::grid(const Args& args) const { return row_grid(*this, args); }

Kernel MatchLength::build() const {
  return row_kernel(*this, [&](Builder<Args>& k, U32 row, U32 cols) {
    const U64 start = mul_wide(row, cols);
    const auto x = k.arg(&Args::x) + start, p = k.arg(&Args::p) + start, y = k.arg(&Args::y) + start;
    auto own = k.var(0.0f), wanted = k.var(0.0f);
    k.loop(k.thread(), cols, threads, [&](U32 i) {
      const F32 from = load(p + i), like = load(x + i);
      own.add_product(from, from);
      wanted.add_product(like, like);
    });
    const F32 least = k.arg(&Args::least) * to_f32(cols);
    const F32 factor = sqrt(block_sum(k, wanted.get()) / max(block_sum(k, own.get()), least));
    k.loop(k.thread(), cols, threads, [&](U32 i) { store(y + i, load(p + i) * factor); });
  });
}

Grid MatchLength::grid(const Args& args) const {
  if (!(args.least > 0)) throw Error("{}: a mean square of {} at least, expected one above 0", name, args.least);
  return row_grid(*this, args);
}

void add_norm_kernels(std::vector<Entry>& all) {
  all.push_back(entry<RmsNorm>());
  all.push_back(entry<LayerNorm>());
  all.push_back(entry<NormAdd>());
  all.push_back(entry<NormSum>());
  all.push_back(entry<MatchLength>());
}

}  // namespace heddle::kernels
