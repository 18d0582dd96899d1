// Attention by a cluster of blocks: how the positions are divided, in which order a block works, and which shape to
// choose. One warp fetches K and V (cluster_fetch.cpp), the others compute (cluster_compute.cpp), and all
// merge (cluster_merge.cpp).
#include "kernels/attention/cluster_attention.h"

#include <algorithm>

#include "kernels/attention/cluster_block.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/chain.h"

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

void attend_sequence(ClusterBlock& b) {
  auto& k = b.k;
  const ClusterAttention& s = b.s;
  b.rank = s.splits > 1 ? k.cluster_rank() : k.constant(0u);
  b.group = k.arg(&ClusterArgs::heads) / k.arg(&ClusterArgs::kv_heads);
  b.kv_head = k.block_id() / s.splits;
  b.cluster = !s.merge ? k.constant(0u) : s.splits > 1 ? k.special(Special::clusterid_z) : k.block_z();
  b.ring = k.shared<uint8_t>(s.stages * s.stage_bytes(), 128);
  b.full = k.shared<uint64_t>(s.stages, 8);
  b.free = k.shared<uint64_t>(s.stages, 8);
  b.states = k.shared<float>(b.parts() * 16);
  b.values = k.shared<float>(b.tiles_here() * b.parts() * ClusterBlock::part_row);
  share_positions(b);

  OnlineSoftmax softmax(k, 0);
  ClusterSums sums;
  for (uint32_t i = 0; i < b.dim_tiles(); ++i) sums.emplace_back(k);

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
  if (warps * 2 > rows)
    throw Error("{}: {} warps, but a stage of {} rows per piece gives work to {}", name, warps, rows, rows / 2);
  // 9 warps leave 168 registers each, of which the sums of a row of 192 take 96 and q 48
  if (kv == kv_q8 && (layout != kv_paged || head_dim % 32 || rows * head_dim % 256))
    throw Error(
        "{}: a q8 cache is in pages, its heads are multiples of 32, and rows * head_dim is one of 256; found {}", name,
        field_text(*this));
  if (mapped && layout != kv_paged) throw Error("{}: rows that are mapped need a cache in pages", name);
  if (warps == 8 && head_dim > 160) throw Error("{}: 8 warps with head_dim = {}; they suit up to 160", name, head_dim);
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

Grid ClusterAttention::grid(const ClusterArgs& args) const {
  check_token_attention(name, args, layout, head_dim);
  if (args.heads / args.kv_heads > 8)
    throw Error("{}: {} heads for {} kv heads, but there may be at most 8 for one", name, args.heads, args.kv_heads);
  if (args.q.address % 8 || args.q_stride % 2) throw Error("{}: rows of q must be 8-byte aligned", name);
  if (kv == kv_q8 && (args.k_scale.address % 16 || args.v_scale.address % 16))
    throw Error("{}: k_scale and v_scale must be 16-byte aligned", name);
  if (args.out.address % 16 || (merge && args.partial.address % 16))
    throw Error("{}: out and partial must be 16-byte aligned", name);
  if (merge ? args.clusters == 0 || args.clusters > 65535 : args.clusters > 1)
    throw Error("{}: {} clusters per sequence and kv head, but with merge = {} there must be {}", name, args.clusters,
                merge ? "yes" : "no", merge ? "1 to 65535" : "one");
  if (window && args.window == 0) throw Error("{}: a window of 0 positions, but it must have one or more", name);
  if (softcap && !(args.softcap > 0)) throw Error("{}: softcap = {}, but it must be positive", name, args.softcap);
  return {.x = args.kv_heads * splits, .y = args.sequences ? args.sequences : 1, .z = merge ? args.clusters : 1};
}

ClusterChoice cluster_choice(uint32_t head_dim, uint32_t kv_heads, uint32_t sequences, uint32_t length, uint32_t sms) {
  // Many sequences fill the SMs even with small clusters.
  const uint32_t pairs = std::max(1u, kv_heads * sequences);
  ClusterAttention spec{.head_dim = head_dim, .splits = 8};
  while (spec.splits > 1 && pairs * spec.splits / 2 >= sms) spec.splits /= 2;
  if (length <= 128 * spec.splits) {  // small blocks start while the kernel before still runs
    spec.rows = 4;
    spec.stages = 4;
    spec.warps = 2;
    return {spec, 1};
  }
  // A block of this size fits on every SM, but only if clusters are small: one of 8 or 16 blocks needs that many free
  // SMs in one GPC, and some SMs stay idle. Merging pairs of clusters through memory costs less than idle SMs.
  spec.splits = std::min(spec.splits, 2u);
  const uint32_t clusters = std::max(1u, sms / (pairs * spec.splits));
  spec.merge = clusters > 1;
  // Where sequences fill the SMs, one may be much longer than the others: it must not be the work of one block.
  if (clusters == 1 && length > 1024) spec.splits = length > 8192 ? 8 : 4;
  // Three stages keep the memory busy, and leave room for the blocks of the kernels before and after.
  spec.rows = 8;
  spec.warps = 4;
  spec.stages = std::clamp(100 * 1024 / spec.stage_bytes(), 1u, 3u);
  return {spec, clusters};
}

ClusterAttention as_q8(ClusterAttention spec) {
  const uint32_t bytes = spec.stages * spec.stage_bytes();
  spec.kv = kv_q8;
  while (spec.rows * spec.head_dim % 256) spec.rows *= 2;  // scales of a piece are whole 16 bytes
  spec.stages = std::clamp(bytes / spec.stage_bytes(), 1u, 16u);
  return spec;
}

// One cluster per row and kv head: nothing is merged through memory, so any number of rows fits.
ClusterChoice steady_cluster_choice(uint32_t head_dim) {
  ClusterAttention spec{.head_dim = head_dim, .splits = 8, .rows = 8, .warps = 4};
  spec.stages = std::clamp(100 * 1024 / spec.stage_bytes(), 1u, 3u);
  return {spec, 1};
}

void add_cluster_attention_kernels(std::vector<Entry>& all) { all.push_back(entry<ClusterAttention>()); }

}  // namespace heddle::kernels
