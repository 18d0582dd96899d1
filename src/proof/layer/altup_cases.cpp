// Cases of altup.
#include <array>

#include "kernels/layer/altup.h"
#include "proof/case.h"

namespace heddle::proof {
namespace {

using kernels::Altup;

// gap: values between two streams.
Case altup(Altup spec, uint32_t rows, uint32_t cols, uint32_t gap = 0) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t streams = spec.streams, others = streams - 1;
    const size_t all = size_t(rows) * cols, stride = all + gap;
    const bool predicts = spec.step == Altup::predict;
    const std::vector<float> x = random.normals(all, 2), side = random.normals(others * stride),
                             before = random.normals(all), weight = random.normals(cols, 0.05f),
                             router = random.normals(size_t(streams) * cols),
                             coefficients = random.normals(streams * streams * (predicts ? streams : 1u));
    const float epsilon = 1e-5f;
    const Altup::Args args{.x = m.put(x),
                           .others = m.put(side),
                           .kept = predicts ? m.poisoned<float>(all) : m.put(before),
                           .weight = m.put(weight),
                           .router = m.put(router),
                           .coefficients = m.put(coefficients),
                           .stream_stride = stride,
                           .rows = rows,
                           .cols = cols,
                           .epsilon = epsilon};
    m.launch(spec, args);
    const double additions = std::ceil(double(cols) / spec.threads) + 5 + spec.threads / 32.0;
    std::vector<double> want_x(all), x_error(all), want_side(side.begin(), side.end()), side_error(side.size());
    std::vector<double> want_kept(all);
    for (size_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * cols;
      double squares = 0;
      for (uint32_t c = 0; c < cols; ++c) squares += double(row[c]) * row[c];
      const double factor = 1 / std::sqrt(squares / cols + double(epsilon));
      // what is routed, and how far it may be off: its sum's roundings, those of the norm, and the tanh
      std::vector<double> routed, routed_error;
      for (uint32_t s = 0; s < streams; ++s) {
        double sum = 0, size = 0;
        for (uint32_t c = 0; c < cols; ++c) {
          const double v = row[c] * factor * weight[c] * router[size_t(s) * cols + c];
          sum += v;
          size += std::abs(v);
        }
        routed.push_back(std::tanh(sum));
        routed_error.push_back(size * (1.5 * additions + 12) * 0x1p-24 + 6e-7 * std::abs(routed.back()));
      }
      auto coefficient = [&](size_t at) {
        double sum = 0, error = 0;
        for (uint32_t s = 0; s < streams; ++s) {
          const double c = coefficients[at * streams + s];
          sum += routed[s] * c;
          error += routed_error[s] * std::abs(c) + std::abs(routed[s] * c) * (streams + 1) * 0x1p-24;
        }
        return std::array{sum, error};
      };
      std::vector<std::array<double, 2>> c;
      for (size_t i = 0; i < (predicts ? streams * streams : streams); ++i) c.push_back(coefficient(i));
      for (size_t i = r * cols; i < (r + 1) * cols; ++i) {
        std::vector<double> was{x[i]};
        for (uint32_t s = 0; s < others; ++s) was.push_back(side[s * stride + i]);
        for (uint32_t s = 0; s < streams; ++s) {
          double value = was[s], error = 0, size = std::abs(was[s]);
          if (predicts) {
            for (uint32_t j = 0; j < streams; ++j) {
              const auto [by, off] = c[s * streams + j];
              value += by * was[j];
              size += std::abs(by * was[j]);
              error += off * std::abs(was[j]);
            }
          } else {
            const double change = double(x[i]) - before[i], start = s ? was[s] : before[i];
            value = start + (1 + c[s][0]) * change;
            size = std::abs(start) + (1 + std::abs(c[s][0])) * std::abs(change) * 3;
            error = c[s][1] * std::abs(change);
          }
          error += size * (streams + 2) * 0x1p-24;
          (s ? want_side[(s - 1) * stride + i] : want_x[i]) = value;
          (s ? side_error[(s - 1) * stride + i] : x_error[i]) = error;
          if (s == 0) want_kept[i] = predicts ? value : before[i];
        }
      }
    }
    check.near("x", m.get(args.x, all), want_x, x_error, 1);
    check.near("others", m.get(args.others, side.size()), want_side, side_error, 1);
    check.near("kept", m.get(args.kept, all), want_kept, predicts ? x_error : std::vector<double>(all), 1);
  };
  return {"altup", fmt::format("{} rows={} cols={} gap={}", field_text(spec), rows, cols, gap), target_of(spec), run};
}

}  // namespace

void add_altup_cases(Sweep sweep, std::vector<Case>& cases) {
  for (uint32_t step : {Altup::predict, Altup::correct}) {
    cases.push_back(altup({.step = step}, 2, 1000));
    if (sweep == Sweep::quick) continue;
    for (uint32_t streams : {2u, 3u, 4u, 16u})
      cases.push_back(altup({.threads = 64, .step = step, .streams = streams, .chained = streams % 2}, 3, 129, 5));
    for (uint32_t cols : {1u, 31u, 65u}) cases.push_back(altup({.threads = 32, .step = step}, 2, cols, 1));
    cases.push_back(altup({.step = step}, 0, 64));
    if (sweep == Sweep::full) cases.push_back(altup({.step = step, .chained = 1}, 2000, 2048));
  }
}

}  // namespace heddle::proof
