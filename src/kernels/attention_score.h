// From the product of q and k to the score of a position in base 2: scale, soft-cap, and log2(e).
#pragma once
#include <numbers>

#include "ptx/code.h"

namespace heddle::kernels {

// (e^2x - 1) / (e^2x + 1) without the loss near 0: absolute error 3e-7, and 3e-7 of x for small x.
inline ptx::F32 accurate_tanh(ptx::F32 x) {
  using namespace ptx;
  // |x| >= 0.5: 1 - 2 / (e^2|x| + 1); infinity in the middle gives 1
  const F32 size = abs(x);
  const F32 power = ex2_approx_ftz(size * float(2 * std::numbers::log2e));
  const F32 far = fma(rcp_approx_ftz(power + 1.0f), -2.0f, 1.0f);
  const F32 signed_far = select(x < 0.0f, -far, far);
  // below: the Taylor series to x^13, whose next term is 0.0015 * 2^-15
  const F32 square = x * x;
  F32 series = fma(square, 21844.0f / 6081075, -1382.0f / 155925);
  for (float c : {62.0f / 2835, -17.0f / 315, 2.0f / 15, -1.0f / 3}) series = fma(series, square, c);
  const F32 near = fma(series * square, x, x);
  return select(size < 0.5f, near, signed_far);
}

struct Score {
  ptx::F32 q_factor;            // what q is multiplied with first
  ptx::F32 cap{};               // of the result, in base 2; empty: no cap
  Score(ptx::F32 scale) : q_factor(scale * float(std::numbers::log2e)) {}
  Score(ptx::F32 scale, ptx::F32 soft_cap)
      : q_factor(scale / soft_cap), cap(soft_cap * float(std::numbers::log2e)) {}

  // From the product with q times q_factor.
  ptx::F32 of(ptx::F32 product) const { return cap.rec ? accurate_tanh(product) * cap : product; }
};

}  // namespace heddle::kernels
