// Cases of the causal softmax.
#include "kernels/attention/causal_softmax.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

using kernels::CausalSoftmax;

struct SoftmaxShape {
  uint32_t heads, queries, keys;
  int32_t offset = 0;
  uint32_t window = 0;
  float cap = 0;  // 0: not capped
  float size = 3;
  float hidden = 0;  // part of the scores that are -infinity; in row 1 all are
};

Case softmax(CausalSoftmax spec, SoftmaxShape s) {
  spec.capped = s.cap != 0;
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t rows = s.heads * s.queries;
    std::vector<float> x = random.normals(size_t(rows) * s.keys, s.size);
    for (size_t i = 0; i < x.size(); ++i)
      if (s.hidden > 0 && (i / s.keys == 1 || random.uniform(0, 1) < s.hidden)) x[i] = -INFINITY;
    const CausalSoftmax::Args args{.y = m.poisoned<float>(x.size()),
                                   .x = m.put(x),
                                   .rows = rows,
                                   .queries = s.queries,
                                   .keys = s.keys,
                                   .offset = s.offset,
                                   .window = s.window,
                                   .scale = 0.7f,
                                   .cap = s.cap};
    m.launch(spec, args);
    std::vector<double> want(x.size(), 0), scale(x.size(), 0);
    double largest = 0;
    for (size_t r = 0; r < rows; ++r) {
      const int64_t position = int64_t(s.offset) + int64_t(r % s.queries);
      auto seen = [&](int64_t i) { return i <= position && (s.window == 0 || i > position - int64_t(s.window)); };
      auto score = [&](size_t i) {
        const double v = double(x[r * s.keys + i]) * double(0.7f);
        return s.cap ? s.cap * std::tanh(v / s.cap) : v;
      };
      double max = -INFINITY, sum = 0;
      for (size_t i = 0; i < s.keys; ++i)
        if (seen(int64_t(i))) {
          max = std::max(max, score(i));
          if (std::isfinite(score(i))) largest = std::max(largest, std::abs(score(i)));
        }
      if (max == -INFINITY) continue;
      for (size_t i = 0; i < s.keys; ++i)
        if (seen(int64_t(i))) sum += std::exp(score(i) - max);
      for (size_t i = 0; i < s.keys; ++i)
        if (seen(int64_t(i))) {
          want[r * s.keys + i] = std::exp(score(i) - max) / sum;
          scale[r * s.keys + i] = want[r * s.keys + i] + 1e-37;  // below the normal numbers nothing is relative
        }
    }
    // Scores: one rounding, capped 8 (division, tanh, product); twice, in numerator and sum, and the difference's own.
    // Then additions (a thread's, with a product each; the warp; the warps), two exponentials, reciprocal and product.
    const uint32_t step = spec.row_per == CausalSoftmax::block ? spec.warps * 32 : 32;
    const double score_error = largest * ((s.cap ? 8 : 1) * 2 + 2) * 0x1p-24;
    const double bound = score_error + (2 * std::ceil(s.keys / double(step)) + 5 + spec.warps + 2) * 0x1p-24 + 8e-7;
    check.near("y", m.get(args.y, x.size()), want, scale, bound);
    check.that(want.size() == size_t(rows) * s.keys, "all values");
  };
  return {"causal_softmax",
          fmt::format("{} heads={} queries={} keys={} offset={} window={} cap={} size={} hidden={}", field_text(spec),
                      s.heads, s.queries, s.keys, s.offset, s.window, s.cap, s.size, s.hidden),
          target_of(spec), run};
}

}  // namespace

void add_causal_softmax_cases(Sweep sweep, std::vector<Case>& cases) {
  for (uint32_t row_per : {CausalSoftmax::warp, CausalSoftmax::block}) {
    const CausalSoftmax spec{.row_per = row_per};
    cases.push_back(softmax(spec, {.heads = 2, .queries = 5, .keys = 130, .offset = 125}));
    if (sweep == Sweep::quick) continue;
    for (uint32_t keys : {0u, 1u, 2u, 127u, 128u, 129u})
      cases.push_back(softmax(spec, {.heads = 2, .queries = 3, .keys = keys, .offset = int32_t(keys) - 2}));
    cases.push_back(softmax(spec, {.heads = 1, .queries = 4, .keys = 5000, .offset = 4996}));
    cases.push_back(softmax(spec, {.heads = 3, .queries = 7, .keys = 65, .offset = -3}));
    cases.push_back(softmax(spec, {.heads = 1, .queries = 40, .keys = 300, .offset = 250, .window = 33}));
    cases.push_back(softmax(spec, {.heads = 1, .queries = 3, .keys = 10, .offset = 30, .window = 22}));
    cases.push_back(softmax(spec, {.heads = 1, .queries = 2, .keys = 257, .offset = 255, .cap = 50, .size = 60}));
    cases.push_back(softmax(spec, {.heads = 1, .queries = 2, .keys = 257, .offset = 255, .cap = 30, .size = 1}));
    cases.push_back(softmax(spec, {.heads = 3, .queries = 2, .keys = 200, .offset = 198, .hidden = 0.5f}));
    cases.push_back(softmax(spec, {.heads = 2, .queries = 2, .keys = 200, .offset = 198, .size = 1000}));
    cases.push_back(
        softmax({.warps = 8, .row_per = row_per, .chained = 1}, {.heads = 4, .queries = 16, .keys = 48, .offset = 32}));
    cases.push_back(softmax({.warps = 1, .row_per = row_per}, {.heads = 0, .queries = 1, .keys = 48}));
    if (sweep == Sweep::full)
      cases.push_back(softmax(spec, {.heads = 8, .queries = 16, .keys = 32768, .offset = 32750}));
  }
}

void add_causal_softmax_benches(std::vector<Bench>& all) {
  constexpr uint32_t keys = 4096;
  for (uint32_t queries : {1u, 128u}) {
    const double n = 32.0 * queries * keys;
    all.push_back(float_bench(
        "causal_softmax", fmt::format("{} rows x {}", 32 * queries, keys), CausalSoftmax{.chained = 1}, size_t(n),
        n * 8, n * 6,
        [=](Machine& m, Random&) {
          return CausalSoftmax::Args{.y = m.poisoned<float>(size_t(n)),
                                     .x = {},
                                     .rows = 32 * queries,
                                     .queries = queries,
                                     .keys = keys,
                                     .offset = int32_t(keys - queries),
                                     .window = 0,
                                     .scale = 0.1f,
                                     .cap = 0};
        },
        [](CausalSoftmax::Args& a, ptx::DevicePtr<float> x) { a.x = x; }));
  }
}

}  // namespace heddle::proof
