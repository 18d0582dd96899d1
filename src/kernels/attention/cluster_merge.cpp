// The end of cluster_attention: the partial results of all warps in a cluster are merged in distributed shared memory,
// and those of several clusters in global memory by the last block to finish.
#include <algorithm>

#include "kernels/attention/cluster_block.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using ClusterArgs = ClusterAttention::Args;

class ClusterMerge {
 public:
  explicit ClusterMerge(ClusterBlock& block)
      : b_(block), k_(block.k), s_(block.s), per_head_(ClusterBlock::items_per_head(block.s)) {}

  // Values go to the block that finishes them, maximum and sum to all blocks.
  void hand_over(OnlineSoftmax& softmax, const ClusterSums& out) {
    U32 lane = k_.lane(), head = lane / 4u, column = lane % 4u * 2u;
    U32 part = b_.rank * s_.warps + k_.warp();
    F32 sum = warp_sum(softmax.sum.get(), 4), top = softmax.max.get();
    auto state = b_.states + (part * 16u + head * 2u);
    auto value = b_.values + (part * ClusterBlock::part_row + head * 8u + column);
    k_.when(head < b_.group, [&] {
      for (uint32_t to = 0; to < s_.splits; to += 4) {
        U32 rank = lane % 4u + to;
        k_.when(rank < s_.splits, [&] { there(state, rank, [&](auto p) { store_vec(p, Vec<float, 2>{top, sum}); }); });
      }
      for (uint32_t d = 0; d < b_.dim_tiles(); ++d) {
        auto at = value.offset(d / s_.splits * b_.parts() * ClusterBlock::part_row);
        const Vec<float, 2> v{out[d].get(0) + out[d].get(2), out[d].get(1) + out[d].get(3)};
        there(at, k_.constant(d % s_.splits), [&](auto p) { store_vec(p, v); });
      }
    });
  }

  // Merges the parts for this block's values, 4 at a time (an item). Neighbouring lanes share the parts of an item, as
  // many as there are threads for in one round with 4 heads.
  void finish() {
    while (sharers_ * 2 * per_head_ * 4 <= k_.threads() && sharers_ < std::min(b_.parts(), 32u)) sharers_ *= 2;
    member_ = k_.thread() % sharers_;
    count_ = b_.group * per_head_;
    if (b_.dim_tiles() < s_.splits)
      count_ = select(b_.rank < b_.dim_tiles(), count_, 0u);  // some blocks have no values
    pair_ = mad_wide(b_.sequence, k_.arg(&ClusterArgs::kv_heads), widen(b_.kv_head));
    out_ = k_.arg(&ClusterArgs::out) +
           mad_wide(b_.sequence, k_.arg(&ClusterArgs::heads), widen(b_.kv_head * b_.group)) * uint64_t(s_.head_dim);
    merge_cluster();
    if (s_.merge) merge_clusters();
  }

 private:
  void there(auto p, U32 rank, auto&& put) {
    if (s_.splits > 1)
      put(in_block(p, rank));
    else
      put(p);
  }

  // f(item, head, group of 4 values, real) for all items; lanes without an item take the last one, with real = false.
  void each_item(auto&& f) {
    k_.loop(0u, count_, k_.threads() / sharers_, [&](U32 base) {
      U32 item = base + k_.thread() / sharers_, mine = min(item, count_ - 1u);
      U32 head = mine / per_head_, quad = mine % per_head_;
      Pred real = item < count_ && member_ == 0u;
      if (b_.dim_tiles() % s_.splits) {  // some blocks have a tile less
        U32 last = (b_.dim_tiles() - 1u - b_.rank) / s_.splits * 2u + 1u;
        real = real && quad <= last;
        quad = min(quad, last);
      }
      f(mine, head, quad, real);
    });
  }
  void write(const OnlineSoftmax& all, U32 head, U32 quad) {
    F32 factor = all.inverse_sum();
    U32 tile = quad / 2u * s_.splits + b_.rank, column = quad % 2u * 4u;
    Vec<float, 4> v;
    for (uint32_t i = 0; i < 4; ++i) v[i] = all.acc[i].get() * factor;
    if (!b_.q8()) return store_vec(out_ + (head * s_.head_dim + tile * 8u + column), v);
    auto to = out_ + (head * s_.head_dim + (tile >> 2u) * 32u + (tile & 3u) + column * 4u);  // see KvQ8Operands
    for (uint32_t i = 0; i < 4; ++i) store(to.offset(i * 4), v[i]);
  }
  // Several partial results, all loaded before the first is used.
  struct Loaded {
    std::vector<F32> tops, sums;
    std::vector<Vec<float, 4>> values;
  };
  static void merge_all(OnlineSoftmax& all, const Loaded& loaded) {
    auto weights = all.weigh(loaded.tops);
    for (size_t p = 0; p < weights.size(); ++p) {
      all.sum.add_product(loaded.sums[p], weights[p]);
      for (uint32_t i = 0; i < 4; ++i) all.acc[i].add_product(loaded.values[p][i], weights[p]);
    }
  }
  void merge_sharers(OnlineSoftmax& all) {
    for (uint32_t distance = 1; distance < sharers_; distance *= 2) all.merge_lane(distance);
  }
  // Where an item of cluster c lies: 4 values, maximum, sum, and 8 bytes of padding.
  Global<float> partial(U32 c, U32 item) {
    U64 cluster = mad(pair_, widen(k_.arg(&ClusterArgs::clusters)), widen(c));
    U64 block = mad(cluster, k_.constant(uint64_t(s_.splits)), widen(b_.rank));
    return k_.arg(&ClusterArgs::partial) + mad(block, k_.constant(uint64_t(per_head_) * 8), widen(item)) * uint64_t(8);
  }

  void merge_cluster() {
    each_item([&](U32 item, U32 head, U32 quad, Pred real) {
      auto here = b_.values + (quad / 2u * (b_.parts() * ClusterBlock::part_row) + head * 8u + quad % 2u * 4u);
      Loaded loaded;
      for (uint32_t p = 0; p < b_.parts(); p += sharers_) {
        U32 part = member_ + p;
        auto state = load_vec<2>(b_.states + (part * 16u + head * 2u));
        loaded.tops.push_back(state[0]);
        loaded.sums.push_back(state[1]);
        loaded.values.push_back(load_vec<4>(here + part * ClusterBlock::part_row));
      }
      OnlineSoftmax all(k_, 4);
      merge_all(all, loaded);
      merge_sharers(all);
      k_.when(real, [&] {
        if (!s_.merge) return write(all, head, quad);
        auto to = partial(b_.cluster, item);
        store_vec(to, Vec<float, 4>{all.acc[0].get(), all.acc[1].get(), all.acc[2].get(), all.acc[3].get()});
        store_vec(to.offset(4), Vec<float, 2>{all.max.get(), all.sum.get()});
      });
    });
  }

  // Only blocks of the same rank have the same values to merge.
  void merge_clusters() {
    auto last = k_.shared<uint32_t>(1);
    k_.barrier();
    k_.when(k_.thread() == 0u, [&] {
      auto arrived = k_.arg(&ClusterArgs::arrived) + mad(pair_, k_.constant(uint64_t(s_.splits)), widen(b_.rank));
      U32 others = k_.arg(&ClusterArgs::clusters) - 1u;
      // release: publishes what the block wrote before the barrier; acquire: the last block sees the results of all,
      // and the count wraps to 0
      U32 before = atomic(Atomic::inc, arrived, others, {.order = Order::acq_rel});
      store(last, select(before == others, k_.constant(1u), k_.constant(0u)));
    });
    k_.barrier();
    k_.when(k_.assume_uniform(load(last)) == 1u, [&] {
      each_item([&](U32 item, U32 head, U32 quad, Pred real) {
        OnlineSoftmax all(k_, 4);
        const uint32_t at_once = 4;  // loads under way together
        U32 clusters = k_.arg(&ClusterArgs::clusters);
        k_.loop(member_, clusters, sharers_ * at_once, [&](U32 base) {
          Loaded loaded;
          for (uint32_t i = 0; i < at_once; ++i) {
            U32 c = base + i * sharers_;
            auto from = partial(min(c, clusters - 1u), item);
            auto state = load_vec<2>(from.offset(4));
            loaded.tops.push_back(select(c < clusters, state[0], OnlineSoftmax::masked));
            loaded.sums.push_back(state[1]);
            loaded.values.push_back(load_vec<4>(from));
          }
          merge_all(all, loaded);
        });
        merge_sharers(all);
        k_.when(real, [&] { write(all, head, quad); });
      });
    });
  }

  ClusterBlock& b_;
  Builder<ClusterArgs>& k_;
  const ClusterAttention& s_;
  const uint32_t per_head_;  // items
  uint32_t sharers_ = 1;     // lanes that share the parts of an item
  U32 member_, count_;       // of this lane among those; items of the block
  U64 pair_;                 // number of (sequence, kv head)
  Global<float> out_;        // of the kv head's first query head
};

}  // namespace

void cluster_hand_over(ClusterBlock& block, OnlineSoftmax& softmax, const ClusterSums& sums) {
  ClusterMerge(block).hand_over(softmax, sums);
}
void cluster_finish(ClusterBlock& block) { ClusterMerge(block).finish(); }

}  // namespace heddle::kernels
