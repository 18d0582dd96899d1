// Shapes of attention by clusters: how many blocks share a sequence, and how much each has in flight.
#include <algorithm>

#include "kernels/attention/cluster_attention.h"

namespace heddle::kernels {

ClusterChoice cluster_choice(uint32_t head_dim, uint32_t kv_heads, uint32_t sequences, uint32_t length, uint32_t sms) {
  // Many sequences fill the SMs with small clusters.
  const uint32_t pairs = std::max(1u, kv_heads * sequences);
  ClusterAttention spec{.head_dim = head_dim, .splits = 8};
  while (spec.splits > 1 && pairs * spec.splits / 2 >= sms) spec.splits /= 2;
  if (length <= 128 * spec.splits) {  // what little there is to fetch starts soonest next to the blocks before
    spec.rows = 4, spec.stages = 4, spec.warps = 2;
    return {spec, 1};
  }
  // The GPU holds a block of this size on every SM, but only if clusters are small: one of 8 or 16 wants so many free
  // SMs of one GPC, and some are left over. Merging pairs through memory costs less than leaving SMs idle.
  spec.splits = std::min(spec.splits, 2u);
  const uint32_t clusters = std::max(1u, sms / (pairs * spec.splits));
  spec.merge = clusters > 1;
  // Where sequences fill the SMs, one may be much longer than the others: it must not be left to one block.
  if (clusters == 1 && length > 1024) spec.splits = length > 8192 ? 8 : 4;
  // Three stages keep the memory busy, and leave room for the blocks of the kernels before and after.
  spec.rows = 8, spec.warps = 4, spec.stages = std::clamp(100 * 1024 / spec.stage_bytes(), 1u, 3u);
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

}  // namespace heddle::kernels
