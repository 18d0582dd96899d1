// One head of one sequence for cluster_attention, with scores that are easy to know, and a spec of every kind.
#pragma once
#include <cmath>

#include "base/f16.h"
#include "kernels/attention/cluster_attention.h"
#include "ptx/interpret.h"
#include "ptx/verify.h"

namespace heddle::kernels {

inline std::vector<uint8_t> halves(const std::vector<float>& x) {
  std::vector<uint8_t> bytes(x.size() * 2);
  for (size_t i = 0; i < x.size(); ++i) {
    const f16 h = to_f16(x[i]);
    std::memcpy(&bytes[i * 2], &h, 2);
  }
  return bytes;
}

// One head of one sequence whose position p has the score scores[p] and at value i: value(p, i).
struct OneHead {
  static constexpr uint32_t dim = 64;
  ptx::Memory memory;
  ClusterAttention::Args args{};
  std::vector<double> want;

  OneHead(const std::vector<float>& scores, uint32_t carrier, auto&& value) {
    const size_t n = scores.size();
    std::vector<float> q(dim, 0.0f), k(n * dim, 1000.0f), v(n * dim);  // q is 0 but in the one place `carrier`
    q[carrier] = 1;
    double sum = 0;
    want.assign(dim, 0);
    for (size_t p = 0; p < n; ++p) {
      k[p * dim + carrier] = scores[p];
      const double weight = std::exp(double(scores[p]));
      sum += weight;
      for (uint32_t i = 0; i < dim; ++i) want[i] += weight * (v[p * dim + i] = value(uint32_t(p), i));
    }
    for (double& x : want) x /= sum;
    args.q = memory.put(q);
    args.k = memory.put(halves(k));
    args.v = memory.put(halves(v));
    args.out = memory.alloc<float>(dim);
    args.k_base = memory.put(std::vector{args.k.address});
    args.v_base = memory.put(std::vector{args.v.address});
    args.lengths = memory.put(std::vector{int32_t(n)});
    args.table = memory.put(std::vector<int32_t>{0});
    args.sequences = args.heads = args.kv_heads = 1;
    args.length = args.max_len = uint32_t(n);
    args.page_size = 256;
    args.table_stride = 1;
    args.clusters = 1;
  }
  std::vector<float> out(const ClusterAttention& spec) {
    ClusterAttention::Args now = args;
    if (spec.merge) {
      now.clusters = 3;
      now.partial = memory.alloc<float>(spec.partial_count(1, 1, now.clusters));
      now.arrived = memory.put(std::vector<uint32_t>(spec.arrived_count(1, 1), 0));
    }
    const ptx::Kernel kernel = spec.build();
    ptx::verify(kernel);
    ptx::interpret(kernel, spec.grid(now), now, memory);
    return memory.get(args.out, dim);
  }
};

inline const std::vector<ClusterAttention> cluster_kinds = {
    {.head_dim = OneHead::dim, .splits = 1, .rows = 2, .stages = 2, .warps = 1},
    {.head_dim = OneHead::dim, .layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2},
    {.head_dim = OneHead::dim, .layout = kv_batched, .length = length_direct, .splits = 4, .chained = 1},
    {.head_dim = OneHead::dim, .splits = 2, .rows = 2, .stages = 2, .warps = 1, .merge = 1, .chained = 1},
    {.head_dim = OneHead::dim, .splits = 1, .rows = 4, .stages = 2, .warps = 2, .copies = copies_async},
};

// The first wait for the kernels before this one, in the order of the text: that of the warp that fetches.
inline ptx::Inst* first_wait(ptx::Block& block) {
  for (ptx::Inst& inst : block) {
    if (inst.op == ptx::Op::grid_wait) return &inst;
    for (ptx::Block* inner : {&inst.head, &inst.body, &inst.otherwise})
      if (ptx::Inst* found = first_wait(*inner)) return found;
  }
  return nullptr;
}

}  // namespace heddle::kernels
