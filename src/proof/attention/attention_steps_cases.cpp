// Cases of rope, kv_scatter and causal_softmax.
#include <numeric>

#include "base/rope_frequencies.h"
#include "kernels/attention/attention_steps.h"
#include "proof/bench.h"

namespace heddle::proof {

// Cases of RoPE: against f64 angles computed from the frequencies, not from the kernel's table.

namespace {

using kernels::Rope;

struct RopeShape {
  uint32_t tokens, q_heads, k_heads, head_dim, rotary_dim;
  uint32_t gap = 0;  // values between the rows
  bool in_place = false;
  int32_t last_position = 131071;
};

// What the result buffer becomes: the values between the rows stay as they were, what is not rotary is copied.
void turn(const std::vector<float>& x, const std::vector<float>& before, uint32_t heads, uint32_t stride,
          const std::vector<int32_t>& positions, const RopeFrequencies& frequencies, const RopeShape& s, uint32_t pairs,
          std::vector<double>& want, std::vector<double>& scale) {
  want.assign(x.begin(), x.end());
  scale.assign(x.size(), 0);
  for (size_t i = 0; i < x.size(); ++i)
    if (i % stride >= heads * s.head_dim) want[i] = before[i];
  const uint32_t half = s.rotary_dim / 2;
  for (size_t t = 0; t < s.tokens; ++t)
    for (uint32_t h = 0; h < heads; ++h)
      for (uint32_t i = 0; i < half; ++i) {
        const size_t head = t * stride + size_t(h) * s.head_dim;
        const size_t first = head + (pairs == Rope::interleaved ? 2 * i : i);
        const size_t second = pairs == Rope::interleaved ? first + 1 : first + half;
        // f64 loses 2^-53 of the angle, 2e-11 at 131071
        const double angle = positions[t] * frequencies.radians[i], m = frequencies.magnitude;
        want[first] = (x[first] * std::cos(angle) - x[second] * std::sin(angle)) * m;
        want[second] = (x[first] * std::sin(angle) + x[second] * std::cos(angle)) * m;
        scale[first] = scale[second] = (std::abs(x[first]) + std::abs(x[second])) * m;
      }
}

Case rope(Rope spec, RopeShape s, const std::string& scaling_name = "none", RopeScaling scaling = {}) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const RopeFrequencies frequencies =
        s.rotary_dim ? rope_frequencies(s.rotary_dim, 10000, scaling) : RopeFrequencies{};
    std::vector<int32_t> positions(s.tokens);
    for (auto& p : positions) p = int32_t(random.below(uint32_t(s.last_position) + 1));
    if (s.tokens > 0) positions[0] = s.last_position;
    if (s.tokens > 1) positions[1] = 0;
    if (s.tokens > 2) positions[2] = -5;  // a shift backwards

    const uint32_t q_stride = s.q_heads * s.head_dim + s.gap, k_stride = s.k_heads * s.head_dim + s.gap;
    const std::vector<float> q = random.normals(size_t(s.tokens) * q_stride),
                             k = random.normals(size_t(s.tokens) * k_stride);
    auto q_in = m.put(q), k_in = m.put(k);
    const std::vector<float> q_before = s.in_place ? q : random.normals(q.size()),
                             k_before = s.in_place ? k : random.normals(k.size());
    auto q_out = s.in_place ? q_in : m.put(q_before), k_out = s.in_place ? k_in : m.put(k_before);
    m.launch(spec, Rope::Args{.q_out = q_out,
                              .q = q_in,
                              .k_out = k_out,
                              .k = k_in,
                              .positions = m.put(positions),
                              .turns = m.put(frequencies.turns()),
                              .tokens = s.tokens,
                              .q_heads = s.q_heads,
                              .k_heads = s.k_heads,
                              .head_dim = s.head_dim,
                              .rotary_dim = s.rotary_dim,
                              .q_out_stride = q_stride,
                              .q_stride = q_stride,
                              .k_out_stride = k_stride,
                              .k_stride = k_stride,
                              .magnitude = float(frequencies.magnitude)});
    std::vector<double> want, scale;
    // sine and cosine to 1.5e-7, the magnitude, two products and a sum to 2^-24 each
    const double bound = 1.5e-7 + 3 * 0x1p-24;
    turn(q, q_before, s.q_heads, q_stride, positions, frequencies, s, spec.pairs, want, scale);
    check.near("q", m.get(q_out, q.size()), want, scale, bound);
    turn(k, k_before, s.k_heads, k_stride, positions, frequencies, s, spec.pairs, want, scale);
    check.near("k", m.get(k_out, k.size()), want, scale, bound);
    check.that(frequencies.radians.size() == s.rotary_dim / 2, "a frequency per pair");
  };
  return {"rope",
          fmt::format("{} tokens={} heads={}+{} dim={}/{} gap={} in_place={} last={} scaling={}", field_text(spec),
                      s.tokens, s.q_heads, s.k_heads, s.rotary_dim, s.head_dim, s.gap, s.in_place, s.last_position,
                      scaling_name),
          target_of(spec), run};
}

}  // namespace

void add_rope_cases(Sweep sweep, std::vector<Case>& cases) {
  using Kind = RopeScaling::Kind;
  for (uint32_t pairs : {Rope::interleaved, Rope::half_split})
    cases.push_back(
        rope({.pairs = pairs}, {.tokens = 3, .q_heads = 4, .k_heads = 2, .head_dim = 64, .rotary_dim = 64}));
  if (sweep == Sweep::quick) return;
  for (uint32_t pairs : {Rope::interleaved, Rope::half_split}) {
    cases.push_back(rope({.threads = 32, .pairs = pairs},
                         {.tokens = 5, .q_heads = 3, .k_heads = 1, .head_dim = 80, .rotary_dim = 32, .gap = 7}));
    cases.push_back(rope(
        {.threads = 256, .pairs = pairs, .chained = 1},
        {.tokens = 9, .q_heads = 8, .k_heads = 8, .head_dim = 128, .rotary_dim = 128, .gap = 128, .in_place = true}));
    cases.push_back(rope({.pairs = pairs}, {.tokens = 4, .q_heads = 0, .k_heads = 1, .head_dim = 2, .rotary_dim = 2}));
    cases.push_back(rope({.pairs = pairs}, {.tokens = 2, .q_heads = 3, .k_heads = 0, .head_dim = 6, .rotary_dim = 0}));
    cases.push_back(
        rope({.pairs = pairs}, {.tokens = 0, .q_heads = 4, .k_heads = 4, .head_dim = 64, .rotary_dim = 64}));
  }
  const RopeShape far{
      .tokens = 200, .q_heads = 1, .k_heads = 1, .head_dim = 256, .rotary_dim = 256, .last_position = 1 << 20};
  cases.push_back(rope({}, far));
  const RopeShape scaled{.tokens = 8, .q_heads = 2, .k_heads = 1, .head_dim = 128, .rotary_dim = 96};
  cases.push_back(rope({}, scaled, "linear", {.kind = Kind::linear, .factor = 8}));
  cases.push_back(rope({}, scaled, "ntk", {.kind = Kind::ntk, .factor = 4}));
  cases.push_back(rope({}, scaled, "yarn", {.kind = Kind::yarn, .factor = 32, .original_length = 4096}));
  cases.push_back(rope({}, scaled, "llama3", {.kind = Kind::llama3, .factor = 8, .original_length = 8192}));
  RopeScaling table{.kind = Kind::factors};
  for (uint32_t i = 0; i < 48; ++i) table.factors.push_back(1 + i * 0.7);
  cases.push_back(rope({}, scaled, "factors", table));
  if (sweep == Sweep::normal) return;
  cases.push_back(rope({}, {.tokens = 1000, .q_heads = 32, .k_heads = 8, .head_dim = 128, .rotary_dim = 128}));
}

void add_rope_benches(std::vector<Bench>& all) {
  constexpr uint32_t q_heads = 32, k_heads = 8, dim = 128, stride = (q_heads + k_heads) * dim;
  for (uint32_t tokens : {1u, 512u}) {
    const double n = double(tokens) * stride;
    all.push_back(float_bench(
        "rope", fmt::format("{} tokens, 32 + 8 heads of 128", tokens), Rope{.chained = 1}, size_t(n), n * 8, n * 3,
        [=](Machine& m, Random&) {
          std::vector<int32_t> positions(tokens);
          std::iota(positions.begin(), positions.end(), 0);
          const auto out = m.poisoned<float>(size_t(n));
          return Rope::Args{.q_out = out,
                            .q = {},
                            .k_out = {out.address + q_heads * dim * sizeof(float)},
                            .k = {},
                            .positions = m.put(positions),
                            .turns = m.put(rope_frequencies(dim, 10000).turns()),
                            .tokens = tokens,
                            .q_heads = q_heads,
                            .k_heads = k_heads,
                            .head_dim = dim,
                            .rotary_dim = dim,
                            .q_out_stride = stride,
                            .q_stride = stride,
                            .k_out_stride = stride,
                            .k_stride = stride};
        },
        [](Rope::Args& a, ptx::DevicePtr<float> x) {
          a.q = x;
          a.k.address = x.address + q_heads * dim * sizeof(float);
        }));
  }
}

// Cases of the KV scatter: the whole cache is compared, so that a write to a wrong place shows.

namespace {

using kernels::KvScatter;

struct ScatterShape {
  uint32_t rows, sequences, kv_heads;
  uint32_t max_len = 40;                   // not paged
  uint32_t page_size = 16, max_pages = 3;  // paged
  uint32_t gap = 0;                        // values between the rows of k_new and v_new
};

// Elements as bits, f16 or f32.
template <class T>
T element(float v) {
  if constexpr (sizeof(T) == 2)
    return to_f16(v).bits;
  else
    return std::bit_cast<uint32_t>(v);
}

template <class T>
void run_scatter(const KvScatter& spec, const ScatterShape& s, Machine& m, Random& random, Check& check) {
  const uint32_t dim = spec.head_dim, values = s.kv_heads * dim, stride = values + s.gap;
  const bool paged = spec.layout == kernels::kv_paged;
  const uint32_t capacity = paged ? s.page_size * s.max_pages : s.max_len;
  // each row goes to a place of its own
  std::vector<int32_t> sequence_of(s.rows), positions(s.rows);
  for (uint32_t r = 0; r < s.rows; ++r) {
    sequence_of[r] = spec.layout == kernels::kv_single ? 0 : int32_t(spec.mapped ? r % s.sequences : r);
    positions[r] = r % 5 == 3 ? -1 : int32_t((capacity - 1 - r / s.sequences * 7) % capacity);
  }
  // pages in a random order; places are (page or sequence, kv head, row within)
  std::vector<int32_t> table(size_t(s.sequences) * s.max_pages);
  for (size_t i = 0; i < table.size(); ++i) table[i] = int32_t(i);
  for (size_t i = table.size(); i > 1; --i) std::swap(table[i - 1], table[random.below(uint32_t(i))]);
  const uint32_t parts = paged ? uint32_t(table.size()) : s.sequences, length = paged ? s.page_size : s.max_len;

  std::vector<T> cache[2], want[2];
  std::vector<float> fresh[2];
  for (int kv = 0; kv < 2; ++kv) {
    cache[kv].resize(size_t(parts) * s.kv_heads * length * dim);
    for (auto& v : cache[kv]) v = T(random.bits());
    want[kv] = cache[kv];
    fresh[kv] = random.normals(size_t(s.rows) * stride, 100);
    for (uint32_t r = 0; r < s.rows; ++r) {
      if (positions[r] < 0) continue;
      const uint32_t p = uint32_t(positions[r]), sequence = uint32_t(sequence_of[r]);
      const uint32_t part = paged ? uint32_t(table[sequence * s.max_pages + p / s.page_size]) : sequence;
      for (uint32_t h = 0; h < s.kv_heads; ++h)
        for (uint32_t i = 0; i < dim; ++i)
          want[kv][((size_t(part) * s.kv_heads + h) * length + p % length) * dim + i] =
              element<T>(fresh[kv][size_t(r) * stride + h * dim + i]);
    }
  }
  const auto k = m.put(cache[0]), v = m.put(cache[1]);
  std::vector<uint64_t> k_base, v_base;
  for (uint64_t i = 0; i < s.sequences; ++i) {
    const uint64_t bytes = uint64_t(s.kv_heads) * s.max_len * dim * sizeof(T);
    k_base.push_back(k.address + i * bytes);
    v_base.push_back(v.address + i * bytes);
  }
  m.launch(spec, KvScatter::Args{.k_new = m.put(fresh[0]),
                                 .v_new = m.put(fresh[1]),
                                 .positions = m.put(positions),
                                 .sequence_of = m.put(sequence_of),
                                 .k = {k.address},
                                 .v = {v.address},
                                 .k_base = m.put(k_base),
                                 .v_base = m.put(v_base),
                                 .table = m.put(table),
                                 .rows = s.rows,
                                 .kv_heads = s.kv_heads,
                                 .k_stride = stride,
                                 .v_stride = stride,
                                 .max_len = s.max_len,
                                 .page_size = s.page_size,
                                 .table_stride = s.max_pages});
  check.equal("k", m.get(k, cache[0].size()), want[0]);
  check.equal("v", m.get(v, cache[1].size()), want[1]);
}

Case scatter(KvScatter spec, ScatterShape s) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    if (spec.kv == kernels::kv_f16)
      run_scatter<uint16_t>(spec, s, m, random, check);
    else
      run_scatter<uint32_t>(spec, s, m, random, check);
  };
  return {"kv_scatter",
          fmt::format("{} rows={} sequences={} kv_heads={} max_len={} page={} pages={} gap={}", field_text(spec),
                      s.rows, s.sequences, s.kv_heads, s.max_len, s.page_size, s.max_pages, s.gap),
          target_of(spec), run};
}

// Caches beyond 4 GiB: only the rows that must have been written are read back.
Case far_scatter() {
  const KvScatter spec{.head_dim = 128, .kv = kernels::kv_f16, .layout = kernels::kv_single};
  auto run = [=](Machine& m, Random& random, Check& check) {
    constexpr uint32_t heads = 32, max_len = 600000, dim = 128, rows = 5;
    const size_t values = size_t(heads) * max_len * dim;
    const auto k = m.poisoned<uint16_t>(values), v = m.poisoned<uint16_t>(values);
    const std::vector<float> fresh = random.normals(size_t(2) * rows * heads * dim);
    const std::vector<int32_t> positions{max_len - 1, 0, 524288, 131071, max_len / 2};
    const uint32_t stride = 2 * heads * dim;
    const auto k_new = m.put(fresh);
    m.launch(spec, KvScatter::Args{.k_new = k_new,
                                   .v_new = {k_new.address + heads * dim * sizeof(float)},
                                   .positions = m.put(positions),
                                   .sequence_of = {},
                                   .k = {k.address},
                                   .v = {v.address},
                                   .k_base = {},
                                   .v_base = {},
                                   .table = {},
                                   .rows = rows,
                                   .kv_heads = heads,
                                   .k_stride = stride,
                                   .v_stride = stride,
                                   .max_len = max_len,
                                   .page_size = 0,
                                   .table_stride = 0});
    for (size_t r = 0; r < rows; ++r)
      for (size_t h = 0; h < heads; ++h) {
        const uint64_t at = ((h * max_len + uint64_t(positions[r])) * dim) * 2;
        std::vector<uint16_t> want[2];
        for (size_t i = 0; i < dim; ++i)
          for (size_t kv = 0; kv < 2; ++kv)
            want[kv].push_back(to_f16(fresh[r * stride + (kv * heads + h) * dim + i]).bits);
        check.equal("k", m.get(ptx::DevicePtr<uint16_t>{k.address + at}, dim), want[0]);
        check.equal("v", m.get(ptx::DevicePtr<uint16_t>{v.address + at}, dim), want[1]);
      }
  };
  return {"kv_scatter", fmt::format("{} beyond 4 GiB", field_text(spec)), "sm_75", run};
}

}  // namespace

void add_kv_scatter_cases(Sweep sweep, std::vector<Case>& cases) {
  using namespace kernels;
  cases.push_back(
      scatter({.head_dim = 64, .kv = kv_f16, .layout = kv_batched}, {.rows = 3, .sequences = 3, .kv_heads = 2}));
  cases.push_back(
      scatter({.head_dim = 64, .kv = kv_f16, .layout = kv_paged}, {.rows = 3, .sequences = 3, .kv_heads = 2}));
  if (sweep == Sweep::quick) return;
  for (uint32_t kv : {kv_f16, kv_f32})
    for (uint32_t layout : {kv_single, kv_batched, kv_paged}) {
      const uint32_t several = layout == kv_single ? 1 : 7;
      if (layout != kv_single)
        cases.push_back(scatter({.head_dim = 80, .kv = kv, .layout = layout},
                                {.rows = 7, .sequences = 7, .kv_heads = 5, .page_size = 48, .gap = 12}));
      cases.push_back(
          scatter({.head_dim = 128, .kv = kv, .layout = layout, .mapped = layout != kv_single, .chained = 1},
                  {.rows = 16, .sequences = several == 1 ? 1u : 4u, .kv_heads = 8, .max_len = 130}));
      cases.push_back(scatter({.head_dim = 256, .kv = kv, .layout = layout},
                              {.rows = 1, .sequences = 1, .kv_heads = 1, .max_len = 1, .max_pages = 1}));
      cases.push_back(scatter({.head_dim = 8, .kv = kv, .layout = layout}, {.rows = 0, .sequences = 1, .kv_heads = 1}));
    }
  if (sweep == Sweep::normal) return;
  cases.push_back(far_scatter());
}

void add_kv_scatter_benches(std::vector<Bench>& all) {
  constexpr uint32_t kv_heads = 8, dim = 128, max_len = 1024;
  for (uint32_t sequences : {1u, 64u}) {
    const double n = double(sequences) * kv_heads * dim;
    all.push_back(float_bench(
        "kv_scatter", fmt::format("{} sequences, 8 heads of 128", sequences), KvScatter{.chained = 1}, size_t(n) * 2,
        n * 12, 0,
        [=](Machine& m, Random&) {
          std::vector<uint64_t> k, v;
          for (uint32_t i = 0; i < sequences; ++i) {
            k.push_back(m.poisoned<f16>(size_t(kv_heads) * max_len * dim).address);
            v.push_back(m.poisoned<f16>(size_t(kv_heads) * max_len * dim).address);
          }
          KvScatter::Args a{};
          a.k_base = m.put(k);
          a.v_base = m.put(v);
          a.positions = m.put(std::vector<int32_t>(sequences, 512));
          a.rows = sequences;
          a.kv_heads = kv_heads;
          a.k_stride = a.v_stride = kv_heads * dim;
          a.max_len = max_len;
          return a;
        },
        [=](KvScatter::Args& a, ptx::DevicePtr<float> x) {
          a.k_new = x;
          a.v_new.address = x.address + uint64_t(n) * sizeof(float);
        }));
  }
}

// Cases of the causal softmax.

namespace {

using kernels::CausalSoftmax;

struct SoftmaxShape {
  uint32_t heads, queries, keys;
  int32_t offset = 0;
  uint32_t window = 0;
  float cap = 0;  // 0: no soft-cap
  float size = 3;
  float hidden = 0;  // fraction of the scores that are -infinity; in row 1 all are
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
