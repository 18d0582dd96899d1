// What a row is normalised with, computed by the threads that share it: a warp or a block.
#pragma once
#include "kernels/spec/field.h"
#include "ptx/warp.h"

namespace heddle::kernels {

enum NormKind : uint32_t { norm_none, norm_rms, norm_layer };
inline Allowed norm_kinds() { return named({"none", "rms", "layer"}); }

// (x - mean - rest) * scale; without a norm x itself.
struct RowNorm {
  uint32_t kind = norm_none;
  ptx::F32 mean{}, rest{}, scale{};

  ptx::F32 of(ptx::F32 x) const {
    if (kind == norm_none) return x;
    return (kind == norm_layer ? x - mean - rest : x) * scale;
  }
};

// each(f): f(x) for every value of this thread. sum(x): over all threads that share the row, the same for each of them.
RowNorm row_norm(ptx::Code& k, uint32_t kind, ptx::U32 size, ptx::F32 epsilon, auto&& each, auto&& sum) {
  using ptx::F32;
  RowNorm norm{.kind = kind};
  if (kind == norm_none) return norm;
  const F32 part = rcp(to_f32(size));
  auto squares = k.var(0.0f);
  if (kind == norm_rms) {
    each([&](F32 x) { squares.add_product(x, x); });
    norm.scale = rsqrt_approx(fma(sum(squares.get()), part, epsilon));
    return norm;
  }
  auto total = k.var(0.0f), differences = k.var(0.0f);
  each([&](F32 x) { total += x; });
  norm.mean = sum(total.get()) * part;
  // The mean of large values is off by many of their units in the last place: what the differences lack to zero
  // corrects it, and the variance.
  each([&](F32 x) {
    F32 d = x - norm.mean;
    differences += d;
    squares.add_product(d, d);
  });
  norm.rest = sum(differences.get()) * part;
  const F32 variance = max(fma(-norm.rest, norm.rest, sum(squares.get()) * part), 0.0f);
  norm.scale = rsqrt_approx(variance + epsilon);
  return norm;
}

}  // namespace heddle::kernels
