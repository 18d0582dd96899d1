// Attention by a cluster of blocks: how the positions are divided, in which order a block works, how partial results
// are merged, and which shape to choose. What the warps of a block do is in cluster_block.cpp.
#include "kernels/attention/cluster_attention.h"

#include <algorithm>

#include "kernels/attention/cluster_block.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using ClusterArgs = ClusterAttention::Args;

// This block's positions: begin (a multiple of 16) to end, without those before `first`. Shares are multiples of 16
// positions and differ by 16 or less, so that a piece lies in one page.
void share_positions(ClusterBlock& b) {
  auto& k = b.k;
  b.length = k.arg(&ClusterArgs::length);
  if (b.s.length == length_indirect)
    b.length = k.assume_uniform(bitcast<uint32_t>(load(k.arg(&ClusterArgs::lengths) + b.sequence)), Uniform::cluster);
  b.first = b.s.window ? b.length - min(b.length, k.arg(&ClusterArgs::window)) : k.constant(0u);
  if (b.s.chunk) {
    const U32 chunk = k.arg(&ClusterArgs::chunk), newest = b.length - min(b.length, 1u);
    b.first = max(b.first, newest / chunk * chunk);
  }
  U32 start = b.first & ~15u, units = (b.length - start + 15u) / 16u;
  U32 blocks = b.s.merge ? k.arg(&ClusterArgs::clusters) * b.s.splits : k.constant(b.s.splits);
  U32 block = b.cluster * b.s.splits + b.rank, share = units / blocks, rest = units - share * blocks;
  U32 before = block * share + min(block, rest);  // the first `rest` blocks have one unit more
  b.begin = start + before * 16u;
  b.end = min(start + (before + share + select(block < rest, k.constant(1u), k.constant(0u))) * 16u, b.length);
  // an empty share lies at the end, and its begin may be past it
  U32 count = select(b.end > b.begin, b.end - b.begin, 0u);
  b.stage_count = (count + (b.positions() - 1)) / b.positions();
  b.newest_early = b.end == b.length && count > 0u && b.stage_count <= b.s.stages;
}

// The query heads of a kv head: all of them, or a group. Groups have as many heads as each other, but for the last.
void choose_heads(ClusterBlock& b) {
  auto& k = b.k;
  const U32 of_one = k.arg(&ClusterArgs::heads) / k.arg(&ClusterArgs::kv_heads);
  b.unit = b.kv_head = k.block_id() / b.s.splits;
  b.units = k.arg(&ClusterArgs::kv_heads);
  b.group = of_one;
  b.first_head = b.kv_head * of_one;
  if (!b.s.grouped) return;
  const U32 groups = k.arg(&ClusterArgs::groups), size = (of_one + groups - 1u) / groups;
  b.units = b.units * groups;
  b.kv_head = b.unit / groups;
  const U32 before = (b.unit - b.kv_head * groups) * size;
  b.group = min(size, of_one - before);
  b.first_head = b.kv_head * of_one + before;
}

void attend_sequence(ClusterBlock& b) {
  auto& k = b.k;
  const ClusterAttention& s = b.s;
  b.rank = s.splits > 1 ? k.cluster_rank() : k.constant(0u);
  choose_heads(b);
  b.cluster = !s.merge ? k.constant(0u) : s.splits > 1 ? k.special(Special::clusterid_z) : k.block_z();
  b.ring = k.shared<uint8_t>(s.stages * s.stage_bytes(), 128);
  if (b.bulk()) {
    b.full = k.shared<uint64_t>(s.stages, 8);
    b.free = k.shared<uint64_t>(s.stages, 8);
  }
  b.states = k.shared<float>(b.parts() * 16);
  b.values = k.shared<float>(b.tiles_here() * b.parts() * ClusterBlock::part_row);
  if (s.q_bytes()) b.q = k.shared<uint32_t>(s.q_bytes() / 4, 16);
  share_positions(b);

  OnlineSoftmax softmax(k, 0);
  ClusterSums sums;
  for (uint32_t i = 0; i < b.own_tiles(); ++i) sums.emplace_back(k);

  if (!b.bulk()) {
    cluster_compute(b, softmax, sums);
    cluster_hand_over(b, softmax, sums);
    k.barrier();
    return cluster_finish(b);
  }
  if (s.splits > 1) k.cluster_arrive(Order::relaxed);  // waited for before the first write to another block
  k.when(k.thread() == 0u, [&] {
    for (uint32_t i = 0; i < s.stages; ++i) {
      Mbarrier{b.full.offset(i)}.init(32u);
      Mbarrier{b.free.offset(i)}.init(s.warps * 32);
    }
    fence_mbarrier_init(k);
  });
  k.barrier();
  k.when_else(
      k.warp() == s.warps, [&] { cluster_fetch(b); }, [&] { cluster_compute(b, softmax, sums); });
  if (s.splits > 1) k.cluster_wait();
  k.when(k.warp() < s.warps, [&] { cluster_hand_over(b, softmax, sums); });
  if (s.splits > 1)
    k.cluster_barrier();
  else
    k.barrier();
  cluster_finish(b);
}

}  // namespace

Kernel ClusterAttention::build() const {
  check_fields(*this);
  if (warps % value_parts() || warps / value_parts() * 2 > rows)
    throw Error("{}: {} warps, but a stage of {} rows per piece gives work to {}", name, warps, rows,
                rows / 2 * value_parts());
  // 9 warps leave 168 registers each, of which the sums of a row of 192 take 96 and q 48
  if (kv == kv_q8 && (layout != kv_paged || head_dim % 32 || rows * head_dim % 256))
    throw Error(
        "{}: a q8 cache is in pages, its heads are multiples of 32, and rows * head_dim is one of 256; found {}", name,
        field_text(*this));
  if (mapped && layout != kv_paged) throw Error("{}: rows that are mapped need a cache in pages", name);
  if (!suits_warps()) throw Error("{}: 8 warps with head_dim = {}; they suit up to 160", name, head_dim);
  if (copies == copies_async && (splits > 1 || stages < 2))
    throw Error("{}: without bulk copies there are no clusters, and two stages or more; found {}", name,
                field_text(*this));
  ClusterBlock b(*this);
  chain_start(b.k, chained);
  b.sequence = splits > 1 ? b.k.special(Special::clusterid_y) : b.k.block_y();
  // without a sequence too: the next kernel relies on all blocks having waited
  b.k.when_else(
      b.sequence < b.k.arg(&ClusterArgs::sequences), [&] { attend_sequence(b); }, [&] { chain_wait(b.k, chained); });
  return b.k.finish();
}

size_t ClusterAttention::partial_count(uint32_t sequences, uint32_t kv_heads, uint32_t clusters) const {
  return size_t(sequences) * kv_heads * clusters * splits * ClusterBlock::items_per_head(*this) * 8 * 8;
}

namespace {

// Whether this many groups have 1 to 8 of the query heads each.
bool can_group(uint32_t heads, uint32_t groups) {
  if (groups == 0) return false;
  const uint32_t size = (heads + groups - 1) / groups;
  return size <= 8 && uint64_t(groups - 1) * size < heads;
}

}  // namespace

Grid ClusterAttention::grid(const ClusterArgs& args) const {
  check_token_attention(name, args, layout, head_dim);
  const uint32_t of_one = args.heads / args.kv_heads, groups = grouped ? args.groups : 1;
  if (!grouped && of_one > 8)
    throw Error("{}: {} heads for {} kv heads, but there may be at most 8 for one", name, args.heads, args.kv_heads);
  if (grouped && !can_group(of_one, groups))
    throw Error("{}: {} groups of the {} heads of a kv head, but they must have 1 to 8 heads each", name, groups,
                of_one);
  if (args.q.address % 8 || args.q_stride % 2) throw Error("{}: rows of q must be 8-byte aligned", name);
  if (kv == kv_q8 && (args.k_scale.address % 16 || args.v_scale.address % 16))
    throw Error("{}: k_scale and v_scale must be 16-byte aligned", name);
  if (args.out.address % 16 || (merge && args.partial.address % 16))
    throw Error("{}: out and partial must be 16-byte aligned", name);
  if (merge ? args.clusters == 0 || args.clusters > 65535 : args.clusters > 1)
    throw Error("{}: {} clusters per sequence and kv head, but with merge = {} there must be {}", name, args.clusters,
                merge ? "yes" : "no", merge ? "1 to 65535" : "one");
  if (out_apart) check_operand(name, args.heads * head_dim, args.out_group);
  if (window && args.window == 0) throw Error("{}: a window of 0 positions, but it must have one or more", name);
  check_scores(name, args, softcap, chunk, sinks, slopes);
  return {
      .x = args.kv_heads * groups * splits, .y = args.sequences ? args.sequences : 1, .z = merge ? args.clusters : 1};
}

uint32_t ClusterAttention::shared_bytes() const {
  const uint32_t parts = splits * warps / value_parts(), tiles = ClusterBlock::items_per_head(*this) / 2;
  return stages * (stage_bytes() + 16) + parts * 16 * 4 + tiles * parts * ClusterBlock::part_row * 4 + q_bytes() + 256;
}

bool ClusterAttention::suits_warps() const {
  return warps % value_parts() == 0 && warps / value_parts() * 2 <= rows && (warps < 8 || head_dim <= 160);
}

namespace {

// Of a piece: 64 positions of 256 values are 64 KB, with 512 values they would be twice that.
uint32_t max_rows(uint32_t head_dim) { return head_dim > 256 ? 4 : 8; }

// Fewer stages, then smaller ones, then smaller clusters, until a block fits.
void shrink(ClusterAttention& s, const GpuLimits& gpu) {
  while (s.shared_bytes() > gpu.shared_per_block) {
    if (s.stages > 2) {
      --s.stages;
    } else if (s.rows > 2) {
      s.rows /= 2;
      s.warps = std::max(1u, std::min(s.warps / s.value_parts(), s.rows / 2)) * s.value_parts();
      s.stages = 4;
    } else if (s.splits > 1) {
      s.splits /= 2;
    } else {
      throw Error("cluster_attention: {} bytes of shared memory are not enough for heads of {}", gpu.shared_per_block,
                  s.head_dim);
    }
  }
}

}  // namespace

ClusterChoice cluster_choice(uint32_t head_dim, uint32_t kv_heads, uint32_t sequences, uint32_t length, uint32_t sms,
                             const GpuLimits& gpu) {
  const uint32_t pairs = std::max(1u, kv_heads * sequences);
  if (!gpu.clusters) {  // blocks that share a sequence merge their results through memory
    ClusterAttention spec{.head_dim = head_dim, .splits = 1, .rows = max_rows(head_dim), .stages = 3, .warps = 4};
    spec.copies = copies_async;
    shrink(spec, gpu);
    const uint32_t clusters = std::clamp(sms / pairs, 1u, std::max(length, 1u) / 64 + 1);
    spec.merge = clusters > 1;
    return {spec, clusters};
  }
  // Many sequences fill the SMs even with small clusters.
  ClusterAttention spec{.head_dim = head_dim, .splits = 8};
  while (spec.splits > 1 && pairs * spec.splits / 2 >= sms) spec.splits /= 2;
  if (length <= 128 * spec.splits) {  // small blocks start while the kernel before still runs
    spec.rows = max_rows(head_dim) / 2;
    spec.stages = 4;
    spec.warps = 2;
    shrink(spec, gpu);
    return {spec, 1};
  }
  // A block of this size fits on every SM, but only if clusters are small: one of 8 or 16 blocks needs that many free
  // SMs in one GPC, and some SMs stay idle. Merging pairs of clusters through memory costs less than idle SMs.
  spec.splits = std::min(spec.splits, 2u);
  const uint32_t clusters = std::max(1u, sms / (pairs * spec.splits));
  spec.merge = clusters > 1;
  // Where sequences fill the SMs, one may be much longer than the others: it must not be the work of one block. Where
  // they fill them several times, the others hide it up to some length, and splitting all of them costs more: 64 of 64
  // to 1088 positions took 110 us in clusters of 4 on an H200, and 43 without.
  const bool crowd = pairs >= 2 * sms;
  if (clusters == 1 && length > (crowd ? 4096u : 1024u)) spec.splits = length > (crowd ? 16384u : 8192u) ? 8 : 4;
  // Three stages keep the memory busy, and leave room for the blocks of the kernels before and after. In a crowd a
  // third block of two stages does more than a third stage: 64 sequences of 576 took 39 us instead of 46, 256 150 of
  // 184.
  spec.rows = max_rows(head_dim);
  spec.warps = 4;
  spec.stages = std::clamp((crowd ? 70u : 100u) * 1024 / spec.stage_bytes(), 1u, crowd ? 2u : 3u);
  if (spec.value_parts() > 1) spec.stages = 2;  // of 65 KB: one alone would wait for the memory
  shrink(spec, gpu);
  return {spec, clusters};
}

uint32_t cluster_groups(uint32_t heads, uint32_t kv_heads) { return (heads / kv_heads + 7) / 8; }

ClusterAttention as_q8(ClusterAttention spec) {
  const uint32_t bytes = spec.stages * spec.stage_bytes();
  spec.kv = kv_q8;
  while (spec.rows * spec.head_dim % 256) spec.rows *= 2;  // scales of a piece are whole 16 bytes
  spec.stages = std::clamp(bytes / spec.stage_bytes(), 1u, 16u);
  return spec;
}

bool cluster_fits_heads(uint32_t head_dim, const GpuLimits& gpu) {
  ClusterAttention least{.head_dim = head_dim, .splits = 1, .rows = 2, .stages = 2, .copies = copies_on(gpu)};
  least.warps = least.value_parts();
  return least.shared_bytes() <= gpu.shared_per_block;
}

// One cluster per row and kv head: nothing is merged through memory, so any number of rows fits.
ClusterChoice steady_cluster_choice(uint32_t head_dim, const GpuLimits& gpu) {
  ClusterAttention spec{.head_dim = head_dim, .splits = gpu.clusters ? 8u : 1u, .rows = max_rows(head_dim), .warps = 4};
  spec.copies = copies_on(gpu);
  spec.stages = std::clamp(100 * 1024 / spec.stage_bytes(), spec.copies == copies_async ? 2u : 1u, 3u);
  if (spec.value_parts() > 1) spec.stages = 2;
  shrink(spec, gpu);
  return {spec, 1};
}

void add_cluster_attention_kernels(std::vector<Entry>& all) {
  all.push_back(entry<ClusterAttention>());
  all.push_back(preset<ClusterAttention>("async_attention", "the same without bulk copies and clusters",
                                         {.splits = 1, .rows = 4, .warps = 2, .copies = copies_async}, "sm_75"));
}

// The end of cluster_attention: the partial results of all warps in a cluster are merged in distributed shared memory,
// and those of several clusters in global memory by the last block to finish.

namespace {

using ClusterArgs = ClusterAttention::Args;

class ClusterMerge {
 public:
  explicit ClusterMerge(ClusterBlock& block)
      : b_(block), k_(block.k), s_(block.s), per_head_(ClusterBlock::items_per_head(block.s)) {}

  // Values go to the block that finishes them, maximum and sum to all blocks.
  void hand_over(OnlineSoftmax& softmax, const ClusterSums& out) {
    U32 lane = k_.lane(), head = lane / 4u, column = lane % 4u * 2u;
    const uint32_t value_parts = s_.value_parts();
    U32 part = b_.rank * (s_.warps / value_parts) + k_.warp() / value_parts;
    F32 sum = warp_sum(softmax.sum.get(), 4), top = softmax.max.get();
    auto state = b_.states + (part * 16u + head * 2u);
    auto value = b_.values + (part * ClusterBlock::part_row + head * 8u + column);
    // the second part's tiles follow the first's; each part has a multiple of `splits` tiles
    if (value_parts > 1)
      value = value + k_.warp() % value_parts * (b_.own_tiles() / s_.splits * b_.parts() * ClusterBlock::part_row);
    k_.when(head < b_.group, [&] {
      for (uint32_t to = 0; to < s_.splits; to += 4) {
        U32 rank = lane % 4u + to;
        Pred mine = rank < s_.splits;
        if (value_parts > 1) mine = mine && k_.warp() % value_parts == 0u;  // both have the same
        k_.when(mine, [&] { there(state, rank, [&](auto p) { store_vec(p, Vec<float, 2>{top, sum}); }); });
      }
      for (uint32_t d = 0; d < b_.own_tiles(); ++d) {
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
    pair_ = mad_wide(b_.sequence, b_.units, widen(b_.unit));
    out_ = k_.arg(&ClusterArgs::out) +
           mad_wide(b_.sequence, k_.arg(&ClusterArgs::heads), widen(b_.first_head)) * uint64_t(s_.head_dim);
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
    if (s_.out_apart) return write_halves(v, head, tile, column);
    if (!b_.q8()) return store_vec(out_ + (head * s_.head_dim + tile * 8u + column), v);
    auto to = out_ + (head * s_.head_dim + (tile >> 2u) * 32u + (tile & 3u) + column * 4u);  // see KvQ8Operands
    for (uint32_t i = 0; i < 4; ++i) store(to.offset(i * 4), v[i]);
  }
  // A mean of values of the cache, which f16 holds.
  void write_halves(const Vec<float, 4>& v, U32 head, U32 tile, U32 column) {
    U32 group = k_.arg(&ClusterArgs::out_group), ld = k_.arg(&ClusterArgs::heads) * s_.head_dim;
    U32 first = (b_.first_head + head) * s_.head_dim;
    auto out = k_.arg(&ClusterArgs::out).template as<heddle::f16>();
    if (b_.q8()) {
      U32 col = first + (tile >> 2u) * 32u + (tile & 3u) + column * 4u;
      for (uint32_t i = 0; i < 4; ++i)
        store(out + operand_value(b_.sequence, col + i * 4, s_.out_apart, group, ld), to_f16(within_f16(v[i])));
      return;
    }
    auto to = out + operand_quad(b_.sequence, first + tile * 8u + column, s_.out_apart, group, ld);
    for (uint32_t odd = 0; odd < 2; ++odd)
      store((to + group * (8 * odd)).template as<uint32_t>(),
            bitcast<uint32_t>(to_f16x2(within_f16(v[odd]), within_f16(v[odd + 2]))));
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
  U64 pair_;                 // number of (sequence, group)
  Global<float> out_;        // of the group's first query head
};

}  // namespace

void cluster_hand_over(ClusterBlock& block, OnlineSoftmax& softmax, const ClusterSums& sums) {
  ClusterMerge(block).hand_over(softmax, sums);
}
void cluster_finish(ClusterBlock& block) { ClusterMerge(block).finish(); }

}  // namespace heddle::kernels
