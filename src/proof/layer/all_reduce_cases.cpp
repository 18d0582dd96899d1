// Cases of all_reduce: one rank, with the parts of its peers already in place. Several ranks at once are tested by
// tests/kernels/layer/all_reduce_test.cpp, and several processes by tests/on_gpu/ranks_on_gpu.cpp.
#include "kernels/layer/all_reduce.h"
#include "proof/case.h"

namespace heddle::proof {
namespace {

using kernels::AllReduce;

// Two rounds: the peers' flags say that they are in the second.
Case all_reduce(AllReduce spec, uint32_t rank, uint32_t rows, uint32_t cols, uint32_t values) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const kernels::MailboxLayout layout{spec.ranks, rows + 2, (cols + 63) / 64 * 64};
    const float scale = 0.75f, epsilon = 1e-5f, after = 1.25f;
    const std::vector<float> h = random.normals(values), w = random.normals(cols);
    std::vector<float> parts[2];  // of each round: (ranks, values)
    for (auto& part : parts) part = random.normals(size_t(spec.ranks) * values);
    AllReduce::Args args{.h = spec.add ? m.put(h) : ptx::DevicePtr<float>{},
                         .weight = spec.norm ? m.put(w) : ptx::DevicePtr<float>{},
                         .stop = m.put(std::vector<uint32_t>{0}),
                         .limit = uint64_t(10) * 1000 * 1000 * 1000,
                         .rank = rank,
                         .places = layout.places,
                         .place = layout.place,
                         .rows = rows,
                         .cols = cols,
                         .values = values,
                         .scale = scale,
                         .epsilon = epsilon,
                         .after = after};
    for (uint32_t r = 0; r < spec.ranks; ++r) {
      std::vector<uint8_t> box(layout.bytes(), r == rank ? 0 : 0xCC);
      for (uint32_t round : {1u, 2u})
        for (uint32_t i = 0; r != rank && i < values; ++i) {
          const uint64_t place = uint64_t(round % 2) * layout.places + i / cols;
          std::memcpy(&box[(place * layout.place + i % cols) * 4], &parts[round - 1][size_t(r) * values + i], 4);
        }
      const uint32_t two = 2;
      for (uint32_t from = 0; r == rank && from < spec.ranks; ++from)
        for (uint32_t place = 0; from != rank && place < layout.places; ++place)
          std::memcpy(&box[layout.flags_at() + (uint64_t(from) * layout.places + place) * 4], &two, 4);
      args.*AllReduce::boxes[r] = m.put(box);
    }
    std::vector<double> want(h.begin(), h.end()), sizes(h.begin(), h.end());
    for (double& size : sizes) size = std::abs(size);
    for (const auto& part : parts) {
      args.y = m.put(std::vector<float>(part.begin() + rank * values, part.begin() + (rank + 1) * values));
      m.launch(spec, args);
      std::vector<float> sum(values);
      for (uint32_t i = 0; i < values; ++i)
        for (uint32_t r = 0; r < spec.ranks; ++r) sum[i] = r ? sum[i] + part[size_t(r) * values + i] : part[i];
      if (!spec.add) check.equal("y", m.get(args.y, values), sum);
      for (uint32_t first = 0; first < values; first += cols) {
        const uint32_t end = std::min(first + cols, values);
        double mean = 0, squares = 0;
        for (uint32_t i = first; spec.norm == kernels::norm_layer && i < end; ++i) mean += double(sum[i]) / cols;
        for (uint32_t i = first; i < end; ++i) squares += (sum[i] - mean) * (sum[i] - mean);
        const double factor = 1 / std::sqrt(squares / cols + double(epsilon));
        // a value close to the mean has the error of the mean
        const double close = spec.norm == kernels::norm_layer ? std::sqrt(squares / cols) : 0;
        for (uint32_t i = first; i < end; ++i) {
          const double of_norm = spec.norm ? factor * w[i - first] : 1, times = spec.after ? after : 1;
          want[i] = (want[i] + scale * (sum[i] - mean) * of_norm) * times;
          sizes[i] = (sizes[i] + scale * (std::abs(sum[i] - mean) + close) * std::abs(of_norm)) * times;
        }
      }
    }
    const double additions = std::ceil(double(cols) / spec.threads) + 5 + spec.threads / 32.0;
    if (spec.add) check.near("h", m.get(args.h, values), want, sizes, (additions / 2 + 16) * 0x1p-24);
    check.equal("stop", m.get(args.stop, 1), {0u});
  };
  return {"all_reduce", fmt::format("{} rank={} rows={} cols={} values={}", field_text(spec), rank, rows, cols, values),
          target_of(spec), run};
}

}  // namespace

void add_all_reduce_cases(Sweep sweep, std::vector<Case>& cases) {
  using kernels::norm_layer, kernels::norm_none, kernels::norm_rms;
  cases.push_back(all_reduce({}, 1, 2, 1000, 2000));
  if (sweep == Sweep::quick) return;
  for (uint32_t ranks : {2u, 3u, 8u}) {
    cases.push_back(all_reduce({.threads = 32, .ranks = ranks, .vec = 1}, ranks - 1, 3, 65, 131));
    cases.push_back(all_reduce({.threads = 64, .ranks = ranks, .chained = 1}, ranks / 2, 2, 132, 136));
  }
  for (uint32_t norm : {norm_none, norm_rms, norm_layer})
    for (uint32_t after : {0u, 1u})
      cases.push_back(
          all_reduce({.threads = 96, .ranks = 4, .norm = norm, .add = 1, .after = after, .chained = 1 - after}, after,
                     3, 520, 1560));
  cases.push_back(all_reduce({}, 0, 1, 4, 4));
  if (sweep == Sweep::full) {
    for (uint32_t norm : {norm_none, norm_rms})
      cases.push_back(all_reduce({.ranks = 8, .norm = norm, .add = 1}, 5, 128, 8192, 128 * 8192));
    cases.push_back(all_reduce({.threads = 1024, .vec = 1}, 0, 128, 4096, 127 * 4096 + 1));
  }
}

}  // namespace heddle::proof
