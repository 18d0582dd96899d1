// Timing of the attention kernels: 32 heads over 8 kv heads of 128, one sequence.
#include "kernels/attention_cluster.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

using kernels::Attention;
using kernels::ClusterAttention;

constexpr uint32_t heads = 32, kv_heads = 8, head_dim = 128;

// A cache of random halves around 1, several times over.
template <class Args>
std::function<Args(uint32_t)> inputs(Machine& m, Random& random, uint32_t length) {
  const size_t values = size_t(kv_heads) * length * head_dim;
  std::vector<uint8_t> one = random.bytes(values * 2);
  for (size_t i = 1; i < one.size(); i += 2) one[i] = uint8_t(0x38 | (one[i] & 0x83));  // exponents of 0.5 to 1
  std::vector<ptx::DevicePtr<uint8_t>> caches;
  for (uint32_t i = 0; i < copies(double(values) * 4); ++i) caches.push_back(m.put(one)), caches.push_back(m.put(one));
  Args args{};
  args.q = m.put(random.normals(heads * head_dim));
  args.out = m.poisoned<float>(heads * head_dim);
  args.lengths = m.put(std::vector{int32_t(length)});
  args.sequences = 1, args.heads = heads, args.kv_heads = kv_heads, args.length = args.max_len = length;
  args.scale = 1 / std::sqrt(float(head_dim));
  return [=](uint32_t r) {
    Args now = args;
    now.k = caches[r * 2 % caches.size()], now.v = caches[(r * 2 + 1) % caches.size()];
    return now;
  };
}

template <class Spec>
Bench one(std::string kernel, const Spec& spec, uint32_t length) {
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto args = inputs<typename Spec::Args>(m, random, length);
    return [=](Machine& now, uint32_t r) { now.launch(spec, args(r)); };
  };
  const double positions = double(length) * kv_heads;
  return {std::move(kernel),
          fmt::format("length={} {}", length, field_text(spec)),
          std::string(Spec::lowest_target),
          positions * head_dim * 4,
          4.0 * heads * length * head_dim,
          prepare};
}

}  // namespace

void add_attention_benches(std::vector<Bench>& all) {
  auto cluster = [&](ClusterAttention spec, uint32_t length) {
    spec.chained = 1;
    all.push_back(one("cluster_attention", spec, length));
  };
  for (uint32_t splits : {8u, 16u}) {
    cluster({.splits = splits, .rows = 4, .stages = 1, .warps = 2}, 512);
    cluster({.splits = splits, .rows = 4, .stages = 2, .warps = 2}, 512);
    cluster({.splits = splits, .rows = 8, .stages = 1, .warps = 4}, 512);
    cluster({.splits = splits, .rows = 8, .stages = 2, .warps = 4}, 512);
  }
  for (uint32_t length : {4096u, 32768u}) {
    for (uint32_t stages : {2u, 3u, 4u, 5u}) cluster({.stages = stages}, length);
    for (uint32_t stages : {6u, 8u, 10u}) cluster({.rows = 4, .stages = stages, .warps = 2}, length);
    for (uint32_t stages : {2u}) cluster({.rows = 16, .stages = stages, .warps = 8}, length);
    cluster({.splits = 8, .stages = 5}, length);
  }
  for (uint32_t length : {512u, 4096u, 32768u})
    all.push_back(one("multi_warp_attention", Attention{.warps = 16}, length));
}

}  // namespace heddle::proof
