// From the product of q and k to the score of a position in base 2: scale, soft-cap, and log2(e).
#pragma once
#include <numbers>

#include "kernels/spec/functions.h"

namespace heddle::kernels {

struct Score {
  ptx::F32 q_factor;  // what q is multiplied with first
  ptx::F32 cap{};     // of the result, in base 2; empty: no cap
  Score(ptx::F32 scale) : q_factor(scale * float(std::numbers::log2e)) {}
  Score(ptx::F32 scale, ptx::F32 soft_cap) : q_factor(scale / soft_cap), cap(soft_cap * float(std::numbers::log2e)) {}

  // From the product with q times q_factor.
  ptx::F32 of(ptx::F32 product) const { return cap.rec ? tanh(product) * cap : product; }
};

}  // namespace heddle::kernels
