// Cases of gemv and its presets, and their timing: the presets side by side, every format, 1 to 8 columns.
#include <numeric>

#include "kernels/product/gemv.h"
#include "proof/bench.h"
#include "proof/format/weights.h"
#include "quant/q8_1.h"

namespace heddle::proof {

namespace {

using kernels::Gemv;
using quant::Format;

// Sums of one row and column in f64, and the magnitudes that roundings are relative to.
struct Dot {
  double sum = 0, magnitude = 0;
  double inexact = 0;  // by how much q8_1 may be off the f32 it was made from
};

struct Activations {
  std::vector<float> f32;     // (columns, stride)
  std::vector<uint8_t> q8_1;  // (columns, q8_1_stride), empty for f32
  uint32_t stride = 0, q8_1_stride = 0;

  Activations(Random& random, const Gemv& spec, uint32_t cols) {
    stride = (cols + 7) / 4 * 4;
    f32 = random.normals(size_t(spec.columns) * stride);
    for (float& v : f32)
      if (random.below(50) == 0) v *= 20;  // outliers, as activations have
    if (spec.x != Gemv::q8_1) return;
    q8_1_stride = uint32_t(quant::q8_1_row_bytes(cols)) + 16;
    q8_1.resize(size_t(spec.columns) * q8_1_stride, 0xcc);
    for (uint32_t c = 0; c < spec.columns; ++c)
      quant::encode_q8_1(&f32[size_t(c) * stride], cols, &q8_1[size_t(c) * q8_1_stride]);
  }
};

Dot dot_f32(const DecodedRow& row, const float* x) {
  Dot d;
  for (size_t i = 0; i < row.w.size(); ++i) {
    d.sum += double(row.w[i]) * x[i];
    d.magnitude += (std::abs(double(row.w[i]) - row.offset[i]) + std::abs(row.offset[i])) * std::abs(x[i]);
  }
  return d;
}
// What the format q8_1 means: the int8 times d, and s in place of their sum where 32 weights share an offset.
Dot dot_q8_1(Format format, const DecodedRow& row, const uint8_t* x, const float* original) {
  const size_t cols = row.w.size();
  const bool sums = format != Format::q2_k;  // its offsets are those of 16
  std::vector<float> decoded(cols);
  quant::decode_q8_1(x, cols, decoded.data());
  Dot d;
  for (size_t b = 0; b < cols / 32; ++b) {
    double largest = 0;
    for (size_t i = 32 * b; i < 32 * b + 32; ++i) largest = std::max(largest, std::abs(double(original[i])));
    // half a step, and d and s as f16
    const double error = largest * (0.5 / 127 + 0x1p-11) * 1.001;
    for (size_t i = 32 * b; i < 32 * b + 32; ++i) {
      const double scaled = double(row.w[i]) - row.offset[i], offset = row.offset[i];
      d.sum += (sums ? scaled : scaled + offset) * decoded[i];
      d.magnitude += (std::abs(scaled) + std::abs(offset)) * std::abs(decoded[i]);
      d.inexact += (std::abs(scaled) + std::abs(offset)) * error;
    }
    if (sums) d.sum += double(row.offset[32 * b]) * quant::q8_1_sum(x, cols, b);
  }
  return d;
}

// Roundings a product goes through at most, in units of 2^-24 of the sum of magnitudes.
double roundings(const Gemv& spec, uint32_t cols) {
  const bool floats = quant::is_float(spec.weights());
  const uint32_t per_lane = floats ? spec.load / quant::block_bytes(spec.weights()) : spec.load == 16 ? 32 : 8;
  const double steps = std::ceil(double(cols) / (32.0 * spec.warps_per_row * per_lane));
  const double runs = 2 * steps;
  const Format f = spec.weights();
  const bool has_min =
      f == Format::q4_1 || f == Format::q5_1 || f == Format::q2_k || f == Format::q4_k || f == Format::q5_k;
  // five sums across the warp, the warps of the row, the residual; decoding in the kernel and in the reference
  const double ends = 5 + spec.warps_per_row + 1 + 3;
  if (spec.x == Gemv::q8_1) return runs * (has_min ? 2 : 1) + ends;
  if (floats || has_min) return steps * per_lane + ends;
  return per_lane / 2.0 + runs + ends;
}

// All rows, or where the reference would take long the ends and random ones: 4 M values, a tenth of a second.
std::vector<uint32_t> rows_to_check(Random& random, uint32_t rows, uint32_t cols) {
  constexpr uint32_t values = 4 << 20;
  std::vector<uint32_t> list(rows);
  std::iota(list.begin(), list.end(), 0u);
  if (uint64_t(rows) * cols <= values) return list;
  list = {0, rows - 1};
  while (list.size() < values / cols) list.push_back(random.below(rows));
  return list;
}

struct GemvShape {
  uint32_t rows, cols;
  Quants quants = Quants::random;
};
std::string_view name(Quants q) { return q == Quants::random ? "" : q == Quants::ones ? " ones" : " zeros"; }

void run_gemv(const Gemv& spec, const GemvShape& shape, Machine& m, Random& random, Check& check) {
  const auto [rows, cols, quants] = shape;
  const Format format = spec.weights();
  const std::vector<uint8_t> w = random_blocks(random, format, size_t(rows) * cols, cols, quants);
  const Activations x(random, spec, cols);
  const uint32_t y_stride = rows + 3;
  constexpr uint32_t poison = 0xcccccccc;
  std::vector<float> before(size_t(spec.columns) * y_stride, std::bit_cast<float>(poison));
  if (spec.add)
    for (float& v : before) v = random.normal();
  const Gemv::Args args{.y = m.put(before),
                        .x = m.put(x.f32),
                        .xq = m.put(x.q8_1),
                        .w = m.put(w),
                        .rows = rows,
                        .cols = cols,
                        .y_stride = y_stride,
                        .x_stride = x.stride,
                        .xq_stride = x.q8_1_stride};
  m.launch(spec, args);
  const std::vector<float> y = m.get(args.y, before.size());

  const double bound = roundings(spec, cols) * 0x1p-24;
  const size_t row_bytes = quant::row_bytes(format, cols);
  std::vector<float> got;
  std::vector<double> want, magnitude, exact, inexact;
  for (uint32_t r : rows_to_check(random, rows, cols)) {
    const DecodedRow row = decode_row(format, w.data() + r * row_bytes, cols);
    for (uint32_t c = 0; c < spec.columns; ++c) {
      const float* column = &x.f32[size_t(c) * x.stride];
      const double base = spec.add ? before[size_t(c) * y_stride + r] : 0;
      Dot d = spec.x == Gemv::q8_1 ? dot_q8_1(format, row, &x.q8_1[size_t(c) * x.q8_1_stride], column)
                                   : dot_f32(row, column);
      got.push_back(y[size_t(c) * y_stride + r]);
      want.push_back(base + d.sum);
      magnitude.push_back(std::abs(base) + d.magnitude);
      if (spec.x != Gemv::q8_1) continue;
      exact.push_back(base + dot_f32(row, column).sum);
      inexact.push_back(d.inexact + magnitude.back() * bound);
    }
  }
  const std::string what = fmt::format("{}x{}{}: y", rows, cols, name(quants));
  check.near(what, got, want, magnitude, bound);
  if (spec.x == Gemv::q8_1) check.near(what + " against f32 activations", got, exact, inexact, 1);
  for (uint32_t c = 0; c < spec.columns; ++c)
    for (uint32_t r = rows; r < y_stride; ++r) {
      const size_t at = size_t(c) * y_stride + r;
      check.that(std::bit_cast<uint32_t>(y[at]) == std::bit_cast<uint32_t>(before[at]),
                 what + " written between columns");
    }
}

// One case for all shapes of a spec, so that a kernel is built once.
Case gemv(std::string kernel, const Gemv& spec, const std::vector<GemvShape>& shapes) {
  std::string text = field_text(spec);
  for (auto& s : shapes) text += fmt::format(" {}x{}{}", s.rows, s.cols, name(s.quants));
  return {std::move(kernel), text, spec.chained ? "sm_90" : "sm_75", [=](Machine& m, Random& random, Check& check) {
            for (auto& s : shapes) {
              m.clear();
              run_gemv(spec, s, m, random, check);
              m.check_guards();
            }
          }};
}

// The name in the catalog: q6k_gemv, q8_0_gemv.
std::string kernel_name(Format format) {
  std::string text(quant::name(format));
  if (text.ends_with("_k")) text.erase(text.size() - 2, 1);
  return text + "_gemv";
}
Gemv of(Format format) { return {.format = uint32_t(format)}; }
bool quantised(Format format) { return !quant::is_float(format); }
// Blocks of 32 values have their own shapes, so that lanes idle in the middle of what would be a block of 256.
uint32_t unit(Format format) { return quantised(format) ? quant::block_values(format) : 8; }

// The named points of the design space; those that only name a format are not among them.
std::vector<kernels::GemvPreset> points() {
  std::vector<kernels::GemvPreset> list;
  for (auto& p : kernels::gemv_presets())
    if (p.name != kernel_name(p.spec.weights())) list.push_back(p);
  return list;
}

// One block; idle lanes; a main loop and a rest; no rows; quants at their ends.
std::vector<GemvShape> odd_shapes(const Gemv& spec) {
  const uint32_t u = unit(spec.weights());
  const uint32_t steps = spec.x == Gemv::staged && spec.columns > 4 ? 1024 : 2048 + 4 * u;  // shared memory is short
  return {{1, u}, {5, 3 * u}, {7, steps + u}, {0, u}, {3, 512 + u, Quants::ones}, {3, 512 + u, Quants::zeros}};
}

// Every format with every kind of x, for 1 to 8 columns.
void add_formats(std::vector<Case>& cases) {
  for (Format f : kernels::gemv_formats) {
    const std::string kernel = kernel_name(f);
    const uint32_t u = unit(f);
    const bool all = f == Format::q4_k || f == Format::q8_0 || f == Format::f16;
    for (uint32_t x : {uint32_t(Gemv::direct), uint32_t(Gemv::staged), uint32_t(Gemv::chunked), uint32_t(Gemv::q8_1)}) {
      if (x == Gemv::q8_1 && !quantised(f)) continue;
      for (uint32_t columns : all ? std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8} : std::vector<uint32_t>{1, 3, 8}) {
        Gemv spec = of(f);
        spec.x = x;
        spec.columns = columns;
        spec.rows = columns % 2 ? 2 : 1;
        cases.push_back(gemv(kernel, spec, odd_shapes(spec)));
      }
      Gemv narrow = of(f);
      narrow.x = x;
      narrow.load = 4;
      narrow.warps_per_row = 2;
      cases.push_back(gemv(kernel, narrow, {{3, u}, {6, 512 + 3 * u}}));
      Gemv several = of(f);
      several.x = x;
      several.rows = 2;
      several.unroll = 4;
      cases.push_back(gemv(kernel, several, {{9, 4096 + u}, {2, 8192 + 1024 + u}}));
    }
  }
  // lengths that only narrower loads of floats suit
  const uint32_t f32 = uint32_t(Format::f32), f16 = uint32_t(Format::f16), bf16 = uint32_t(Format::bf16);
  cases.push_back(gemv("f32_gemv", {.format = f32, .load = 4}, {{5, 171}}));
  cases.push_back(gemv("f32_gemv", {.format = f32, .x = Gemv::staged}, {{5, 172}}));
  cases.push_back(gemv("f16_gemv", {.format = f16, .columns = 2, .x = Gemv::chunked, .load = 4}, {{5, 170}}));
  cases.push_back(gemv("bf16_gemv", {.format = bf16, .x = Gemv::staged, .load = 2}, {{5, 171}}));
}

// The design space, for Q4_K: every value of every field, most pairs of them.
void add_points(std::vector<Case>& cases) {
  for (auto& p : points()) {
    auto shapes = odd_shapes(p.spec);
    shapes.insert(shapes.end(), {{13, 768}, {5, 4096}, {3, 14336}});
    cases.push_back(gemv(p.name, p.spec, shapes));
    Gemv spec = p.spec;
    spec.columns = 3;
    spec.add = 1;
    cases.push_back(gemv(p.name, spec, {{9, 1280}}));
  }
  for (uint32_t group : {1u, 2u, 3u, 4u, 8u})
    for (uint32_t rows : {1u, 2u, 4u})
      for (uint32_t unroll : {1u, 2u, 4u})
        for (uint32_t x : {uint32_t(Gemv::direct), uint32_t(Gemv::chunked), uint32_t(Gemv::q8_1)}) {
          if (rows * unroll > 8) continue;  // refused
          Gemv spec{.warps = group * 2, .warps_per_row = group, .rows = rows, .x = x, .unroll = unroll};
          if (unroll == 2) {
            spec.load = 4;
            spec.scales = x == Gemv::direct ? Gemv::shuffled : Gemv::own;
          }
          cases.push_back(gemv("gemv", spec, {{11, 2304}}));
        }
  // more than one chunk, with an odd number of threads and with warps that have no row
  for (uint32_t warps : {1u, 3u, 4u, 8u})
    for (uint32_t columns : {1u, 5u}) {
      Gemv spec{.warps = warps, .columns = columns, .x = Gemv::chunked};
      cases.push_back(gemv("chunked_tiled_q4k_gemv", spec, {{warps + 1, 8192 + 512}, {1, 2 * 8192 + 256}}));
    }
  for (uint32_t add : {0u, 1u})
    for (uint32_t x : {uint32_t(Gemv::direct), uint32_t(Gemv::staged), uint32_t(Gemv::q8_1)})
      cases.push_back(gemv("gemv", {.rows = 2, .columns = 2, .x = x, .add = add, .chained = 1}, {{10, 1280}}));
}

// The shapes of an 8B model.
void add_large(std::vector<Case>& cases) {
  for (auto& p : points()) cases.push_back(gemv(p.name, p.spec, {{4096, 4096}, {28672, 4096}, {4096, 14336}}));
  for (Format f : kernels::gemv_formats)
    for (uint32_t x : {uint32_t(Gemv::direct), uint32_t(Gemv::q8_1)})
      for (uint32_t columns : {1u, 8u}) {
        if (x == Gemv::q8_1 && !quantised(f)) continue;
        Gemv spec = of(f);
        spec.x = x;
        spec.columns = columns;
        cases.push_back(gemv(kernel_name(f), spec, {{4096, 4096}, {1025, 14336}}));
      }
  for (uint32_t x : {uint32_t(Gemv::direct), uint32_t(Gemv::q8_1)})
    cases.push_back(gemv("q6k_gemv", {.format = uint32_t(Format::q6_k), .x = x}, {{128'256, 4096}}));
}

Bench gemv(std::string kernel, Gemv spec, uint32_t cols, uint32_t rows) {
  const double bytes = double(quant::row_bytes(spec.weights(), cols)) * rows;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const std::vector<uint8_t> one = random.bytes(size_t(bytes));  // the bits do not matter for the time
    std::vector<ptx::DevicePtr<uint8_t>> w;
    for (uint32_t i = 0; i < copies(bytes); ++i) w.push_back(m.put(one));
    const uint32_t q8_bytes = uint32_t(quant::q8_1_row_bytes(cols));
    Gemv::Args args{.y = m.poisoned<float>(size_t(rows) * spec.columns),
                    .x = m.put(random.normals(size_t(cols) * spec.columns)),
                    .xq = m.put(std::vector<uint8_t>(size_t(q8_bytes) * spec.columns)),
                    .w = {},
                    .rows = rows,
                    .cols = cols,
                    .y_stride = rows,
                    .x_stride = cols,
                    .xq_stride = q8_bytes};
    return [=](Machine& now, uint32_t r) mutable {
      args.w = w[r % w.size()];
      now.launch(spec, args);
    };
  };
  return {std::move(kernel),
          fmt::format("{} {} -> {} x {} columns", quant::name(spec.weights()), cols, rows, spec.columns),
          std::string(Gemv::lowest_target),
          bytes,
          2.0 * rows * cols * spec.columns,
          prepare};
}

}  // namespace

void add_gemv_cases(Sweep sweep, std::vector<Case>& cases) {
  for (auto& p : points()) cases.push_back(gemv(p.name, p.spec, {{3, 512}}));
  for (Format f : kernels::gemv_formats) cases.push_back(gemv(kernel_name(f), of(f), {{3, 512}}));
  cases.push_back(gemv("gemv", {.columns = 2}, {{3, 512}}));
  if (sweep == Sweep::quick) return;
  add_formats(cases);
  add_points(cases);
  if (sweep != Sweep::full) return;
  add_large(cases);
}

void add_gemv_benches(std::vector<Bench>& all) {
  const std::string dp4a = "mwv_dp4a_q4k_gemv";
  for (auto& [name, summary, spec] : kernels::gemv_presets()) {
    Gemv chained = spec;
    chained.chained = 1;
    if (spec.format == uint32_t(quant::Format::q4_k) && name != "q4k_gemv") {  // the named points, side by side
      all.push_back(gemv(name, chained, 4096, 4096));
      all.push_back(gemv(name, chained, 4096, 28672));
      all.push_back(gemv(name, chained, 14336, 4096));
    } else {
      all.push_back(gemv(name, chained, 4096, 28672));
    }
    if (name == "q4k_gemv" || name == dp4a)
      for (uint32_t columns : {2u, 4u, 8u}) {
        chained.columns = columns;
        all.push_back(gemv(name, chained, 4096, 28672));
      }
  }
}

}  // namespace heddle::proof
