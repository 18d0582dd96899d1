// Cases of half_rows.
#include <algorithm>

#include "kernels/product/activations.h"
#include "proof/bench.h"

namespace heddle::proof {

namespace {

using kernels::HalfRows;

struct Rows {
  uint32_t rows, cols, x_stride, ld;
  float mean = 0;
  uint32_t group = 8;  // with apart
};

// Rows of every size: zeros, ordinary, and with a largest value from far below the smallest half to far above the
// largest.
std::vector<float> make_rows(Random& random, const Rows& s, uint32_t rows, bool squared) {
  std::vector<float> x(size_t(rows) * s.x_stride, std::numeric_limits<float>::quiet_NaN());
  const float huge = squared ? 1e13f : 1e30f;  // squares must not overflow
  const float sizes[] = {1.0f, 0.0f, 1e-3f, 3e4f, 1e-9f, 1e6f, 20.0f, huge, 5000.0f, 1e-18f};
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < s.cols; ++c)
      x[size_t(r) * s.x_stride + c] = (random.normal() + s.mean) * sizes[r % std::size(sizes)];
  return x;
}

struct Wanted {
  std::vector<double> values, sizes;  // sizes: what rounding errors before that to f16 follow
};
Wanted solve(const HalfRows& spec, const float* x, uint32_t cols, const std::vector<float>& weight,
             const std::vector<float>& bias, float epsilon) {
  double sum = 0, squares = 0;
  for (uint32_t c = 0; c < cols; ++c) sum += x[c];
  const double mean = spec.norm == HalfRows::layer ? sum / cols : 0;
  for (uint32_t c = 0; c < cols; ++c) squares += (x[c] - mean) * (x[c] - mean);
  const double spread = std::sqrt(squares / cols);
  const double factor = spec.norm == HalfRows::none ? 1 : 1 / std::sqrt(squares / cols + double(epsilon));
  Wanted w;
  for (uint32_t c = 0; c < cols; ++c) {
    const double times = spec.weight ? double(weight[c]) + spec.plus_one : 1.0, add = spec.bias ? bias[c] : 0.0;
    w.values.push_back((x[c] - mean) * factor * times + add);
    double size = std::abs(x[c] - mean) + (spec.norm == HalfRows::layer ? spread + std::abs(mean) * 0x1p-20 : 0);
    size *= factor * (spec.weight ? std::abs(double(weight[c])) + spec.plus_one : 1.0);
    w.sizes.push_back(spec.norm == HalfRows::none && !spec.weight && !spec.bias ? 0 : size + std::abs(add));
  }
  return w;
}

Case half_rows(HalfRows spec, const Rows& s) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t rows_of_x = spec.gather ? s.rows + 3 : s.rows;
    const std::vector<float> x = make_rows(random, s, rows_of_x, spec.norm != HalfRows::none),
                             weight = random.normals(s.cols), bias = random.normals(s.cols, 0.5f);
    std::vector<uint32_t> list(s.rows);
    for (uint32_t r = 0; r < s.rows; ++r) list[r] = spec.gather ? random.below(rows_of_x) : r;
    const float epsilon = 1e-5f;
    const uint32_t filled = spec.apart ? (s.rows + s.group - 1) / s.group * s.group : s.rows;
    const size_t count = size_t(filled) * s.ld;
    const uint32_t also_group = 8, norms = spec.squares ? 300 : 0;
    std::vector<float> factors = random.normals(s.rows);
    const size_t also_filled = (s.rows + also_group - 1) / also_group * also_group;
    const HalfRows::Args args{.out = m.poisoned<f16>(count),
                              .scale = m.poisoned<float>(s.rows),
                              .x = m.put(x),
                              .weight = m.put(spec.weight ? weight : std::vector<float>{}),
                              .bias = m.put(spec.bias ? bias : std::vector<float>{}),
                              .list = m.put(spec.gather ? list : std::vector<uint32_t>{}),
                              .rows = s.rows,
                              .cols = s.cols,
                              .x_stride = s.x_stride,
                              .ld = s.ld,
                              .group = s.group,
                              .epsilon = epsilon,
                              .squares = m.put(std::vector<kernels::RowSquares>(size_t(norms) * s.rows, {1, 1, 1})),
                              .squares_count = norms,
                              .squares_stride = s.rows,
                              .also = m.poisoned<f16>(spec.also_apart ? also_filled * s.ld : 0),
                              .also_group = also_group,
                              .factors = m.put(spec.factors ? factors : std::vector<float>{})};
    m.launch(spec, args);
    const std::vector<f16> out = m.get(args.out, count);
    std::vector<f16> again;
    if (spec.also_apart) again = m.get(args.also, also_filled * s.ld);
    std::vector<float> scale = m.get(args.scale, s.rows);
    for (uint32_t r = 0; spec.factors && r < s.rows; ++r) {
      // a product with a power of two is exact
      int power = 0;
      const float left = std::frexp(scale[r], &power), factor = std::frexp(factors[r], &power);
      check.that(left == factor, fmt::format("scale[{}] = {} has not the factor {}", r, scale[r], factors[r]));
      scale[r] /= factors[r];
    }
    auto place = [&](uint32_t r, uint32_t c) {
      return spec.apart ? kernels::operand_place(r, c, spec.apart, s.group, s.ld) : uint64_t(r) * s.ld + c;
    };
    // additions on the way into a sum, half of their error in the root, and a few operations more
    const double additions = spec.held * spec.vec + 5 + spec.threads / 32.0, before = (additions / 2 + 9) * 0x1p-24;
    for (uint32_t r = 0; r < s.rows; ++r) {
      const Wanted want = solve(spec, x.data() + size_t(list[r]) * s.x_stride, s.cols, weight, bias, epsilon);
      double top = 0;
      for (double v : want.values) top = std::max(top, std::abs(v));
      int power = 0;
      check.that(std::frexp(scale[r], &power) == 0.5f, fmt::format("scale[{}] = {} is no power of two", r, scale[r]));
      const double scaled = top / scale[r], slack = 1 + 1e-5;  // a row at a limit may fall on either side
      check.that(scaled <= 16384 * slack, fmt::format("row {} is up to {} times {}", r, scaled, scale[r]));
      check.that(scale[r] <= 1 || scaled * slack > 8192, fmt::format("row {} is divided by {}", r, scale[r]));
      check.that(top == 0 || scaled * slack > 0x1p-4, fmt::format("row {} is only {}", r, scaled));
      check.that(scale[r] >= 1 || scaled <= 0x1p-3 * slack, fmt::format("row {} is divided by {}", r, scale[r]));
      check.that(top > 0 || scale[r] == 1, fmt::format("a row of zeros is divided by {}", scale[r]));
      std::vector<float> got, zeros;
      std::vector<double> sizes;
      for (uint32_t c = 0; c < s.ld; ++c) (c < s.cols ? got : zeros).push_back(to_f32(out[place(r, c)]) * scale[r]);
      // the rounding to f16 is half a unit in the last place, or of the smallest subnormal
      for (uint32_t c = 0; c < s.cols; ++c)
        sizes.push_back(std::abs(want.values[c]) * 0x1p-11 * 1.001 + scale[r] * 0x1p-25 + want.sizes[c] * before);
      check.near(fmt::format("row {}", r), got, want.values, sizes, 1);
      check.equal(fmt::format("rest of row {}", r), zeros, std::vector<float>(zeros.size(), 0.0f));
      if (!spec.also_apart) continue;
      std::vector<f16> row, row_again;
      for (uint32_t c = 0; c < s.ld; ++c) {
        row.push_back(out[place(r, c)]);
        row_again.push_back(again[kernels::operand_place(r, c, spec.also_apart, also_group, s.ld)]);
      }
      check.equal(fmt::format("row {} again", r), row_again, row);
    }
    const std::vector<kernels::RowSquares> squares = m.get(args.squares, size_t(norms) * s.rows);
    for (size_t i = 0; i < squares.size(); ++i)
      check.that(squares[i].sum == 0, fmt::format("sum {} is {}", i, squares[i].sum));
    for (uint32_t r = 0; spec.squares && r < s.rows; ++r) {
      double sum = 0;
      for (uint32_t c = 0; c < s.cols; ++c) sum += std::pow(double(x[size_t(r) * s.x_stride + c]), 2);
      int power = 0;
      const double root = std::sqrt(sum / s.cols + epsilon) * squares[r].scale * 64;
      check.that(std::frexp(squares[r].scale, &power) == 0.5f && root > 1 - 1e-5 && root < 2 + 1e-5,
                 fmt::format("the scale of row {} is {}", r, squares[r].scale));
    }
    check.equal("rows", std::vector<uint32_t>{uint32_t(scale.size())}, {s.rows});
  };
  return {"half_rows",
          fmt::format("{} rows={} cols={} x_stride={} ld={} mean={}", field_text(spec), s.rows, s.cols, s.x_stride,
                      s.ld, s.mean),
          target_of(spec), run};
}

// As half_rows_choice has it, with other fields set.
HalfRows chosen(const Rows& s, HalfRows spec) {
  const HalfRows shape = kernels::half_rows_choice(s.cols, s.x_stride, s.ld, spec.together);
  spec.threads = shape.threads;
  spec.vec = shape.vec;
  spec.held = shape.held;
  return spec;
}

Bench half_rows(uint32_t rows, uint32_t cols, uint32_t norm) {
  const uint32_t group = rows < 256 ? rows : 256;
  HalfRows spec = kernels::half_rows_choice(cols, cols, cols, kernels::half_rows_together(cols, rows, 132));
  spec.norm = norm;
  spec.weight = norm != HalfRows::none;
  spec.apart = 32;
  spec.chained = 1;
  const double bytes = 6.0 * rows * cols;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    std::vector<ptx::DevicePtr<float>> x;
    const std::vector<float> one = random.normals(size_t(rows) * cols);
    for (uint32_t i = 0; i < copies(bytes); ++i) x.push_back(m.put(one));
    kernels::HalfRows::Args args{.out = m.poisoned<f16>(size_t(rows) * cols),
                                 .scale = m.poisoned<float>(rows),
                                 .x = {},
                                 .weight = m.put(random.normals(cols)),
                                 .bias = {},
                                 .list = {},
                                 .rows = rows,
                                 .cols = cols,
                                 .x_stride = cols,
                                 .ld = cols,
                                 .group = group,
                                 .epsilon = 1e-5f};
    return [=](Machine& now, uint32_t r) mutable {
      args.x = x[r % x.size()];
      now.launch(spec, args);
    };
  };
  return {"half_rows", fmt::format("{}{} x {}", norm ? "rms " : "", rows, cols), "sm_90", bytes, 0, prepare};
}

}  // namespace

void add_half_rows_cases(Sweep sweep, std::vector<Case>& cases) {
  auto add = [&](const Rows& s, const HalfRows& spec = {}) { cases.push_back(half_rows(chosen(s, spec), s)); };
  add({3, 200, 204, 256}, {.norm = HalfRows::rms, .weight = 1});
  add({3, 63, 65, 64});
  if (sweep == Sweep::quick) return;

  for (uint32_t norm : {HalfRows::none, HalfRows::rms, HalfRows::layer})
    for (uint32_t weight : {0u, 1u})
      for (uint32_t bias : {0u, 1u}) {
        const HalfRows spec{.norm = norm, .weight = weight, .bias = bias, .chained = weight};
        add({11, 1000, 1004, 1024}, spec);
        add({4, 130, 202, 192}, spec);
        add({10, 77, 77, 192, 3}, spec);
      }
  for (uint32_t cols : {1u, 2u, 4u, 63u, 64u, 65u, 128u, 4096u, 4097u}) {
    const uint32_t ld = (cols + 63) / 64 * 64;
    add({5, cols, cols, ld}, {.norm = HalfRows::rms, .weight = 1, .plus_one = 1});
    add({10, cols, cols + 4, ld + 64}, {.gather = 1});
    add({10, cols, cols + 4, ld + 64}, {.gather = 1, .factors = 1});
  }
  for (uint32_t ld : {512u, 1024u, 2048u})
    for (uint32_t group : {8u, 16u, 32u})
      add({group + 3, ld - 51, ld, ld, 0, group}, {.norm = HalfRows::rms, .apart = ld / 16});
  add({2, 14336, 28672, 14336}, {.chained = 1});
  // the order of the matrix units
  for (uint32_t together : {1u, 2u, 4u, 8u})
    for (uint32_t apart : {16u, 32u, 64u, 128u}) {
      HalfRows spec{.norm = apart == 16   ? HalfRows::none
                            : apart == 32 ? HalfRows::layer
                                          : HalfRows::rms,
                    .weight = apart != 16,
                    .bias = apart == 64,
                    .gather = together == 4,
                    .apart = apart,
                    .also_apart = together > 2   ? 0u
                                  : apart == 128 ? 16u
                                                 : apart * 2,
                    .together = together,
                    .chained = together == 2};
      add({21, 900, 900, 1024, 0, 16}, spec);
      add({together, 256, 260, 256, 0, 8}, spec);
    }
  for (uint32_t together : {1u, 4u})
    add({21, 1000, 1000, 1024, 0, 8},
        {.norm = HalfRows::rms, .weight = 1, .apart = 32, .squares = 1, .together = together, .chained = 1});
  add({0, 256, 256, 256}, {.apart = 32, .together = 8});
  for (float mean : {100.0f, -1e4f}) add({2, 2048, 2048, 2048, mean}, {.norm = HalfRows::layer, .weight = 1});
  add({0, 100, 100, 128});
  cases.push_back(half_rows({.threads = 32, .vec = 2, .held = 32, .norm = HalfRows::rms}, {3, 2000, 2000, 2048}));
  if (sweep == Sweep::normal) return;

  add({700, 8192, 8192, 8192}, {.norm = HalfRows::rms, .weight = 1, .gather = 1});
  add({700, 65536, 65536, 65536});
  add({70000, 64, 64, 64}, {.norm = HalfRows::layer, .weight = 1, .bias = 1});
}

void add_half_rows_benches(std::vector<Bench>& all) {
  for (uint32_t rows : {64u, 512u, 2048u})
    for (uint32_t cols : {4096u, 14336u})
      all.push_back(half_rows(rows, cols, cols == 4096 ? HalfRows::rms : HalfRows::none));
}

}  // namespace heddle::proof
