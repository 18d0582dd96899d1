// Timing of cluster_attention: one stream, and many.
#include <algorithm>
#include <array>

#include "kernels/attention/cluster_attention.h"
#include "proof/attention/attention_problem.h"

namespace heddle::proof {

namespace {

using kernels::ClusterAttention;

// `clusters`: 0 for one without merging.
Bench one_stream(ClusterAttention spec, uint32_t length, uint32_t clusters) {
  spec.chained = 1;
  spec.merge = clusters > 0;
  const bool q8 = spec.kv == kernels::kv_q8;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto args = AttentionBench::inputs(m, random, length);
    ptx::DevicePtr<float> partial;
    ptx::DevicePtr<uint32_t> arrived;
    ptx::DevicePtr<f16> scales;
    if (q8)
      scales = m.put(
          std::vector<f16>(size_t(AttentionBench::kv_heads) * length * AttentionBench::head_dim / 32, to_f16(0.01f)));
    if (clusters) {
      partial = m.poisoned<float>(spec.partial_count(1, AttentionBench::kv_heads, clusters));
      arrived = m.put(std::vector<uint32_t>(spec.arrived_count(1, AttentionBench::kv_heads), 0));
    }
    return [=](Machine& now, uint32_t r) {
      ClusterAttention::Args a{args(r)};
      a.clusters = clusters;
      a.partial = partial;
      a.arrived = arrived;
      a.k_scale = a.v_scale = scales;
      now.launch(spec, a);
    };
  };
  std::string fields =
      fmt::format(", {} splits, rows={} stages={} warps={}", spec.splits, spec.rows, spec.stages, spec.warps);
  if (clusters) fields = fmt::format(", {} x {}", clusters, fields.substr(2));
  if (spec.ahead) fields += fmt::format(" ahead={}", spec.ahead);
  if (spec.layout == kernels::kv_paged) fields += q8 ? ", q8 in pages" : ", in pages";
  Bench all = AttentionBench::bench("cluster_attention", length, fields, "sm_90", prepare);
  if (q8) all.bytes *= 17.0 / 32;
  return all;
}

// Streams of these lengths in one launch.
Bench many_streams(ClusterAttention spec, uint32_t clusters, const std::vector<int32_t>& lengths, std::string shape) {
  using B = AttentionBench;
  constexpr uint32_t page = 32;
  spec.layout = kernels::kv_paged;
  spec.length = kernels::length_indirect;
  spec.chained = 1;
  double positions = 0;
  for (int32_t length : lengths) positions += length;
  const bool q8 = spec.kv == kernels::kv_q8;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto longest = uint32_t(*std::max_element(lengths.begin(), lengths.end()));
    const auto sequences = uint32_t(lengths.size());
    ClusterAttention::Args args{};
    args.table_stride = longest / page + 1;
    std::vector<int32_t> table(size_t(sequences) * args.table_stride);
    int32_t pages = 0;
    for (uint32_t i = 0; i * page < longest; ++i)  // streams grow together, so their pages lie side by side
      for (uint32_t r = 0; r < sequences; ++r)
        if (i * page < uint32_t(lengths[r])) table[size_t(r) * args.table_stride + i] = pages++;
    const size_t values = size_t(pages) * page * B::kv_heads * B::head_dim;
    const std::vector<f16> block = half_inputs(random, 1 << 20);
    std::vector<f16> cache;
    while (cache.size() < (q8 ? values / 2 : values)) cache.insert(cache.end(), block.begin(), block.end());
    args.k.address = m.put(cache).address;
    args.v.address = m.put(cache).address;
    if (q8) args.k_scale = args.v_scale = m.put(std::vector<f16>(values / 32, to_f16(0.01f)));
    args.table = m.put(table);
    args.lengths = m.put(lengths);
    args.q = m.put(random.normals(size_t(sequences) * B::heads * B::head_dim));
    args.out = m.poisoned<float>(size_t(sequences) * B::heads * B::head_dim);
    args.sequences = sequences;
    args.heads = B::heads;
    args.kv_heads = B::kv_heads;
    args.page_size = page;
    args.scale = 1 / std::sqrt(float(B::head_dim));
    args.clusters = clusters;
    if (spec.merge) {
      args.partial = m.poisoned<float>(spec.partial_count(sequences, B::kv_heads, clusters));
      args.arrived = m.put(std::vector<uint32_t>(spec.arrived_count(sequences, B::kv_heads), 0));
    }
    return [=](Machine& now, uint32_t) { now.launch(spec, args); };
  };
  const double values = positions * B::kv_heads * B::head_dim;
  return {"cluster_attention",
          std::move(shape),
          "sm_90",
          values * (q8 ? 2.125 : 4),
          4.0 * positions * B::heads * B::head_dim,
          prepare};
}

}  // namespace

void add_cluster_attention_benches(std::vector<Bench>& all) {
  for (uint32_t length : {512u, 4096u, 32768u}) {
    const auto [spec, clusters] =
        kernels::cluster_choice(AttentionBench::head_dim, AttentionBench::kv_heads, 1, length, AttentionBench::sms);
    all.push_back(one_stream(spec, length, spec.merge ? clusters : 0));
  }
  auto streams = [&](uint32_t count, uint32_t shortest, uint32_t longest) {
    std::vector<int32_t> lengths;
    for (uint32_t i = 0; i < count; ++i)
      lengths.push_back(int32_t(shortest + (longest - shortest) * (i * 29 % count) / count));
    const auto [spec, clusters] = kernels::cluster_choice(AttentionBench::head_dim, AttentionBench::kv_heads, count,
                                                          longest, AttentionBench::sms);
    all.push_back(many_streams(spec, clusters, lengths,
                               fmt::format("{} streams of {} to {} positions", count, shortest, longest)));
  };
  streams(64, 576, 577);
  streams(64, 64, 1088);
  streams(64, 512, 4608);
  streams(256, 576, 577);
  // the candidates where latency and bandwidth count alike
  using Choice = std::array<uint32_t, 6>;
  const Choice choices[] = {
      // splits, rows, stages, warps, ahead, clusters
      {2, 8, 3, 4, 0, 8},   {2, 8, 4, 4, 0, 8},  {2, 8, 3, 4, 1, 8},  {2, 16, 2, 8, 0, 8},
      {1, 16, 2, 8, 0, 16}, {4, 16, 2, 8, 0, 4}, {4, 16, 2, 8, 0, 3}, {8, 16, 2, 8, 0, 0},
      {8, 16, 2, 8, 2, 0},  {8, 8, 4, 4, 0, 0},  {8, 8, 3, 4, 0, 0},
  };
  for (const auto& [splits, rows, stages, warps, ahead, clusters] : choices)
    for (bool q8 : {false, true}) {
      const ClusterAttention spec{.layout = kernels::kv_paged,
                                  .splits = splits,
                                  .rows = rows,
                                  .stages = stages,
                                  .warps = warps,
                                  .ahead = ahead};
      all.push_back(one_stream(q8 ? kernels::as_q8(spec) : spec, 4096, clusters));
    }
}

}  // namespace heddle::proof
