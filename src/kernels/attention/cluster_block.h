// What the files of cluster_attention have in common: a block's positions, its shared memory, and the functions that
// cluster_attention.cpp calls in turn.
//
// A stage of the ring is 8 pieces of `rows` neighbouring positions, one bulk copy each. Those cannot swizzle, but
// a piece is 16 bytes longer than its rows, so that the same row of all 8 pieces lies in different banks: those 8
// positions are the 8 x 8 matrices that ldmatrix takes ("tile" below), free of conflicts. Which position is which
// column of a product does not matter as long as K and V agree. The scales of a q8 cache follow the pieces, for all
// rows of a piece, in use or not.
#pragma once
#include "kernels/attention/cluster_attention.h"
#include "kernels/attention/kv_cache.h"
#include "kernels/attention/online_softmax.h"

namespace heddle::kernels {

struct ClusterBlock {
  using Args = ClusterAttention::Args;

  explicit ClusterBlock(const ClusterAttention& spec)
      : s(spec), k(std::string(spec.name), {.threads = spec.warps * 32 + (bulk() ? 32 : 0), .cluster = spec.splits}) {}

  bool bulk() const { return s.copies == copies_bulk; }
  bool q8() const { return s.kv == kv_q8; }
  bool limited() const { return s.window || s.chunk; }  // positions before `first` are not seen
  bool fetches_early() const { return s.chained && !s.fresh; }
  uint32_t row_bytes() const { return s.row_bytes(); }
  uint32_t piece() const { return s.piece_bytes(); }
  uint32_t scales_at() const { return 16 * piece(); }     // in a stage: of K, then of V
  uint32_t scale_row() const { return s.head_dim / 16; }  // bytes of a position's scales
  uint32_t positions() const { return 8 * s.rows; }       // of a stage
  uint32_t dim_tiles() const { return s.head_dim / 8; }
  uint32_t own_tiles() const { return dim_tiles() / s.value_parts(); }  // of a warp's sums
  // Partial results that are merged at the end.
  uint32_t parts() const { return s.splits * s.warps / s.value_parts(); }
  // Blocks take turns at finishing 8 values of the output each.
  uint32_t tiles_here() const { return items_per_head(s) / 2; }
  // The largest number of groups of 4 values of a head that a block finishes: a tile has 8 values.
  static uint32_t items_per_head(const ClusterAttention& s) { return (s.head_dim / 8 + s.splits - 1) / s.splits * 2; }

  static constexpr uint32_t part_row = 72;  // 8 heads x 8 values, and 8 floats to keep the parts in different banks

  const ClusterAttention s;
  ptx::Builder<Args> k;
  ptx::U32 sequence, rank, cluster, kv_head;
  ptx::U32 unit, units;              // a group of query heads, counted over all kv heads; their number
  ptx::U32 first_head, group;        // the query heads of the group: the first, and how many
  ptx::U32 length, first;            // of the sequence; the first position that is seen
  ptx::U32 begin, end, stage_count;  // this block's positions, from a multiple of 16 on
  ptx::Pred newest_early;            // the newest position is in an early stage of this block
  ptx::Shared<uint8_t> ring;         // (stages, K and V, 8, piece()), and scales
  ptx::Shared<uint64_t> full, free;  // (stages) of mbarriers
  ptx::Shared<float> states;         // (parts, 8 heads, maximum and sum)
  ptx::Shared<float> values;         // (tiles_here(), parts, part_row)
  ptx::Shared<uint32_t> q;           // (head_dim / 16, lanes, 4): left operands, where they are kept here
};

// Sums of weight times V: rows 0 to 7 are the query heads, rows 8 to 15 the rounding errors of the weights in f16.
using ClusterSums = std::vector<ptx::Acc<float, 16, 8>>;

// The fetching warp: brings K and V of all positions through the ring.
void cluster_fetch(ClusterBlock& block);
// The computing warps: scores, weights and sums over all stages, which without bulk copies they bring themselves.
void cluster_compute(ClusterBlock& block, OnlineSoftmax& softmax, ClusterSums& sums);
// Sends a warp's partial results to the blocks that finish them, and merges them (cluster_attention.cpp).
void cluster_hand_over(ClusterBlock& block, OnlineSoftmax& softmax, const ClusterSums& sums);
void cluster_finish(ClusterBlock& block);

}  // namespace heddle::kernels
