// Cases of the activations and gates.
#include <numbers>

#include "kernels/layer/gate.h"
#include "proof/layer/layer_cases.h"

namespace heddle::proof {
namespace {

using kernels::Gate;

double root_2_over_pi() { return std::sqrt(2 / std::numbers::pi); }

double activate(uint32_t act, double x) {
  if (act == Gate::silu) return x / (1 + std::exp(-x));
  if (act == Gate::gelu_erf) return x * std::erfc(-x * std::sqrt(0.5)) / 2;
  const double u = root_2_over_pi() * (x + 0.044715 * x * x * x);
  return u < -300 ? 0 : x / (1 + std::exp(-2 * u));  // the same as x (1 + tanh(u)) / 2
}

// fused: gate and up are the halves of one row.
Case gate(Gate spec, uint32_t rows, uint32_t cols, bool fused) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t stride = fused ? 2 * cols : cols + spec.vec;
    std::vector<float> x = random.normals(size_t(rows) * stride, 3);
    for (uint32_t r = 0; r < rows; ++r)  // far out too
      for (uint32_t c = 0; c < cols; c += 3) x[size_t(r) * stride + c] *= 10;
    if (!x.empty()) x[0] = 0;
    if (x.size() > 1) x[1] = 88.9f;
    const std::vector<float> other = random.normals(size_t(rows) * stride);
    auto in = m.put(x);
    auto up = fused ? ptx::DevicePtr<float>{in.address + cols * sizeof(float)} : m.put(other);
    const bool narrow = spec.out == Gate::out_bf16;
    auto y = narrow ? ptx::DevicePtr<float>{} : m.poisoned<float>(size_t(rows) * cols);
    auto y_narrow = narrow ? m.poisoned<bf16>(size_t(rows) * cols) : ptx::DevicePtr<bf16>{};
    m.launch(spec, Gate::Args{.y = y,
                              .gate = in,
                              .up = spec.times_up ? up : ptx::DevicePtr<float>{},
                              .rows = rows,
                              .cols = cols,
                              .y_stride = cols,
                              .gate_stride = stride,
                              .up_stride = stride,
                              .narrow = y_narrow});
    std::vector<double> want, scale;
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < cols; ++c) {
        const double factor = !spec.times_up ? 1 : fused ? x[r * stride + cols + c] : other[r * stride + c];
        const double v = x[r * stride + c];
        want.push_back(activate(spec.act, v) * factor);
        // relative until the result is about to vanish. With tanh the exponent 2 u has three roundings (2e-7), and
        // e^2u has them |2 u| times
        const double two_u = 2 * root_2_over_pi() * v * (1 + 0.044715 * v * v);
        const double more = spec.act == Gate::gelu_tanh && v < 0 ? -two_u * 2e-7 / 8e-7 : 0;
        scale.push_back(std::abs(want.back()) * (1 + more) + 1e-30 * std::abs(factor));
      }
    // the exponential to 4e-7, the reciprocal and three roundings; with erf the tail's parts too
    const double bound = (spec.act == Gate::gelu_erf ? 2e-6 : 8e-7) + (narrow ? 0x1p-8 : 0);
    std::vector<float> got = m.get(y, narrow ? 0 : want.size());
    if (narrow)
      for (bf16 v : m.get(y_narrow, want.size())) got.push_back(to_f32(v));
    check.near("y", got, want, scale, bound);
    check.that(want.size() == size_t(rows) * cols, "all values");
  };
  const char* name = spec.act == Gate::silu ? (spec.times_up ? "silu_gate" : "silu")
                     : spec.times_up        ? "gelu_gate"
                                            : "gelu";
  return {name, fmt::format("{} rows={} cols={} fused={}", field_text(spec), rows, cols, fused),
          spec.out == Gate::out_bf16 && !spec.chained ? "sm_80" : target_of(spec), run};
}

}  // namespace

void add_gate_cases(Sweep sweep, std::vector<Case>& cases) {
  for (uint32_t act : {Gate::silu, Gate::gelu_erf, Gate::gelu_tanh})
    for (uint32_t times_up : {0u, 1u}) {
      cases.push_back(gate({.vec = 4, .act = act, .times_up = times_up}, 2, 516, true));
      if (sweep == Sweep::quick) continue;
      cases.push_back(gate({.threads = 64, .act = act, .times_up = times_up}, 3, 1001, false));
      cases.push_back(gate({.threads = 64, .vec = 2, .act = act, .times_up = times_up, .chained = 1}, 5, 2, true));
      for (uint32_t vec : {1u, 2u, 4u})
        cases.push_back(
            gate({.vec = vec, .act = act, .times_up = times_up, .out = Gate::out_bf16, .chained = vec / 2 % 2}, 3, 36,
                 vec == 4));
      cases.push_back(gate({.act = act, .times_up = times_up}, 1, 11008, true));
      cases.push_back(gate({.act = act, .times_up = times_up}, 0, 100, true));
      cases.push_back(gate({.act = act, .times_up = times_up}, 3, 0, true));
      if (sweep == Sweep::full) cases.push_back(gate({.vec = 4, .act = act, .times_up = times_up}, 200, 14336, true));
    }
}

}  // namespace heddle::proof
