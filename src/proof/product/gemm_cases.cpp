// Cases of gemm. Whole numbers show every term that is missing or counted twice, because their sums are exact; normal
// numbers show how sums are rounded.
#include "kernels/product/gemm.h"
#include "proof/bench.h"

namespace heddle::proof {

namespace {

using kernels::Gemm;

struct Size {
  uint32_t m, n, k;
};

// `count` rows of `cols` values and zeros up to `stride`; behind the next multiple of 64 lies NaN, which must not be
// read.
std::vector<f16> rows_of(uint32_t count, uint32_t cols, uint32_t stride, auto&& value) {
  std::vector<f16> x(size_t(count) * stride, to_f16(std::numeric_limits<float>::quiet_NaN()));
  for (uint32_t r = 0; r < count; ++r)
    for (uint32_t c = 0; c < (cols + 63) / 64 * 64; ++c) x[size_t(r) * stride + c] = to_f16(c < cols ? value() : 0.0f);
  return x;
}

// More of a row than k, and of y than n, so that strides are not sizes.
Case gemm(const Gemm& spec, const Size& size, bool whole) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const auto [rows, cols, k] = size;
    const uint32_t lda = (k + 63) / 64 * 64 + 64, ldb = lda + 64, y_stride = cols + cols % 2 + 4;
    auto number = [&] { return whole ? float(random.below(17)) - 8.0f : random.normal(); };
    const std::vector<f16> a = rows_of(rows, k, lda, number), b = rows_of(cols, k, ldb, number);
    std::vector<float> scale(rows), bias(cols), y(size_t(rows) * y_stride);
    for (float& s : scale) s = std::ldexp(1.0f, int(random.below(4)));
    for (float& v : bias) v = number();
    for (float& v : y) v = number();
    const Gemm::Args args{.y = m.put(y),
                          .a = m.put(a),
                          .b = m.put(b),
                          .scale = m.put(scale),
                          .bias = m.put(spec.bias ? bias : std::vector<float>{}),
                          .m = rows,
                          .n = cols,
                          .k = k,
                          .lda = lda,
                          .ldb = ldb,
                          .y_stride = y_stride};
    m.launch(spec, args);
    std::vector<double> want(y.begin(), y.end()), sizes(y.size(), 0.0);  // behind n nothing changes
    std::vector<float> left(size_t(rows) * k), right(size_t(cols) * k);
    for (size_t i = 0; i < left.size(); ++i) left[i] = to_f32(a[i / k * lda + i % k]);
    for (size_t i = 0; i < right.size(); ++i) right[i] = to_f32(b[i / k * ldb + i % k]);
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t c = 0; c < cols; ++c) {
        double sum = 0, magnitudes = 0;
        const float *p = &left[size_t(r) * k], *q = &right[size_t(c) * k];
        for (uint32_t i = 0; i < k; ++i) {
          const double product = double(p[i]) * q[i];
          sum += product;
          magnitudes += std::abs(product);
        }
        const size_t at = size_t(r) * y_stride + c;
        const double add = (spec.bias ? bias[c] : 0.0), old = spec.add ? y[at] : 0.0;
        want[at] = sum * scale[r] + add + old;
        sizes[at] = magnitudes * scale[r] + std::abs(add) + std::abs(old);
      }
    const std::vector<float> got = m.get(args.y, y.size());
    if (whole) return check.equal("y", got, std::vector<float>(want.begin(), want.end()));
    // A product of 16 rounds to 17 * 2^-23 of the magnitudes summed so far, half of all on average; then two additions.
    check.near("y", got, want, sizes, 17 * 0x1p-23 * (k / 32.0 + 2));
  };
  return {"gemm",
          fmt::format("{} m={} n={} k={}{}", field_text(spec), size.m, size.n, size.k, whole ? " whole numbers" : ""),
          target_of(spec), run};
}

void add_choices(std::vector<Case>& cases, const std::vector<Size>& sizes, uint32_t sms) {
  for (const Size& size : sizes) cases.push_back(gemm(kernels::gemm_choice(size.m, size.n, size.k, sms), size, true));
}

Bench gemm(uint32_t m, uint32_t n, uint32_t k) {
  kernels::Gemm spec = kernels::gemm_choice(m, n, k, 132);
  spec.chained = 1;
  const double weights = 2.0 * n * k, bytes = weights + 2.0 * m * k + 4.0 * m * n;
  auto prepare = [=](Machine& machine, Random& random) -> Bench::Round {
    const std::vector<f16> one = half_inputs(random, size_t(n) * k);
    std::vector<ptx::DevicePtr<f16>> b;
    for (uint32_t i = 0; i < copies(bytes); ++i) b.push_back(machine.put(one));
    kernels::Gemm::Args args{.y = machine.poisoned<float>(size_t(m) * n),
                             .a = machine.put(half_inputs(random, size_t(m) * k)),
                             .b = {},
                             .scale = machine.put(std::vector<float>(m, 1.0f)),
                             .bias = {},
                             .m = m,
                             .n = n,
                             .k = k,
                             .lda = k,
                             .ldb = k,
                             .y_stride = n};
    return [=](Machine& now, uint32_t r) mutable {
      args.b = b[r % b.size()];
      now.launch(spec, args);
    };
  };
  return {"gemm",          fmt::format("{} x {} -> {}, tiles of {} x {}", m, k, n, spec.rows, spec.cols),
          "sm_90",         bytes,
          2.0 * m * n * k, prepare};
}

}  // namespace

void add_gemm_cases(Sweep sweep, std::vector<Case>& cases) {
  auto add = [&](const Gemm& spec, const Size& size, bool whole = true) { cases.push_back(gemm(spec, size, whole)); };
  const Gemm small{.rows = 32, .cols = 32, .warps_down = 2, .warps_along = 1, .depth = 64, .stages = 3};
  add(small, {33, 35, 100}, false);
  if (sweep == Sweep::quick) return;

  // every place where tiles, stages and steps may end
  for (uint32_t k : {1u, 15u, 16u, 31u, 32u, 33u, 63u, 64u, 65u, 127u, 128u, 192u, 193u, 320u})
    for (uint32_t depth : {32u, 64u})
      for (uint32_t stages : {2u, 3u, 5u}) {
        Gemm spec = small;
        spec.depth = depth;
        spec.stages = stages;
        spec.chained = stages == 3;
        add(spec, {17, 33, k});
      }
  for (uint32_t m : {1u, 2u, 8u, 31u, 32u, 33u, 64u, 65u})
    for (uint32_t n : {1u, 2u, 7u, 32u, 34u, 65u}) {
      Gemm spec = small;
      spec.add = m % 2;
      spec.bias = n % 2;
      add(spec, {m, n, 72});
    }
  for (const Size& none : {Size{0, 40, 64}, Size{40, 0, 64}, Size{0, 0, 1}}) add(small, none);
  // tiles in more than one group of rows: 16 x 128 of them are together
  add({.rows = 16, .cols = 32, .warps_down = 1, .warps_along = 2, .depth = 32, .stages = 2}, {2048 + 17, 65, 32});
  // what gemm_choice may choose, and other ways to deal a tile out to warps
  add({}, {130, 129, 200});
  add({.rows = 128, .cols = 128, .warps_down = 2, .warps_along = 2, .stages = 3, .resident = 2}, {130, 129, 200});
  add({.rows = 128, .cols = 256, .warps_down = 2, .warps_along = 4, .stages = 4, .add = 1, .bias = 1, .chained = 1},
      {129, 261, 260});
  add({.rows = 128, .cols = 256, .warps_down = 2, .warps_along = 4, .depth = 32, .stages = 4}, {100, 300, 96}, false);
  add({.rows = 256, .cols = 128, .warps_down = 4, .warps_along = 2, .depth = 32, .stages = 3}, {257, 100, 96});
  add({.rows = 64, .cols = 256, .warps_down = 1, .warps_along = 4, .stages = 4}, {65, 257, 130});
  add({.rows = 64, .cols = 64, .warps_down = 4, .warps_along = 2, .stages = 4, .resident = 2}, {65, 67, 300}, false);
  add({.rows = 32, .cols = 64, .warps_down = 1, .warps_along = 4, .stages = 8, .resident = 2}, {31, 65, 1000}, false);
  for (uint32_t m : {1u, 16u, 20u, 50u, 100u}) add_choices(cases, {{m, 200, 136}, {m, 70, 700}}, 4);
  if (sweep == Sweep::normal) return;

  for (uint32_t m : {1u, 16u, 33u, 64u, 128u, 200u, 512u, 1000u})
    add_choices(cases, {{m, 4096, 1024}, {m, 1000, 4096}}, 132);
  add_choices(cases, {{2048, 2048, 512}, {300, 28672, 128}, {100, 515, 14336}}, 132);
  add({.rows = 128, .cols = 256, .warps_down = 2, .warps_along = 4, .stages = 4}, {513, 1025, 4096}, false);
}

void add_gemm_benches(std::vector<Bench>& all) {
  for (uint32_t m : {16u, 32u, 64u, 128u, 512u, 2048u})
    for (auto [n, k] : {std::pair{6144u, 4096u}, {4096u, 4096u}, {28672u, 4096u}, {4096u, 14336u}})
      all.push_back(gemm(m, n, k));
}

}  // namespace heddle::proof
