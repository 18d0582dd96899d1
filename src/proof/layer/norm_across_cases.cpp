// Cases of rank_squares and norm_across, each by itself; ranks that use both are tests of tests/gpu/rank_sums_test.cpp.
#include "kernels/layer/norm_across.h"
#include "proof/case.h"

namespace heddle::proof {
namespace {

using kernels::NormAcross;
using kernels::RankSquares;

double silu_of(double x) { return x / (1 + std::exp(-x)); }

Case rank_squares(RankSquares spec, uint32_t rows, uint32_t cols, uint32_t places, uint32_t place) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t x_stride = cols + 3, gate_stride = cols + 1, sums_stride = places + 2;
    const std::vector<float> x = random.normals(size_t(rows) * x_stride),
                             gate = random.normals(size_t(rows) * gate_stride, 2);
    const RankSquares::Args args{.x = m.put(x),
                                 .gate = spec.gated ? m.put(gate) : ptx::DevicePtr<float>{},
                                 .sums = m.poisoned<float>(size_t(rows) * sums_stride),
                                 .rows = rows,
                                 .cols = cols,
                                 .x_stride = x_stride,
                                 .gate_stride = gate_stride,
                                 .sums_stride = sums_stride,
                                 .places = places,
                                 .place = place};
    m.launch(spec, args);
    const std::vector<float> got = m.get(args.sums, size_t(rows) * sums_stride);
    std::vector<float> inside;
    std::vector<double> want;
    for (uint32_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (uint32_t i = 0; i < cols; ++i) {
        const double v = x[size_t(r) * x_stride + i] * (spec.gated ? silu_of(gate[size_t(r) * gate_stride + i]) : 1.0);
        sum += v * v;
      }
      for (uint32_t i = 0; i < places; ++i) {
        inside.push_back(got[size_t(r) * sums_stride + i]);
        want.push_back(i == place ? sum : 0);
      }
    }
    check.near_relative("sums", inside, want, (cols / double(spec.threads) + 40) * 0x1p-24);
  };
  return {"rank_squares", fmt::format("{} rows={} cols={} place={} of {}", field_text(spec), rows, cols, place, places),
          target_of(spec), run};
}

Case norm_across(NormAcross spec, uint32_t rows, uint32_t cols, uint32_t count) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t x_stride = cols + 3, gate_stride = cols + 1, sums_stride = 3;
    const std::vector<float> x = random.normals(size_t(rows) * x_stride),
                             gate = random.normals(size_t(rows) * gate_stride, 2), weight = random.normals(cols);
    std::vector<float> sums = random.normals(size_t(rows) * sums_stride);
    for (float& sum : sums) sum = sum * sum * float(count);
    const NormAcross::Args args{.x = m.put(x),
                                .gate = spec.gate ? m.put(gate) : ptx::DevicePtr<float>{},
                                .weight = m.put(weight),
                                .sums = m.put(sums),
                                .rows = rows,
                                .cols = cols,
                                .x_stride = x_stride,
                                .gate_stride = gate_stride,
                                .sums_stride = sums_stride,
                                .count = count,
                                .epsilon = 1e-5f};
    m.launch(spec, args);
    std::vector<double> want(x.begin(), x.end());  // what lies between rows stays
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t i = 0; i < cols; ++i)
        want[size_t(r) * x_stride + i] *= weight[i] /
                                          std::sqrt(double(sums[size_t(r) * sums_stride]) / count + double(1e-5f)) *
                                          (spec.gate ? silu_of(gate[size_t(r) * gate_stride + i]) : 1.0);
    check.near_relative("x", m.get(args.x, x.size()), want, 40 * 0x1p-24);
  };
  return {"norm_across", fmt::format("{} rows={} cols={} count={}", field_text(spec), rows, cols, count),
          target_of(spec), run};
}

}  // namespace

void add_norm_across_cases(Sweep sweep, std::vector<Case>& cases) {
  for (uint32_t gated : {0u, 1u}) {
    cases.push_back(rank_squares({.gated = gated}, 3, 300, 1, 0));
    cases.push_back(rank_squares({.threads = 64, .gated = gated}, 2, 65, 4, 2));
    cases.push_back(rank_squares({.threads = 32, .gated = gated}, 5, 1, 40, 40));
  }
  for (uint32_t gate : {NormAcross::none, NormAcross::first, NormAcross::last}) {
    cases.push_back(norm_across({.gate = gate}, 3, 300, 1200));
    cases.push_back(norm_across({.threads = 32, .gate = gate}, 2, 33, 33));
  }
  if (sweep == Sweep::quick) return;
  cases.push_back(rank_squares({}, 0, 7, 1, 0));
  cases.push_back(norm_across({}, 0, 7, 7));
  if (sweep == Sweep::normal) return;
  for (uint32_t cols : {1u, 31u, 2048u, 8191u}) {
    cases.push_back(rank_squares({.threads = 1024, .gated = cols % 2}, 17, cols, 2, 1));
    cases.push_back(norm_across({.threads = 1024, .gate = cols % 3}, 17, cols, cols * 8));
  }
}

}  // namespace heddle::proof
