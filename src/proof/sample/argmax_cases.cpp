// Cases of argmax. Each launches twice with the same scratch memory, which the first must leave as it was.
#include <algorithm>

#include "kernels/sample/argmax.h"
#include "kernels/sample/sample.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

using kernels::Argmax;

enum class Values { normal, few, low, with_nan, infinite, all_low };
const char* text(Values v) {
  switch (v) {
    case Values::normal:
      return "normal";
    case Values::few:  // many equal ones, and zeros of both signs
      return "few";
    case Values::low:  // -infinity among them
      return "low";
    case Values::with_nan:  // in most rows
      return "with_nan";
    case Values::infinite:  // one is +infinity
      return "infinite";
    case Values::all_low:  // -infinity
      return "all_low";
  }
  return "?";
}

std::vector<float> logits(Random& random, size_t n, Values values) {
  std::vector<float> x = random.normals(n, 4);
  for (float& v : x) {
    if (values == Values::few) v = random.below(2) ? -0.0f : 0.0f;
    if (values == Values::low && random.below(3)) v = -INFINITY;
    if (values == Values::with_nan && random.below(200) == 0) v = random.below(2) ? NAN : -NAN;
    if (values == Values::all_low) v = -INFINITY;
  }
  if (values == Values::infinite && n) x[random.below(uint32_t(n))] = INFINITY;
  return x;
}

Case argmax(Argmax spec, uint32_t rows, uint32_t cols, Values values, uint32_t stride = 1) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    Argmax::Args args{.ids = {},
                      .x = {},
                      .best = m.put(std::vector<uint64_t>(rows, 0)),
                      .arrived = m.put(std::vector<uint32_t>(rows, 0)),
                      .rows = rows,
                      .cols = cols,
                      .stride = stride};
    for (int turn = 0; turn < 2; ++turn) {
      const std::vector<float> x = logits(random, size_t(rows) * cols, values);
      args.ids = m.put(std::vector<uint32_t>(size_t(rows) * stride, 77));
      args.x = m.put(x);
      m.launch(spec, args);
      std::vector<uint32_t> want(size_t(rows) * stride, 77);
      for (uint32_t r = 0; r < rows; ++r) {
        const float* row = x.data() + size_t(r) * cols;
        uint32_t best = 0;
        for (uint32_t i = 1; i < cols; ++i)
          if (row[i] > row[best]) best = i;
        const bool bad = std::any_of(row, row + cols, [](float v) { return !(v < INFINITY); });
        want[r * stride] = bad || row[best] == -INFINITY ? kernels::no_token : best;
      }
      check.equal("ids", m.get(args.ids, want.size()), want);
    }
    check.equal("best", m.get(args.best, rows), std::vector<uint64_t>(rows, 0));
    check.equal("arrived", m.get(args.arrived, rows), std::vector<uint32_t>(rows, 0));
    check.that(cols > 0, "a row has columns");
  };
  return {"argmax",
          fmt::format("{} rows={} cols={} values={} stride={}", field_text(spec), rows, cols, text(values), stride),
          target_of(spec), run};
}

}  // namespace

void add_argmax_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(argmax({.threads = 64, .vec = 4, .loads = 2}, 3, 3000, Values::normal));
  if (sweep == Sweep::quick) return;
  for (Values values :
       {Values::normal, Values::few, Values::low, Values::with_nan, Values::infinite, Values::all_low}) {
    cases.push_back(argmax({.threads = 32, .loads = 1}, 4, 257, values, 2));
    cases.push_back(argmax({}, 5, 1, values));
  }
  cases.push_back(argmax({.vec = 2, .chained = 1}, 2, 32000, Values::normal));
  cases.push_back(argmax({.threads = 1024, .vec = 4}, 1, 262144, Values::normal));
  cases.push_back(argmax({}, 0, 100, Values::normal));
  if (sweep == Sweep::full)
    for (Values values : {Values::normal, Values::few}) cases.push_back(argmax({.vec = 4}, 30, 262144, values));
}

void add_argmax_benches(std::vector<Bench>& all) {
  constexpr uint32_t vocab = 128256;
  for (uint32_t rows : {1u, 64u}) {
    const double n = double(rows) * vocab;
    all.push_back(float_bench(
        "argmax", fmt::format("{} x {}", rows, vocab), Argmax{.vec = 4, .chained = 1}, size_t(n), n * 4, n,
        [=](Machine& m, Random&) {
          return Argmax::Args{.ids = m.poisoned<uint32_t>(rows),
                              .x = {},
                              .best = m.put(std::vector<uint64_t>(rows)),
                              .arrived = m.put(std::vector<uint32_t>(rows)),
                              .rows = rows,
                              .cols = vocab};
        },
        [](Argmax::Args& a, ptx::DevicePtr<float> x) { a.x = x; }));
  }
}

}  // namespace heddle::proof
