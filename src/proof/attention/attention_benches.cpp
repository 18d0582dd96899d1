// Timing of the attention kernels: 32 heads over 8 kv heads of 128, one sequence.
#include <array>

#include "kernels/attention/cluster_attention.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

using kernels::Attention;
using kernels::ClusterAttention;
using kernels::FlashDecodingReduce;

constexpr uint32_t heads = 32, kv_heads = 8, head_dim = 128;
constexpr uint32_t sms = 132;  // that choices are made for

// A cache of random halves around 1, several times over, in the layouts "single" and "batched".
template <class Args>
std::function<Args(uint32_t)> inputs(Machine& m, Random& random, uint32_t length) {
  const size_t values = size_t(kv_heads) * length * head_dim;
  std::vector<uint8_t> one = random.bytes(values * 2);
  for (size_t i = 1; i < one.size(); i += 2) one[i] = uint8_t(0x38 | (one[i] & 0x83));  // exponents of 0.5 to 1
  Args args{};
  args.q = m.put(random.normals(heads * head_dim));
  args.out = m.poisoned<float>(heads * head_dim);
  args.lengths = m.put(std::vector{int32_t(length)});
  args.sequences = 1, args.heads = heads, args.kv_heads = kv_heads, args.length = args.max_len = length;
  args.scale = 1 / std::sqrt(float(head_dim));
  std::vector<Args> rotation;
  args.page_size = 64, args.table_stride = length / 64;
  std::vector<int32_t> pages(args.table_stride);
  for (uint32_t i = 0; i < pages.size(); ++i)
    pages[i] = int32_t((i * 37 + 5) % pages.size());  // 37 is odd: all of them
  args.table = m.put(pages);
  for (uint32_t i = 0; i < copies(double(values) * 4); ++i) {
    args.k = m.put(one), args.v = m.put(one);
    args.k_base = m.put(std::vector{args.k.address}), args.v_base = m.put(std::vector{args.v.address});
    rotation.push_back(args);
  }
  return [=](uint32_t r) { return rotation[r % rotation.size()]; };
}

Bench bench(std::string kernel, uint32_t length, const std::string& fields, std::string target, auto&& prepare) {
  return {std::move(kernel),
          fmt::format("{} positions, {}/{} heads of {}{}", length, heads, kv_heads, head_dim, fields),
          std::move(target),
          4.0 * kv_heads * length * head_dim,
          4.0 * heads * length * head_dim,
          prepare};
}

Bench simt(std::string kernel, const Attention& spec, uint32_t length) {
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto args = inputs<Attention::Args>(m, random, length);
    return [=](Machine& now, uint32_t r) { now.launch(spec, args(r)); };
  };
  return bench(std::move(kernel), length, fmt::format(", warps={}", spec.warps), "sm_75", prepare);
}

// Both launches are one round.
Bench split(uint32_t length, uint32_t chunk) {
  const Attention spec{.length = kernels::length_indirect, .warps = 4, .split = 1};
  const uint32_t chunks = length / chunk;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto args = inputs<Attention::Args>(m, random, length);
    const auto partial = m.poisoned<float>(size_t(heads) * chunks * Attention::partial_row(head_dim));
    return [=](Machine& now, uint32_t r) {
      Attention::Args a = args(r);
      a.partial = partial, a.chunk = chunk, a.chunks = chunks;
      now.launch(spec, a);
      now.launch(FlashDecodingReduce{},
                 {.out = a.out, .partial = partial, .sequences = 1, .heads = heads, .chunks = chunks});
    };
  };
  return bench("flash_decoding_chunk", length, fmt::format(", chunks of {}, reduced", chunk), "sm_75", prepare);
}

// `clusters`: 0 for one without merging.
Bench cluster(ClusterAttention spec, uint32_t length, uint32_t clusters) {
  spec.chained = 1, spec.merge = clusters > 0;
  const bool q8 = spec.kv == kernels::kv_q8;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto args = inputs<ClusterAttention::Args>(m, random, length);
    ptx::DevicePtr<float> partial;
    ptx::DevicePtr<uint32_t> arrived;
    ptx::DevicePtr<f16> scales;
    if (q8) scales = m.put(std::vector<f16>(size_t(kv_heads) * length * head_dim / 32, to_f16(0.01f)));
    if (clusters) {
      partial = m.poisoned<float>(spec.partial_count(1, kv_heads, clusters));
      arrived = m.put(std::vector<uint32_t>(spec.arrived_count(1, kv_heads), 0));
    }
    return [=](Machine& now, uint32_t r) {
      ClusterAttention::Args a = args(r);
      a.clusters = clusters, a.partial = partial, a.arrived = arrived;
      a.k_scale = a.v_scale = scales;
      now.launch(spec, a);
    };
  };
  std::string fields =
      fmt::format(", {} splits, rows={} stages={} warps={}", spec.splits, spec.rows, spec.stages, spec.warps);
  if (clusters) fields = fmt::format(", {} x {}", clusters, fields.substr(2));
  if (spec.ahead) fields += fmt::format(" ahead={}", spec.ahead);
  if (spec.layout == kernels::kv_paged) fields += q8 ? ", q8 in pages" : ", in pages";
  Bench all = bench("cluster_attention", length, fields, "sm_90", prepare);
  if (q8) all.bytes *= 17.0 / 32;
  return all;
}

}  // namespace

void add_attention_benches(std::vector<Bench>& all) {
  for (uint32_t length : {512u, 4096u, 32768u}) {
    all.push_back(simt("incremental_attention", {}, length));
    all.push_back(simt("multi_warp_attention", {.warps = 16}, length));
    all.push_back(simt("batched_incremental_attention",
                       {.layout = kernels::kv_batched, .length = kernels::length_indirect, .warps = 4}, length));
    all.push_back(simt("incremental_attention_indirect", {.length = kernels::length_indirect}, length));
    all.push_back(simt("multi_warp_attention_indirect", {.length = kernels::length_indirect, .warps = 16}, length));
    all.push_back(
        simt("paged_attention", {.layout = kernels::kv_paged, .length = kernels::length_indirect, .warps = 4}, length));
    all.push_back(split(length, length > 4096 ? 512 : 128));
    const auto [spec, clusters] = kernels::cluster_choice(head_dim, kv_heads, 1, length, sms);
    all.push_back(cluster(spec, length, spec.merge ? clusters : 0));
  }
  // what there is to choose from where latency and bandwidth count alike
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
      all.push_back(cluster(q8 ? kernels::as_q8(spec) : spec, 4096, clusters));
    }
}

}  // namespace heddle::proof
