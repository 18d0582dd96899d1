// What kernels of several folders emit: the wait of a chained launch, activations and other functions of values.
#pragma once
#include <array>

#include "kernels/spec/field.h"
#include "ptx/builder.h"
#include "ptx/convert.h"

namespace heddle::kernels {

// Kernels that follow each other in a stream or graph with programmatic dependent launch: the next one starts while
// this one still runs, fetches what no kernel of the chain writes (weights), and waits before it touches anything else.
// A kernel begins with chain_start and calls chain_wait before its first read of activations and before its first
// write. Data that another kernel of the chain wrote is read with plain loads, never with .nc.

// `chained`: the spec's field (0 or 1). Chained kernels need sm_90.
inline void chain_start(ptx::Code& k, uint32_t chained, ptx::Loc l = ptx::Loc::current()) {
  if (chained) k.grid_launch_dependents(l);
}
inline void chain_wait(ptx::Code& k, uint32_t chained, ptx::Loc l = ptx::Loc::current()) {
  if (chained) k.grid_wait(l);
}

// Functions of f32 that are good to a few units in the last place, where the approximate instruction alone is not.
// The polynomials are Chebyshev fits; their own error is below 5e-8 of the result.

// c[0] + x (c[1] + x (c[2] + ...))
template <size_t N>
ptx::F32 polynomial(ptx::F32 x, const std::array<float, N>& c) {
  ptx::F32 sum = fma(x, c[N - 1], c[N - 2]);
  for (size_t i = N - 2; i-- > 0;) sum = fma(sum, x, c[i]);
  return sum;
}

// e^x, relative error below 4e-7 where the result is a normal number; 0 below -104 and for NaN, infinity above 89.
// ex2.approx(x log2(e)) alone loses |x| 2^-24 through the rounding of the product; that error is corrected here.
inline ptx::F32 exp(ptx::F32 x) {
  constexpr float log2_e = 0x1.715476p+0f, log2_e_rest = 0x1.4ae0cp-26f, ln_2 = 0x1.62e43p-1f;
  x = min(max(x, -110.0f), 100.0f);  // so that no infinity meets its negative below
  ptx::F32 t = x * log2_e;
  ptx::F32 rest = fma(x, log2_e_rest, fma(x, log2_e, -t));
  return ex2_approx(t) * fma(rest, ln_2, 1.0f);
}

// 1 / (1 + e^-x) = (x < 0 ? e : 1) / (1 + e) with e = e^-|x|: nothing overflows, nothing cancels.
inline ptx::F32 sigmoid(ptx::F32 x) {
  ptx::F32 e = exp(-abs(x));
  return select(x < 0.0f, e, 1.0f) * rcp_approx(e + 1.0f);
}

// log(1 + e^x), relative error below 1e-6: log(1 + e) = 2 atanh(e / (2 + e)) with e = e^-|x|.
inline ptx::F32 softplus(ptx::F32 x) {
  const ptx::F32 e = exp(-abs(x)), z = e * rcp_approx(e + 2.0f), square = z * z;
  const ptx::F32 series =
      polynomial(square, std::array{1.0f, 1 / 3.0f, 1 / 5.0f, 1 / 7.0f, 1 / 9.0f, 1 / 11.0f, 1 / 13.0f, 1 / 15.0f});
  return fma(z * 2.0f, series, max(x, 0.0f));
}

// Relative error below 5e-7. Small arguments take a polynomial, because 1 - 2 / (e^2x + 1) cancels there.
inline ptx::F32 tanh(ptx::F32 x) {
  ptx::F32 a = abs(x), square = x * x;
  ptx::F32 small = fma(x * square,
                       polynomial(square, std::array{-0.333333332312f, 0.133333128669f, -0.0539615517813f,
                                                     0.0217883219971f, -0.00841007080153f, 0.0023707656405f}),
                       x);
  ptx::F32 large = fma(rcp_approx(exp(a * 2.0f) + 1.0f), -2.0f, 1.0f);
  return select(a < 0.6f, small, select(x < 0.0f, -large, large));
}

// The cumulative standard normal distribution, (1 + erf(x / sqrt(2))) / 2, relative error below 2e-6 down to
// x = -12. The tail is e^(-x^2 / 2) times a polynomial of 1 / (1 + |x| / sqrt(8)); x^2 is kept in two parts.
inline ptx::F32 normal_below(ptx::F32 x) {
  ptx::F32 a = min(abs(x), 15.0f), square = a * a, rest = fma(a, a, -square);
  ptx::F32 t = rcp_approx(fma(a, 0x1.6a09e6p-2f, 1.0f));
  ptx::F32 tail = t * 0.5f *
                  polynomial(t, std::array{0.282082674f, 0.282445042f, 0.242572893f, 0.204853655f, -0.0318417574f,
                                           0.28569771f, -0.493863649f, 0.28776831f, -0.059714919f});
  tail = tail * exp(square * -0.5f) * fma(rest, -0.5f, 1.0f);
  return select(x < 0.0f, tail, 1.0f - tail);
}

// v clamped to the range of f16, +-65504; NaN stays NaN, so that wrong numbers stay visible. sm_80.
inline ptx::F32 within_f16(ptx::F32 v) { return max_nan(min_nan(v, 65504.0f), -65504.0f); }

// Sine and cosine of an angle in turns, given as a fraction of 2^64: whole turns overflow away, so that any multiple of
// a frequency is reduced exactly. Absolute error below 1.5e-7.
struct SinCos {
  ptx::F32 sin, cos;
};
inline SinCos sin_cos_of_turns(ptx::U64 turns) {
  ptx::U32 high = unpack<uint32_t>(turns)[1];
  ptx::U32 quarter = (high + 0x20000000u) >> 30;  // nearest; the rest is an eighth of a turn or less
  ptx::F32 v = to_f32(bitcast<int32_t>(high - (quarter << 30))) * 0x1p-29f, square = v * v;
  ptx::F32 s = v * polynomial(square, std::array{0.785398163394f, -0.0807455120183f, 0.00249039321018f,
                                                 -3.65723926307e-5f, 3.08996686634e-7f});
  ptx::F32 c =
      polynomial(square, std::array{1.0f, -0.308425135158f, 0.0158543252284f, -0.000325938585942f, 3.5297971343e-6f});
  ptx::Pred odd = (quarter & 1u) != 0u;
  ptx::F32 sin = select(odd, c, s), cos = select(odd, s, c);
  // the signs over the quarters: sin + + - -, cos + - - +
  ptx::U32 sin_sign = (quarter & 2u) << 30, cos_sign = ((quarter + 1u) & 2u) << 30;
  return {bitcast<float>(bitcast<uint32_t>(sin) ^ sin_sign), bitcast<float>(bitcast<uint32_t>(cos) ^ cos_sign)};
}

enum Activations : uint32_t {
  act_silu,       // x / (1 + e^-x)
  act_gelu_erf,   // x (1 + erf(x / sqrt(2))) / 2
  act_gelu_tanh,  // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
  act_relu_squared,
  act_clamped_swiglu,  // x sigmoid(1.702 x) with x up to 7; as a gate times 1 + up, which is between -7 and 7
  act_xielu,           // x (positive x + beta) above 0, else negative (e^min(x, epsilon) - 1 - x) + beta x
  act_sigmoid,         // 1 / (1 + e^-x)
};
inline Allowed activations() {
  return named({"silu", "gelu_erf", "gelu_tanh", "relu_squared", "clamped_swiglu", "xielu", "sigmoid"});
}

// All but xielu, which has parameters.
inline ptx::F32 activate(uint32_t which, ptx::F32 x) {
  if (which == act_gelu_erf) return x * normal_below(x);
  if (which == act_silu) return x * sigmoid(x);
  if (which == act_sigmoid) return sigmoid(x);
  if (which == act_relu_squared) return select(!(x < 0.0f), x, 0.0f) * x;  // NaN stays NaN
  if (which == act_clamped_swiglu) {
    x = select(!(x > 7.0f), x, 7.0f);
    return x * sigmoid(x * 1.702f);
  }
  // (1 + tanh(u)) / 2 = sigmoid(2 u), which does not cancel for negative u
  constexpr float two_root = 1.5957691216f, cubic = two_root * 0.044715f;
  return x * sigmoid(x * fma(x * x, cubic, two_root));
}

// e^x - 1 for x up to 0, relative error below 1.2e-6: 2 t / (1 - t) with t = tanh(x / 2), where nothing cancels.
inline ptx::F32 exp_minus_one(ptx::F32 x) {
  ptx::F32 t = tanh(x * 0.5f);
  return t * 2.0f * rcp_approx(1.0f - t);
}

// The same for a kernel whose arguments have the parameters of xielu.
template <class Args>
ptx::F32 activate(ptx::Builder<Args>& k, uint32_t which, ptx::F32 x) {
  if (which != act_xielu) return activate(which, x);
  ptx::F32 beta = k.arg(&Args::xielu_beta);
  ptx::F32 above = x * fma(x, k.arg(&Args::xielu_positive), beta);
  ptx::F32 bent = exp_minus_one(min(x, k.arg(&Args::xielu_epsilon))) - x;
  return select(x > 0.0f, above, fma(bent, k.arg(&Args::xielu_negative), x * beta));
}

// activation(gate) * up.
template <class Args>
ptx::F32 gate_with(ptx::Builder<Args>& k, uint32_t which, ptx::F32 gate, ptx::F32 up) {
  if (which != act_clamped_swiglu) return activate(k, which, gate) * up;
  ptx::F32 below = select(!(up > 7.0f), up, 7.0f), clamped = select(!(below < -7.0f), below, -7.0f);
  return activate(which, gate) * (clamped + 1.0f);
}

}  // namespace heddle::kernels
