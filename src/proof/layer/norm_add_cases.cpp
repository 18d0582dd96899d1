// Cases of norm_add.
#include "kernels/layer/norm_add.h"
#include "proof/layer/layer_cases.h"

namespace heddle::proof {
namespace {

using kernels::NormAdd;

// mean: of the values of y; their spread is 1, or 0 in the second row.
Case norm_add(NormAdd spec, uint32_t rows, uint32_t cols, float mean = 0, float scale = 1) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> h = random.normals(size_t(rows) * cols), w = random.normals(cols),
                             b = random.normals(cols);
    std::vector<float> y = random.normals(h.size());
    for (size_t i = 0; i < y.size(); ++i) y[i] = (i / cols == 1 ? 0 : y[i]) + mean;
    const float epsilon = 1e-5f;
    const NormAdd::Args args{.h = m.put(h),
                             .y = m.put(y),
                             .weight = spec.norm ? m.put(w) : ptx::DevicePtr<float>{},
                             .bias = spec.bias ? m.put(b) : ptx::DevicePtr<float>{},
                             .rows = rows,
                             .cols = cols,
                             .scale = scale,
                             .epsilon = epsilon};
    m.launch(spec, args);
    std::vector<double> want, sizes;
    for (uint32_t r = 0; r < rows; ++r) {
      const float* row = y.data() + size_t(r) * cols;
      double middle = 0, squares = 0;
      if (spec.norm == kernels::norm_layer)
        for (uint32_t c = 0; c < cols; ++c) middle += double(row[c]) / cols;
      for (uint32_t c = 0; c < cols; ++c) squares += (row[c] - middle) * (row[c] - middle);
      const double factor = 1 / std::sqrt(squares / cols + double(epsilon));
      // a value close to the mean has the error of the mean
      const double close = spec.norm == kernels::norm_layer ? std::sqrt(squares / cols) + std::abs(mean) * 0x1p-20 : 0;
      for (uint32_t c = 0; c < cols; ++c) {
        const double add = spec.bias ? b[c] : 0.0, before = h[size_t(r) * cols + c];
        const double of_norm = spec.norm ? factor * w[c] : 1.0;
        want.push_back(before + scale * ((row[c] - middle) * of_norm + add));
        sizes.push_back(std::abs(before) +
                        scale * ((std::abs(row[c] - middle) + close) * std::abs(of_norm) + std::abs(add)));
      }
    }
    // half the sum's error, then part, epsilon, the root, products and sums
    const double additions = std::ceil(double(cols) / spec.threads) + 5 + spec.threads / 32.0;
    check.near("h", m.get(args.h, h.size()), want, sizes, (additions / 2 + 10) * 0x1p-24);
  };
  return {"norm_add", fmt::format("{} rows={} cols={} mean={} scale={}", field_text(spec), rows, cols, mean, scale),
          target_of(spec), run};
}

}  // namespace

void add_norm_add_cases(Sweep sweep, std::vector<Case>& cases) {
  using kernels::norm_layer, kernels::norm_none, kernels::norm_rms;
  cases.push_back(norm_add({}, 3, 1000));
  if (sweep == Sweep::quick) return;
  for (uint32_t norm : {norm_none, norm_rms, norm_layer})
    for (uint32_t bias : {0u, 1u}) {
      for (uint32_t cols : {1u, 63u, 129u})
        cases.push_back(norm_add({.threads = 64, .norm = norm, .bias = bias}, 5, cols, 0, 0.3f));
      cases.push_back(norm_add({.threads = 1024, .norm = norm, .bias = bias, .chained = 1}, 2, 2050, 2, 1.5f));
      cases.push_back(norm_add({.threads = 32, .norm = norm, .bias = bias}, 0, 64));
    }
  for (float mean : {100.0f, -1e6f}) cases.push_back(norm_add({.norm = norm_layer}, 2, 2048, mean));
  if (sweep == Sweep::normal) return;
  for (uint32_t norm : {norm_none, norm_rms, norm_layer})
    cases.push_back(norm_add({.norm = norm, .bias = 1, .chained = 1}, 3000, 5120, 3));
}

}  // namespace heddle::proof
