// Cases of the KV scatter: the whole cache is compared, so that a write to a wrong place shows.
#include "kernels/attention/kv_scatter.h"
#include "proof/bench.h"

namespace heddle::proof {
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

}  // namespace heddle::proof
