// Cases of the quantisation of activations, bit for bit.
#include "kernels/product/quantize_q8_1.h"
#include "proof/bench.h"
#include "quant/q8_1.h"

namespace heddle::proof {
namespace {

using kernels::QuantizeQ8_1;

// Blocks of all sizes, some of zeros, some with an outlier, some with values half-way between two int8.
std::vector<float> activations(Random& random, size_t n) {
  std::vector<float> x = random.normals(n);
  for (size_t b = 0; b * 16 < n; ++b) {
    const float size = std::ldexp(1.0f, int(random.below(24)) - 18);
    const uint32_t kind = random.below(6);
    for (size_t i = b * 16; i < std::min(n, b * 16 + 16); ++i) {
      x[i] *= size;
      if (kind == 0) x[i] = 0;
      if (kind == 1) x[i] = (float(random.below(255)) - 127) * 0.5f;
    }
    if (kind == 1) x[b * 16] = -127;
    if (kind == 2) x[b * 16] *= 26;
  }
  return x;
}

struct Block {
  float d, s;
  std::vector<int8_t> q;
};
// The definition in kernels/q8_1.h.
Block quantise(const float* x, uint32_t n) {
  float largest = 0;
  for (uint32_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  Block b{.d = largest / 127, .s = 0, .q = {}};
  int sum = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const float ratio = b.d == 0 ? 0 : x[i] / b.d;
    b.q.push_back(int8_t(std::min(std::max(std::nearbyint(ratio), -127.0f), 127.0f)));
    sum += b.q.back();
  }
  b.s = b.d * float(sum);
  return b;
}

template <class T>
void append(std::vector<uint8_t>& bytes, T v) {
  bytes.resize(bytes.size() + sizeof v);
  std::memcpy(bytes.data() + bytes.size() - sizeof v, &v, sizeof v);
}

Case q8_1(QuantizeQ8_1 spec, uint32_t rows, uint32_t cols) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> x = activations(random, size_t(rows) * cols);
    const size_t row_bytes = spec.row_bytes(cols);
    std::vector<uint8_t> want;
    for (size_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * cols;
      if (spec.layout == QuantizeQ8_1::planes) {
        std::vector<uint8_t> bytes(quant::q8_1_row_bytes(cols));
        check.that(bytes.size() == row_bytes, "rows are as long as those of the reference");
        quant::encode_q8_1(row, cols, bytes.data());
        want.insert(want.end(), bytes.begin(), bytes.end());
        continue;
      }
      for (uint32_t c = 0; c < cols; c += 32) {
        const Block b = quantise(row + c, 32);
        append(want, to_f16(b.d));
        append(want, to_f16(b.s));
        for (int8_t q : b.q) append(want, q);
      }
    }
    const QuantizeQ8_1::Args args{
        .y = m.poisoned<uint8_t>(rows * row_bytes), .x = m.put(x), .rows = rows, .cols = cols};
    m.launch(spec, args);
    check.equal("y", m.get(args.y, rows * row_bytes), want);
    check.that(want.size() == rows * row_bytes, "all bytes");
  };
  return {"quantize_q8_1", fmt::format("{} rows={} cols={}", field_text(spec), rows, cols), target_of(spec), run};
}

}  // namespace

void add_quantize_q8_1_cases(Sweep sweep, std::vector<Case>& cases) {
  for (uint32_t layout : {QuantizeQ8_1::planes, QuantizeQ8_1::blocks}) {
    cases.push_back(q8_1({.layout = layout}, 2, 1056));
    if (sweep == Sweep::quick) continue;
    for (uint32_t cols : {0u, 32u, 64u, 96u, 480u, 512u, 544u}) cases.push_back(q8_1({.layout = layout}, 3, cols));
    cases.push_back(q8_1({.layout = layout, .chained = 1}, 8, 4096));
    cases.push_back(q8_1({.layout = layout}, 0, 64));
    if (sweep == Sweep::full) cases.push_back(q8_1({.layout = layout}, 500, 14336));
  }
}

void add_quantize_q8_1_benches(std::vector<Bench>& all) {
  for (uint32_t rows : {1u, 512u}) {
    const double n = double(rows) * 4096;
    all.push_back(float_bench(
        "quantize_q8_1", fmt::format("{} x 4096", rows), QuantizeQ8_1{.chained = 1}, size_t(n), n * 5.125, n * 4,
        [=](Machine& m, Random&) {
          return QuantizeQ8_1::Args{
              .y = m.poisoned<uint8_t>(rows * QuantizeQ8_1{}.row_bytes(4096)), .x = {}, .rows = rows, .cols = 4096};
        },
        [](QuantizeQ8_1::Args& a, ptx::DevicePtr<float> x) { a.x = x; }));
  }
}

}  // namespace heddle::proof
