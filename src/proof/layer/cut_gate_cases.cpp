// Cases of cut_gate.
#include <numbers>

#include "kernels/layer/cut_gate.h"
#include "proof/case.h"

namespace heddle::proof {
namespace {

using kernels::CutGate;

double activated_above_0(uint32_t act, double x) {
  if (act == kernels::act_silu) return x / (1 + std::exp(-x));
  if (act == kernels::act_relu_squared) return x * x;
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));  // the same as x (1 + tanh(u)) / 2
}

// The second row has one value, and so no deviation. mean: of the values. in_place: y is the gate.
Case cut_gate(CutGate spec, uint32_t rows, uint32_t cols, float cutoff, float mean = 0, bool in_place = false) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t stride = 2 * cols + 3;  // gate and up are parts of one row
    std::vector<float> x = random.normals(size_t(rows) * stride, 2);
    for (size_t i = 0; i < x.size(); ++i)
      if (i % stride < cols) x[i] = (i / stride == 1 ? 0.5f : x[i]) + mean;
    const auto gate = m.put(x);
    const uint32_t y_stride = in_place ? stride : cols + 1;
    const CutGate::Args args{.y = in_place ? gate : m.put(std::vector<float>(size_t(rows) * y_stride, -3.0f)),
                             .gate = gate,
                             .up = {gate.address + cols * sizeof(float)},
                             .rows = rows,
                             .cols = cols,
                             .y_stride = y_stride,
                             .in_stride = stride,
                             .cutoff = cutoff};
    m.launch(spec, args);
    const std::vector<float> all = m.get(args.y, size_t(rows) * y_stride);
    std::vector<float> got;
    std::vector<double> want, sizes;
    for (size_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * stride;
      double middle = 0, squares = 0;
      for (uint32_t c = 0; c < cols; ++c) middle += double(row[c]) / cols;
      for (uint32_t c = 0; c < cols; ++c) squares += (row[c] - middle) * (row[c] - middle);
      const double deviation = std::sqrt(squares / cols), from = middle + double(cutoff) * deviation;
      // The sums' errors move what is cut off, and the value is as far off as that. No value is so near to the cutoff
      // that it matters whether it is above: the function is continuous.
      const double additions = std::ceil(double(cols) / spec.threads) + 5 + spec.threads / 32.0;
      const double moved =
          ((additions + 6) * deviation * (1 + std::abs(double(cutoff))) + 4 * std::abs(middle)) * 0x1p-24;
      for (uint32_t c = 0; c < cols; ++c) {
        const double above = std::max(row[c] - from, 0.0), up = row[cols + c];
        got.push_back(all[r * y_stride + c]);
        want.push_back(activated_above_0(spec.act, above) * up);
        const double slope = spec.act == kernels::act_relu_squared ? 2 * above + 1e-3 : 1.2;
        sizes.push_back((slope * moved + 1e-6 * activated_above_0(spec.act, above)) * std::abs(up));
      }
    }
    check.near("y", got, want, sizes, 1);
  };
  return {"cut_gate",
          fmt::format("{} rows={} cols={} cutoff={} mean={} in_place={}", field_text(spec), rows, cols, cutoff, mean,
                      in_place),
          target_of(spec), run};
}

}  // namespace

void add_cut_gate_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(cut_gate({}, 3, 1000, 1.6448f));
  if (sweep == Sweep::quick) return;
  for (uint32_t act : {kernels::act_silu, kernels::act_gelu_tanh, kernels::act_relu_squared})
    for (float cutoff : {-0.7f, 0.0f, 1.6448f})
      cases.push_back(cut_gate({.threads = 64, .act = act}, 3, 257, cutoff, 0, act == kernels::act_silu));
  for (uint32_t cols : {1u, 31u, 33u}) cases.push_back(cut_gate({.threads = 32}, 4, cols, 0.5f, 0, true));
  for (float mean : {100.0f, -1000.0f}) cases.push_back(cut_gate({.chained = 1}, 2, 2048, 1, mean));
  cases.push_back(cut_gate({}, 0, 64, 1));
  if (sweep == Sweep::full) cases.push_back(cut_gate({.chained = 1}, 500, 16384, 1.6448f));
}

}  // namespace heddle::proof
