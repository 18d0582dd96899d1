// The activations of feed-forward layers.
#pragma once
#include "kernels/spec/field.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

enum Activations : uint32_t {
  act_silu,       // x / (1 + e^-x)
  act_gelu_erf,   // x (1 + erf(x / sqrt(2))) / 2
  act_gelu_tanh,  // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
};
inline Allowed activations() { return named({"silu", "gelu_erf", "gelu_tanh"}); }

inline ptx::F32 activate(uint32_t which, ptx::F32 x) {
  if (which == act_gelu_erf) return x * normal_below(x);
  if (which == act_silu) return x * sigmoid(x);
  // (1 + tanh(u)) / 2 = sigmoid(2 u), which does not cancel for negative u
  constexpr float two_root = 1.5957691216f, cubic = two_root * 0.044715f;
  return x * sigmoid(x * fma(x * x, cubic, two_root));
}

}  // namespace heddle::kernels
