// Cases of rms_norm, layer_norm, norm_add, norm_sum and match_length, and the timing of the first two.
#include "kernels/layer/norm.h"
#include "proof/bench.h"

namespace heddle::proof {

namespace {

using kernels::LayerNorm;
using kernels::RmsNorm;

// Additions on the way of one value into a block's sum: those of its thread, 5 in the warp, then the warps.
template <class Spec>
double additions(const Spec& spec, uint32_t cols) {
  return std::ceil(double(cols) / spec.threads) + 5 + spec.threads / 32.0;
}

Case rms_norm(RmsNorm spec, uint32_t rows, uint32_t cols) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    std::vector<float> x = random.normals(size_t(rows) * cols), w = random.normals(cols);
    for (uint32_t r = 0; r < rows; ++r) {
      const float size = r == 1 ? 0.0f : std::ldexp(1.0f, int(random.below(20)) - 10);  // a row of zeros too
      for (uint32_t c = 0; c < cols; ++c) x[size_t(r) * cols + c] *= size;
    }
    const RmsNorm::Args args{
        .y = m.poisoned<float>(x.size()), .x = m.put(x), .w = m.put(w), .rows = rows, .cols = cols, .eps = 1e-5f};
    m.launch(spec, args);
    std::vector<double> want, scales;
    for (uint32_t r = 0; r < rows; ++r) {
      const float* row = x.data() + size_t(r) * cols;
      double squares = 0;
      for (uint32_t c = 0; c < cols; ++c) squares += double(row[c]) * row[c];
      const double scale = 1 / std::sqrt(squares / cols + double(1e-5f));
      for (uint32_t c = 0; c < cols; ++c) {
        want.push_back(row[c] * scale * (w[c] + double(spec.plus_one)));
        scales.push_back(std::abs(row[c] * scale) * (std::abs(w[c]) + spec.plus_one));  // 1 + w may cancel
      }
    }
    // half the sum's error, then the division, eps, the root, 1 + w and two products
    check.near("y", m.get(args.y, x.size()), want, scales, (additions(spec, cols) / 2 + 9) * 0x1p-24);
    check.that(rows == 0 || cols > 0, "a row has columns");
  };
  return {"rms_norm", fmt::format("{} rows={} cols={}", field_text(spec), rows, cols), target_of(spec), run};
}

// mean: of the values; their spread is 1, or 0 in the second row.
Case layer_norm(LayerNorm spec, uint32_t rows, uint32_t cols, float mean = 0) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    std::vector<float> x = random.normals(size_t(rows) * cols);
    for (size_t i = 0; i < x.size(); ++i) x[i] = (i / cols == 1 ? 0 : x[i]) + mean;
    const std::vector<float> w = random.normals(cols), b = random.normals(cols);
    const float eps = 1e-5f;
    const LayerNorm::Args args{.y = m.poisoned<float>(x.size()),
                               .x = m.put(x),
                               .w = m.put(w),
                               .b = m.put(b),
                               .rows = rows,
                               .cols = cols,
                               .eps = eps};
    m.launch(spec, args);
    std::vector<double> want, scales;
    for (uint32_t r = 0; r < rows; ++r) {
      const float* row = x.data() + size_t(r) * cols;
      double sum = 0, squares = 0;
      for (uint32_t c = 0; c < cols; ++c) sum += row[c];
      const double middle = sum / cols;
      for (uint32_t c = 0; c < cols; ++c) squares += (row[c] - middle) * (row[c] - middle);
      const double scale = 1 / std::sqrt(squares / cols + double(eps)), spread = std::sqrt(squares / cols);
      // a value as close to the mean as the first mean was off has that difference's rounding error, not its own
      const double step = std::abs(mean) * 0x1p-20;
      for (uint32_t c = 0; c < cols; ++c) {
        const double add = spec.bias ? b[c] : 0.0;
        want.push_back((row[c] - middle) * scale * w[c] + add);
        scales.push_back((std::abs(row[c] - middle) + spread + step) * scale * std::abs(w[c]) + std::abs(add));
      }
    }
    check.near("y", m.get(args.y, x.size()), want, scales, (additions(spec, cols) / 2 + 9) * 0x1p-24);
    check.that(rows == 0 || cols > 0, "a row has columns");
  };
  return {"layer_norm", fmt::format("{} rows={} cols={} mean={}", field_text(spec), rows, cols, mean), target_of(spec),
          run};
}

using kernels::NormAdd;

// mean: of the values of y; their spread is 1, or 0 in the second row.
Case norm_add(NormAdd spec, uint32_t rows, uint32_t cols, float mean = 0, float scale = 1) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> h = random.normals(size_t(rows) * cols), w = random.normals(cols),
                             b = random.normals(cols);
    std::vector<float> y = random.normals(h.size());
    for (size_t i = 0; i < y.size(); ++i) y[i] = (i / cols == 1 ? 0 : y[i]) + mean;
    const std::vector<float> also = random.normals(h.size());
    const float epsilon = 1e-5f, after = 0.7f;
    const NormAdd::Args args{.h = m.put(h),
                             .y = m.put(y),
                             .weight = spec.norm ? m.put(w) : ptx::DevicePtr<float>{},
                             .bias = spec.bias ? m.put(b) : ptx::DevicePtr<float>{},
                             .rows = rows,
                             .cols = cols,
                             .scale = scale,
                             .epsilon = epsilon,
                             .also = spec.also ? m.put(also) : ptx::DevicePtr<float>{},
                             .after = after};
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
        const double of_norm = spec.norm ? factor * w[c] : 1.0, more = spec.also ? also[size_t(r) * cols + c] : 0.0;
        const double times = spec.after ? after : 1.0;
        want.push_back((before + scale * ((row[c] - middle) * of_norm + add) + more) * times);
        sizes.push_back((std::abs(before) + std::abs(more) +
                         scale * ((std::abs(row[c] - middle) + close) * std::abs(of_norm) + std::abs(add))) *
                        times);
      }
    }
    // half the sum's error, then part, epsilon, the root, products and sums
    const double additions = std::ceil(double(cols) / spec.threads) + 5 + spec.threads / 32.0;
    check.near("h", m.get(args.h, h.size()), want, sizes, (additions / 2 + 12) * 0x1p-24);
  };
  return {"norm_add", fmt::format("{} rows={} cols={} mean={} scale={}", field_text(spec), rows, cols, mean, scale),
          target_of(spec), run};
}

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
  for (uint32_t norm : {norm_none, norm_rms})
    for (uint32_t also : {0u, 1u})
      for (uint32_t after : {0u, 1u})
        if (also || after)
          cases.push_back(norm_add({.norm = norm, .also = also, .after = after, .chained = also}, 3, 321, 0, 0.3f));
  if (sweep == Sweep::normal) return;
  for (uint32_t norm : {norm_none, norm_rms, norm_layer})
    cases.push_back(norm_add({.norm = norm, .bias = 1, .chained = 1}, 3000, 5120, 3));
}

using kernels::NormSum;

// The second row of b is zeros.
Case norm_sum(NormSum spec, uint32_t rows, uint32_t cols, float scale) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> h = random.normals(size_t(rows) * cols), a = random.normals(h.size(), 5),
                             a_weight = random.normals(cols), b_weight = random.normals(cols),
                             weight = random.normals(cols);
    std::vector<float> b = random.normals(h.size(), 0.1f);
    for (size_t i = 0; i < b.size(); ++i)
      if (i / cols == 1) b[i] = 0;
    const float after = 0.7f;
    const NormSum::Args args{.h = m.put(h),
                             .a = m.put(a),
                             .b = m.put(b),
                             .a_weight = m.put(a_weight),
                             .b_weight = m.put(b_weight),
                             .weight = m.put(weight),
                             .rows = rows,
                             .cols = cols,
                             .a_epsilon = 1e-5f,
                             .b_epsilon = 1e-4f,
                             .epsilon = 1e-3f,
                             .scale = scale,
                             .after = after};
    m.launch(spec, args);
    auto factor = [&](auto&& value, double epsilon) {
      double squares = 0;
      for (uint32_t c = 0; c < cols; ++c) squares += value(c) * value(c);
      return 1 / std::sqrt(squares / cols + epsilon);
    };
    std::vector<double> want, sizes;
    for (size_t r = 0; r < rows; ++r) {
      const float *of_a = a.data() + r * cols, *of_b = b.data() + r * cols;
      const double a_factor = factor([&](uint32_t c) { return double(of_a[c]); }, double(1e-5f));
      const double b_factor = factor([&](uint32_t c) { return double(of_b[c]); }, double(1e-4f));
      auto first = [&](uint32_t c) { return of_a[c] * a_factor * a_weight[c]; };
      auto second = [&](uint32_t c) { return of_b[c] * b_factor * b_weight[c]; };
      const double both = factor([&](uint32_t c) { return first(c) + second(c); }, double(1e-3f));
      const double times = spec.after ? after : 1.0;
      for (uint32_t c = 0; c < cols; ++c) {
        const double before = h[r * cols + c], by = both * weight[c] * scale;
        want.push_back((before + (first(c) + second(c)) * by) * times);
        sizes.push_back((std::abs(before) + (std::abs(first(c)) + std::abs(second(c))) * std::abs(by)) * times);
      }
    }
    // of two sums after one another half the error each, with part, epsilon, root and products
    check.near("h", m.get(args.h, h.size()), want, sizes, (additions(spec, cols) + 24) * 0x1p-24);
  };
  return {"norm_sum", fmt::format("{} rows={} cols={} scale={}", field_text(spec), rows, cols, scale), target_of(spec),
          run};
}

void add_norm_sum_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(norm_sum({}, 3, 1000, 1));
  if (sweep == Sweep::quick) return;
  for (uint32_t cols : {1u, 63u, 129u}) cases.push_back(norm_sum({.threads = 64, .after = cols % 2}, 4, cols, 0.3f));
  cases.push_back(norm_sum({.threads = 1024, .after = 1, .chained = 1}, 3, 2816, 1));
  cases.push_back(norm_sum({}, 0, 64, 1));
  if (sweep == Sweep::full) cases.push_back(norm_sum({.after = 1, .chained = 1}, 3000, 2816, 1));
}

using kernels::MatchLength;

// The second row of p is so short that `least` counts, and the third of x is zeros. in_place: y is p.
Case match_length(MatchLength spec, uint32_t rows, uint32_t cols, bool in_place) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    std::vector<float> p = random.normals(size_t(rows) * cols, 3), x = random.normals(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      if (i / cols == 1) p[i] *= 1e-5f;
      if (i / cols == 2) x[i] = 0;
    }
    const auto at = m.put(p);
    const MatchLength::Args args{.y = in_place ? at : m.poisoned<float>(p.size()),
                                 .p = at,
                                 .x = m.put(x),
                                 .rows = rows,
                                 .cols = cols,
                                 .least = 1e-5f};
    m.launch(spec, args);
    std::vector<double> want;
    for (size_t r = 0; r < rows; ++r) {
      double own = 0, wanted = 0;
      for (size_t i = r * cols; i < (r + 1) * cols; ++i) {
        own += double(p[i]) * p[i];
        wanted += double(x[i]) * x[i];
      }
      const double factor = std::sqrt(wanted / std::max(own, double(1e-5f) * cols));
      for (size_t i = r * cols; i < (r + 1) * cols; ++i) want.push_back(p[i] * factor);
    }
    // half the error of two sums, then the product with cols, the division, the root and the product
    check.near_relative("y", m.get(args.y, p.size()), want, (additions(spec, cols) + 5) * 0x1p-24);
  };
  return {"match_length", fmt::format("{} rows={} cols={} in_place={}", field_text(spec), rows, cols, in_place),
          target_of(spec), run};
}

void add_match_length_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(match_length({}, 4, 1000, false));
  if (sweep == Sweep::quick) return;
  for (uint32_t cols : {1u, 63u, 129u}) cases.push_back(match_length({.threads = 64}, 5, cols, true));
  cases.push_back(match_length({.threads = 1024, .chained = 1}, 3, 2050, false));
  cases.push_back(match_length({}, 0, 64, false));
  if (sweep == Sweep::full) cases.push_back(match_length({.chained = 1}, 3000, 5120, true));
}

}  // namespace

void add_norm_cases(Sweep sweep, std::vector<Case>& cases) {
  add_norm_add_cases(sweep, cases);
  add_norm_sum_cases(sweep, cases);
  add_match_length_cases(sweep, cases);
  cases.push_back(rms_norm({.threads = 256, .vec = 4}, 3, 4096));
  cases.push_back(layer_norm({.threads = 256, .vec = 4}, 3, 1024, 1));
  if (sweep == Sweep::quick) return;
  for (uint32_t cols : {1u, 63u, 129u, 4097u}) {
    cases.push_back(rms_norm({.threads = 128}, 5, cols));
    cases.push_back(layer_norm({.threads = 128}, 5, cols));
  }
  cases.push_back(rms_norm({.plus_one = 1}, 2, 1000));
  cases.push_back(rms_norm({.threads = 1024, .vec = 2, .chained = 1}, 4, 2050));
  cases.push_back(rms_norm({.threads = 32, .vec = 4}, 0, 64));
  cases.push_back(layer_norm({.threads = 32, .vec = 2, .bias = 0, .chained = 1}, 3, 1026));
  for (float mean : {100.0f, 1e4f, -1e6f}) cases.push_back(layer_norm({.vec = 4}, 2, 2048, mean));
  cases.push_back(layer_norm({.threads = 32}, 0, 64));
  if (sweep == Sweep::normal) return;
  cases.push_back(rms_norm({.vec = 4}, 700, 8192));
  cases.push_back(layer_norm({.vec = 4}, 700, 8192, 30));
}

void add_norm_benches(std::vector<Bench>& all) {
  for (uint32_t rows : {1u, 512u}) {
    const double n = double(rows) * 4096;
    const std::string shape = fmt::format("{} x 4096", rows);
    all.push_back(float_bench(
        "rms_norm", shape, RmsNorm{.threads = 512, .vec = 4, .chained = 1}, size_t(n), n * 8, n * 4,
        [=](Machine& m, Random& random) {
          return RmsNorm::Args{.y = m.poisoned<float>(size_t(n)),
                               .x = {},
                               .w = m.put(random.normals(4096)),
                               .rows = rows,
                               .cols = 4096,
                               .eps = 1e-5f};
        },
        [](RmsNorm::Args& a, ptx::DevicePtr<float> x) { a.x = x; }));
    all.push_back(float_bench(
        "layer_norm", shape, LayerNorm{.threads = 512, .chained = 1}, size_t(n), n * 8, n * 8,
        [=](Machine& m, Random& random) {
          return LayerNorm::Args{.y = m.poisoned<float>(size_t(n)),
                                 .x = {},
                                 .w = m.put(random.normals(4096)),
                                 .b = m.put(random.normals(4096)),
                                 .rows = rows,
                                 .cols = 4096,
                                 .eps = 1e-5f};
        },
        [](LayerNorm::Args& a, ptx::DevicePtr<float> x) { a.x = x; }));
  }
}

}  // namespace heddle::proof
