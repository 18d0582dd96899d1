// Cases of the activations and gates, softcap_rows, scale_rows and stream_read, and their timing.
#include <numbers>

#include "kernels/layer/elementwise.h"
#include "proof/bench.h"

namespace heddle::proof {

namespace {

using kernels::Gate;
using kernels::SoftcapRows;

double root_2_over_pi() { return std::sqrt(2 / std::numbers::pi); }

constexpr double xielu_positive = 0.8125, xielu_negative = 1.125, xielu_beta = 0.5, xielu_epsilon = -0x1p-20;

double activate(uint32_t act, double x) {
  if (act == Gate::silu) return x / (1 + std::exp(-x));
  if (act == Gate::gelu_erf) return x * std::erfc(-x * std::sqrt(0.5)) / 2;
  if (act == Gate::relu_squared) return x > 0 ? x * x : 0;
  if (act == Gate::clamped_swiglu) return std::min(x, 7.0) / (1 + std::exp(-1.702 * std::min(x, 7.0)));
  if (act == Gate::xielu)
    return x > 0 ? x * (xielu_positive * x + xielu_beta)
                 : xielu_negative * (std::expm1(std::min(x, xielu_epsilon)) - x) + xielu_beta * x;
  const double u = root_2_over_pi() * (x + 0.044715 * x * x * x);
  return u < -300 ? 0 : x / (1 + std::exp(-2 * u));  // the same as x (1 + tanh(u)) / 2
}

// fused: gate and up are the halves of one row.
Case gate(Gate spec, uint32_t rows, uint32_t cols, bool fused) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t stride = fused ? 2 * cols : cols + spec.vec;
    std::vector<float> x = random.normals(size_t(rows) * stride, 3);
    for (uint32_t r = 0; r < rows; ++r)  // large magnitudes too
      for (uint32_t c = 0; c < cols; c += 3) x[size_t(r) * stride + c] *= 10;
    if (!x.empty()) x[0] = 0;
    if (x.size() > 1) x[1] = 88.9f;
    const std::vector<float> other = random.normals(size_t(rows) * stride, 4), weights = random.normals(rows);
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
                              .narrow = y_narrow,
                              .weights = spec.weighted ? m.put(weights) : ptx::DevicePtr<float>{},
                              .xielu_positive = float(xielu_positive),
                              .xielu_negative = float(xielu_negative),
                              .xielu_beta = float(xielu_beta),
                              .xielu_epsilon = float(xielu_epsilon)});
    std::vector<double> want, scale;
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < cols; ++c) {
        const double u = !spec.times_up ? 1 : fused ? x[r * stride + cols + c] : other[r * stride + c];
        const double weight = spec.weighted ? weights[r] : 1;
        const bool clamps = spec.act == Gate::clamped_swiglu && spec.times_up;
        const double factor = (clamps ? std::clamp(u, -7.0, 7.0) + 1 : u) * weight;
        const double v = x[r * stride + c], a = activate(spec.act, v);
        want.push_back(a * factor);
        // relative until the result is about to vanish. With tanh the exponent 2 u has three roundings (2e-7), and
        // e^2u has them |2 u| times
        const double two_u = 2 * root_2_over_pi() * v * (1 + 0.044715 * v * v);
        double more = spec.act == Gate::gelu_tanh && v < 0 ? -two_u * 2e-7 / 8e-7 : 0;
        if (spec.act == Gate::clamped_swiglu && v < 0) more = -1.702 * v * 2e-7 / 8e-7;
        scale.push_back(std::abs(want.back()) * (1 + more) + 1e-30 * std::abs(factor));
        // 1 + up may cancel, and so may the two sides of xielu below 0
        if (clamps) scale.back() += std::abs(a * weight) * 8;
        if (spec.act == Gate::xielu && v <= 0)
          scale.back() +=
              (xielu_negative * (std::abs(std::expm1(v)) + std::abs(v)) - xielu_beta * v) * std::abs(factor);
      }
    // the exponential to 4e-7, the reciprocal and three roundings; with erf the tail's parts too
    const double bound = (spec.act == Gate::gelu_erf || spec.act == Gate::xielu ? 2e-6 : 8e-7) + (narrow ? 0x1p-8 : 0);
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

Case softcap(SoftcapRows spec, uint32_t rows, uint32_t cols, float cap = 30, float scale = 1, float size = 20) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t stride = cols + 2;
    std::vector<float> y = random.normals(size_t(rows) * stride, size);
    for (size_t i = 0; i < y.size(); i += 5) y[i] *= 1e-4f;  // close to 0
    if (!y.empty()) y[0] = 1e37f;
    const std::vector<float> bias = random.normals(cols, size);
    const auto at = m.put(y);
    m.launch(spec, {.y = at,
                    .bias = spec.bias ? m.put(bias) : ptx::DevicePtr<float>{},
                    .rows = rows,
                    .cols = cols,
                    .stride = stride,
                    .scale = scale,
                    .cap = cap});
    std::vector<double> want(y.begin(), y.end()), sizes(y.size());  // the gaps stay
    for (size_t i = 0; i < y.size(); ++i) {
      if (i % stride >= cols) continue;
      const double b = spec.bias ? bias[i % stride] : 0.0, v = (y[i] + b) * scale;
      // what the sum of y and bias rounds to is passed on by the slope
      const double bent = spec.cap ? std::tanh(v / cap) : 0, sum = (std::abs(y[i]) + std::abs(b)) * scale;
      want[i] = spec.cap ? cap * bent : v;
      sizes[i] = std::abs(want[i]) + (spec.bias && std::abs(bent) < 1 ? sum * (1 - bent * bent) : 0);
    }
    // tanh to 5e-7, and five roundings
    check.near("y", m.get(at, y.size()), want, sizes, 5e-7 + 5 * 0x1p-24);
  };
  return {"softcap_rows",
          fmt::format("{} rows={} cols={} cap={} scale={} size={}", field_text(spec), rows, cols, cap, scale, size),
          target_of(spec), run};
}

using kernels::ScaleRows;

Case scale_rows(ScaleRows spec, uint32_t rows, uint32_t cols) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> x = random.normals(size_t(rows) * cols), w = random.normals(cols);
    const ScaleRows::Args args{
        .y = m.poisoned<float>(x.size()), .x = m.put(x), .w = m.put(w), .rows = rows, .cols = cols};
    m.launch(spec, args);
    std::vector<float> want;
    for (size_t i = 0; i < x.size(); ++i) want.push_back(x[i] * w[i % cols]);  // one product: exact
    check.equal("y", m.get(args.y, x.size()), want);
  };
  return {"scale_rows", fmt::format("{} rows={} cols={}", field_text(spec), rows, cols), target_of(spec), run};
}

void add_scale_rows_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(scale_rows({}, 3, 300));
  if (sweep == Sweep::quick) return;
  for (uint32_t cols : {1u, 63u, 257u}) cases.push_back(scale_rows({.threads = 64, .chained = cols % 2}, 4, cols));
  cases.push_back(scale_rows({}, 0, 64));
  if (sweep == Sweep::full) cases.push_back(scale_rows({.chained = 1}, 3000, 5120));
}

void add_gate_cases(Sweep sweep, std::vector<Case>& cases) {
  for (uint32_t act :
       {Gate::silu, Gate::gelu_erf, Gate::gelu_tanh, Gate::relu_squared, Gate::clamped_swiglu, Gate::xielu})
    for (uint32_t times_up : {0u, 1u}) {
      cases.push_back(gate({.vec = 4, .act = act, .times_up = times_up, .weighted = act % 2}, 2, 516, true));
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

void add_softcap_rows_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(softcap({}, 2, 300));
  if (sweep == Sweep::quick) return;
  for (uint32_t bias : {0u, 1u})
    for (uint32_t cap : {0u, 1u}) {
      cases.push_back(softcap({.threads = 32, .bias = bias, .cap = cap}, 5, 65, 30, 0.0625f));
      cases.push_back(softcap({.bias = bias, .cap = cap, .chained = 1}, 1, 1000, 1.5f, 3));
      cases.push_back(softcap({.bias = bias, .cap = cap}, 3, 1));
      cases.push_back(softcap({.bias = bias, .cap = cap}, 0, 64));
    }
  if (sweep == Sweep::normal) return;
  cases.push_back(softcap({.bias = 1, .chained = 1}, 64, 128256));
}

void add_gate_benches(std::vector<Bench>& all) {
  constexpr uint32_t cols = 14336;
  for (uint32_t rows : {1u, 512u}) {
    const double n = double(rows) * cols;
    const std::string shape = fmt::format("{} x {}", rows, cols);
    // gate and up are the halves of one row
    for (uint32_t act : {uint32_t(Gate::silu), uint32_t(Gate::gelu_tanh)})
      all.push_back(float_bench(
          act == Gate::silu ? "silu_gate" : "gelu_gate", shape, Gate{.vec = 4, .act = act, .chained = 1}, size_t(n) * 2,
          n * 12, n * 8,
          [=](Machine& m, Random&) {
            return Gate::Args{.y = m.poisoned<float>(size_t(n)),
                              .gate = {},
                              .up = {},
                              .rows = rows,
                              .cols = cols,
                              .y_stride = cols,
                              .gate_stride = 2 * cols,
                              .up_stride = 2 * cols};
          },
          [](Gate::Args& a, ptx::DevicePtr<float> x) {
            a.gate = x;
            a.up.address = x.address + cols * sizeof(float);
          }));
    for (uint32_t act : {uint32_t(Gate::silu), uint32_t(Gate::gelu_erf)})
      all.push_back(float_bench(
          act == Gate::silu ? "silu" : "gelu", shape, Gate{.vec = 4, .act = act, .times_up = 0, .chained = 1},
          size_t(n), n * 8, n * 8,
          [=](Machine& m, Random&) {
            return Gate::Args{.y = m.poisoned<float>(size_t(n)),
                              .gate = {},
                              .up = {},
                              .rows = rows,
                              .cols = cols,
                              .y_stride = cols,
                              .gate_stride = cols,
                              .up_stride = 0};
          },
          [](Gate::Args& a, ptx::DevicePtr<float> x) { a.gate = x; }));
  }
}

}  // namespace

void add_elementwise_cases(Sweep sweep, std::vector<Case>& cases) {
  add_gate_cases(sweep, cases);
  add_softcap_rows_cases(sweep, cases);
  add_scale_rows_cases(sweep, cases);
}

void add_elementwise_benches(std::vector<Bench>& all) { add_gate_benches(all); }

// Cases of stream_read, and its timing: the limit of the memory.

namespace {

using kernels::StreamRead;

Case stream_read(StreamRead spec, uint64_t words, uint32_t blocks) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    std::vector<uint32_t> data(words);
    for (auto& w : data) w = uint32_t(random.bits());
    const StreamRead::Args args{
        .sum = m.put(std::vector<uint32_t>{7}), .data = m.put(data), .words = words, .blocks = blocks};
    m.launch(spec, args);
    uint32_t want = 7;
    for (uint32_t w : data) want += w;
    check.equal("sum", m.get(args.sum, 1), {want});
  };
  return {"stream_read", fmt::format("{} words={} blocks={}", field_text(spec), words, blocks), "sm_75", run};
}

Bench read() {
  constexpr uint64_t words = uint64_t(1) << 28;
  auto prepare = [](Machine& m, Random&) -> Bench::Round {
    const kernels::StreamRead::Args args{.sum = m.put(std::vector<uint32_t>{0}),
                                         .data = m.poisoned<uint32_t>(words),
                                         .words = words,
                                         .blocks = m.processors() * 4};
    return [=](Machine& now, uint32_t) { now.launch(kernels::StreamRead{}, args); };
  };
  return {"stream_read", "1 GiB", "sm_75", double(words) * 4, 0, prepare};
}

}  // namespace

void add_stream_read_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(stream_read({.threads = 64, .loads = 4}, 4096, 3));
  if (sweep == Sweep::quick) return;
  for (uint64_t words : {0, 4, 8, 1020, 16384, 16388}) cases.push_back(stream_read({.threads = 96}, words, 2));
  for (uint32_t loads : {1, 2, 8}) cases.push_back(stream_read({.threads = 32, .loads = loads}, 2052, 5));
  if (sweep == Sweep::normal) return;
  cases.push_back(stream_read({}, uint64_t(1) << 26, 132 * 4));
}

void add_stream_read_benches(std::vector<Bench>& all) { all.push_back(read()); }

}  // namespace heddle::proof
