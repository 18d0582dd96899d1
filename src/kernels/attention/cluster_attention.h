// Attention of one new token per sequence at the speed of the memory: K and V stream through shared memory, the matrix
// units do the products, and the blocks of a cluster share the positions of one sequence and kv head.
#pragma once
#include "kernels/attention/kv_cache.h"
#include "kernels/product/activations.h"
#include "kernels/spec/gpu_limits.h"

namespace heddle::kernels {

// Where the kernel finds the number of positions of a sequence.
enum Length : uint32_t { length_direct, length_indirect };

// out = softmax(q k * scale) v over the positions of each sequence, in a cache of f16, or of q8 (in pages; heads of a
// multiple of 32). A sequence of length 0 gives zeros. All query heads of a kv head (8 or fewer) are computed at once,
// so that the cache is read once; more are computed as groups of up to 8 (grouped), and a group is below what a kv head
// is. Where one cluster per sequence and kv head would leave SMs idle, several share the work (merge): the last of
// their blocks to finish merges the partial results that the others left in memory, and resets the counters.
struct ClusterAttention {
  static constexpr std::string_view name = "cluster_attention",
                                    summary = "attention of one token per sequence, positions shared by a cluster",
                                    lowest_target = "sm_90";
  // out, k, v, k_scale and v_scale are 16-byte aligned. q is 8-byte aligned and finite as f16; its stride is even, and
  // 0 where its rows follow each other. heads / kv_heads is a whole number; page_size is a multiple of 16;
  // window, softcap, chunk, sinks and slopes are read with the fields of that name.
  struct Args : TokenAttentionArgs {
    ptx::DevicePtr<uint32_t> sequence_of;  // mapped: (sequences), the row of the table
    ptx::DevicePtr<float> partial;         // merge: (partial_count), scratch, 16-byte aligned
    ptx::DevicePtr<uint32_t> arrived;      // merge: (arrived_count), zeros before the first launch and after each
    uint32_t clusters;                     // merge: per sequence and kv head
    uint32_t out_group;                    // out_apart: rows of a group
    uint32_t groups;                       // grouped: of each kv head
  };
  uint32_t head_dim = 128;
  uint32_t kv = kv_f16;
  uint32_t layout = kv_single;
  uint32_t length = length_indirect;
  uint32_t splits = 16;  // blocks per cluster; 16 must be allowed at launch (non-portable)
  uint32_t rows = 8;     // a stage is 8 * rows positions: 32 KB for 64 positions of 128 values
  uint32_t stages = 2;   // in the ring; long sequences want all that fits (5 in 227 KB), short ones few
  uint32_t warps = 4;    // that compute, up to rows / 2 for each part of the values
  // bulk: one more warp fetches. async: all warps do, in clusters of one block; two stages or more.
  uint32_t copies = copies_bulk;
  uint32_t merge = 0;    // several clusters per sequence and kv head
  uint32_t mapped = 0;   // rows of q and lengths are tokens of any sequences, in any order, given by sequence_of
  uint32_t grouped = 0;  // the query heads of a kv head are computed as groups, which read the cache one by one
  uint32_t window = 0, softcap = 0, chunk = 0, sinks = 0, slopes = 0;
  uint32_t out_apart = 0;  // out is f16, as x of wgmma_product for weights of this `apart`; 0: rows of f32
  // In a chain only the last position is new: all others are fetched before the preceding kernels have ended, unless
  // `fresh` is set. Lengths and table must not change within the chain.
  uint32_t chained = 0;
  uint32_t fresh = 0;  // any position may be new
  uint32_t ahead = 0;  // stages after those of the ring that are prefetched to L2 before the wait
  auto operator<=>(const ClusterAttention&) const = default;
  static auto fields() {
    using S = ClusterAttention;
    using F = Field<S>;
    return std::tuple(
        F{"head_dim", &S::head_dim, one_of({64, 80, 96, 112, 128, 160, 192, 256, 512})}, F{"kv", &S::kv, kv_types()},
        F{"layout", &S::layout, kv_layouts()}, F{"length", &S::length, named({"direct", "indirect"})},
        F{"splits", &S::splits, one_of({1, 2, 4, 8, 16})}, F{"rows", &S::rows, one_of({2, 4, 8, 16})},
        F{"stages", &S::stages, range(1, 16)}, F{"warps", &S::warps, one_of({1, 2, 4, 8})},
        F{"copies", &S::copies, copy_kinds()}, F{"merge", &S::merge, yes_or_no()}, F{"mapped", &S::mapped, yes_or_no()},
        F{"grouped", &S::grouped, yes_or_no()}, F{"window", &S::window, yes_or_no()},
        F{"softcap", &S::softcap, yes_or_no()}, F{"chunk", &S::chunk, yes_or_no()}, F{"sinks", &S::sinks, yes_or_no()},
        F{"slopes", &S::slopes, yes_or_no()}, F{"out_apart", &S::out_apart, aparts()},
        F{"chained", &S::chained, yes_or_no()}, F{"fresh", &S::fresh, yes_or_no()},
        F{"ahead", &S::ahead, range(0, 16)});
  }

  // Shared memory of a stage: 8 pieces of K, 8 of V, and as many of their scales.
  uint32_t row_bytes() const { return head_dim * (kv == kv_q8 ? 1 : 2); }
  uint32_t piece_bytes() const { return rows * row_bytes() + 16; }
  uint32_t scale_bytes() const { return kv == kv_q8 ? rows * head_dim / 16 + 16 : 0; }  // of a piece
  uint32_t stage_bytes() const { return 2 * 8 * (piece_bytes() + scale_bytes()); }
  uint32_t shared_bytes() const;  // of a block
  // Warps that take the same positions, each with a part of the values: the sums of 512 would take 256 registers of a
  // thread. Then q is in shared memory too.
  uint32_t value_parts() const { return head_dim > 256 ? 2 : 1; }
  uint32_t q_bytes() const { return value_parts() > 1 ? head_dim / 16 * 32 * 16 : 0; }
  // Whether every warp has positions to take, and registers for its sums.
  bool suits_warps() const;
  // Values of `partial` and `arrived` for these numbers of sequences, kv heads and clusters of each.
  size_t partial_count(uint32_t sequences, uint32_t kv_heads, uint32_t clusters) const;
  size_t arrived_count(uint32_t sequences, uint32_t kv_heads) const { return size_t(sequences) * kv_heads * splits; }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

// A spec for sequences of about `length` positions on a GPU of `sms` SMs: a starting point for tuning. The caller sets
// layout, length, chained, and what positions and scores depend on.
struct ClusterChoice {
  ClusterAttention spec;
  uint32_t clusters;
};
ClusterChoice cluster_choice(uint32_t head_dim, uint32_t kv_heads, uint32_t sequences, uint32_t length, uint32_t sms,
                             const GpuLimits& gpu = {});
// How many groups of up to 8 query heads a kv head has.
uint32_t cluster_groups(uint32_t heads, uint32_t kv_heads);
// The same spec for all lengths and batch sizes, so that a row's result depends on its own sequence alone.
ClusterChoice steady_cluster_choice(uint32_t head_dim, const GpuLimits& gpu = {});
// Whether some shape for heads of this size fits the shared memory.
bool cluster_fits_heads(uint32_t head_dim, const GpuLimits& gpu);
// The same shape for a q8 cache: as many bytes in flight, in more stages.
ClusterAttention as_q8(ClusterAttention spec);

}  // namespace heddle::kernels
