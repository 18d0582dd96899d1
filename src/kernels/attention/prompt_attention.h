// Attention of many new tokens per sequence over a paged cache: for prompts, and for whole texts in both directions.
#pragma once
#include <algorithm>

#include "kernels/attention/kv_cache.h"

namespace heddle::kernels {

// The work of one block: consecutive new tokens of one sequence.
struct PromptTile {
  uint32_t sequence;        // row of the table
  uint32_t first_row;       // in q and out
  uint32_t rows;            // up to PromptAttention::tile_rows(); 0: nothing to do
  uint32_t first_position;  // of the first row; the others follow
};

// out = softmax(q k * scale) v, where the token at position p sees the positions 0 to p, or the last `window` of them,
// or those of its chunk; with `bidirectional` it sees its whole text, or window / 2 positions on both sides. K and V of
// the new tokens are in the cache already. One block per part of a tile, query head and part of its values, or a
// cluster that divides the positions. The last tile of the list starts first, because it has the most positions if the
// tiles of a sequence are in order.
struct PromptAttention {
  static constexpr std::string_view name = "prompt_attention",
                                    summary = "attention of many tokens per sequence over a cache in pages",
                                    lowest_target = "sm_80";
  // q and out are 8-byte aligned with even strides, and q * scale is finite as f16; k, v, k_scale and v_scale are
  // 16-byte aligned; page_size is a multiple of 16; window, softcap, chunk, sinks and slopes are read with the fields
  // of that name.
  struct Args : AttentionArgs {
    ptx::DevicePtr<PromptTile> tiles;  // (tile_count), 16-byte aligned
    uint32_t tile_count;
    ptx::DevicePtr<uint32_t> lengths;  // bidirectional: (tile_count), positions of the tile's text
  };
  uint32_t head_dim = 128;
  uint32_t queries = 64;    // rows of a block: 16 per warp
  uint32_t parts = 1;       // blocks that share the rows of a tile
  uint32_t positions = 64;  // of the cache per step
  uint32_t stages = 2;      // steps in shared memory
  uint32_t resident = 1;    // blocks per SM to leave registers for
  uint32_t splits = 1;      // blocks of a cluster (sm_90): for few tiles and many positions
  // q as two f16 instead of one, for 50 % more work: scores are nearly as exact as in f32. Without it q is rounded to
  // f16, as K is in the cache.
  uint32_t exact_q = 0;
  uint32_t kv = kv_f16;  // q8: head_dim must be a multiple of 32
  uint32_t window = 0, softcap = 0, chunk = 0, sinks = 0, slopes = 0, bidirectional = 0, chained = 0;
  auto operator<=>(const PromptAttention&) const = default;
  static auto fields() {
    using S = PromptAttention;
    using F = Field<S>;
    return std::tuple(F{"head_dim", &S::head_dim, one_of({64, 80, 96, 112, 128, 160, 192, 256, 512})},
                      F{"queries", &S::queries, one_of({16, 32, 64, 128})}, F{"parts", &S::parts, range(1, 8)},
                      F{"positions", &S::positions, one_of({16, 32, 64, 128})}, F{"stages", &S::stages, range(2, 4)},
                      F{"resident", &S::resident, range(1, 4)}, F{"splits", &S::splits, one_of({1, 2, 4, 8})},
                      F{"exact_q", &S::exact_q, yes_or_no()}, F{"kv", &S::kv, kv_types()},
                      F{"window", &S::window, yes_or_no()}, F{"softcap", &S::softcap, yes_or_no()},
                      F{"chunk", &S::chunk, yes_or_no()}, F{"sinks", &S::sinks, yes_or_no()},
                      F{"slopes", &S::slopes, yes_or_no()}, F{"bidirectional", &S::bidirectional, yes_or_no()},
                      F{"chained", &S::chained, yes_or_no()});
  }

  uint32_t threads() const { return queries * 2; }
  uint32_t tile_rows() const { return queries * parts; }
  // Bytes of a position in shared memory, with 16 bytes of padding so that 8 rows lie in different banks.
  uint32_t row_bytes() const { return data_bytes() + 16; }
  uint32_t data_bytes() const { return head_dim * (kv == kv_q8 ? 1 : 2); }
  // Blocks that share a head's values: the sums of 512 would take 256 registers of a thread. Each computes all scores.
  uint32_t value_parts() const { return head_dim > 256 ? 2 : 1; }
  uint32_t value_data_bytes() const { return data_bytes() / value_parts(); }
  uint32_t value_row_bytes() const { return value_data_bytes() + 16; }
  uint32_t scale_bytes() const { return kv == kv_q8 ? head_dim / 16 : 0; }
  uint32_t stage_bytes() const { return positions * (row_bytes() + value_row_bytes() + 2 * scale_bytes()); }
  uint32_t ring_bytes() const { return stages * stage_bytes(); }
  // What a block of a cluster sends to the first one: two maxima and sums per thread, and the thread's results.
  uint32_t merge_bytes() const { return splits > 1 ? threads() * (4 + head_dim / value_parts() / 2) * 4 : 0; }
  // Where q needs more registers than a thread can spare, it is kept in shared memory.
  bool q_in_registers() const { return head_dim / 4 * (1 + exact_q) <= 96; }
  uint32_t shared_bytes() const {
    return std::max(ring_bytes(), merge_bytes()) + (q_in_registers() ? 0 : threads() * head_dim * (1 + exact_q));
  }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

// Refuses arguments that no kernel for prompts with this spec can take.
void check_prompt_args(std::string_view kernel, const PromptAttention::Args& args, const auto& spec) {
  if (args.kv_heads == 0 || args.heads == 0 || args.heads % args.kv_heads)
    throw Error("{}: {} heads are not a positive multiple of {} kv heads", kernel, args.heads, args.kv_heads);
  if (args.page_size == 0 || args.page_size % 16)
    throw Error("{}: pages of {} positions, but they must be a positive multiple of 16", kernel, args.page_size);
  if (spec.window && args.window == 0) throw Error("{}: a window of 0 positions, but a token sees itself", kernel);
  if (spec.bidirectional && args.tile_count && args.lengths.address == 0)
    throw Error("{}: no lengths, but that of each tile's text is read", kernel);
  check_scores(kernel, args, spec.softcap, spec.chunk, spec.sinks, spec.slopes);
  if (args.k.address % 16 || args.v.address % 16 || args.tiles.address % 16)
    throw Error("{}: k, v and tiles must be 16-byte aligned", kernel);
  if (spec.kv == kv_q8 && (args.k_scale.address % 16 || args.v_scale.address % 16))
    throw Error("{}: k_scale and v_scale must be 16-byte aligned", kernel);
  if (args.q.address % 8 || args.out.address % 8 || args.q_stride % 2 || args.out_stride % 2)
    throw Error("{}: rows of q and out must be 8-byte aligned; strides are {} and {}", kernel, args.q_stride,
                args.out_stride);
  uint32_t values = spec.head_dim;
  if constexpr (requires { spec.values(); }) values = spec.values();
  if (args.q_stride < uint64_t(args.heads) * spec.head_dim || args.out_stride < uint64_t(args.heads) * values)
    throw Error("{}: strides of {} and {} are too small for {} heads of {}", kernel, args.q_stride, args.out_stride,
                args.heads, spec.head_dim);
}

// A spec for a batch in which the longest run of new tokens has `rows` rows, for a GPU with `shared_bytes` of shared
// memory per block. Tiles then have up to `queries` rows. The caller sets parts, kv, chained,
// and what positions and scores depend on.
PromptAttention prompt_choice(uint32_t head_dim, uint32_t rows, uint32_t exact_q, uint32_t shared_bytes = 232'448);
// The number of blocks to divide a tile's positions: enough to occupy all SMs, without blocks that have little to do.
uint32_t prompt_splits(const PromptAttention& spec, uint32_t tiles, uint32_t heads, uint32_t longest, uint32_t sms);

}  // namespace heddle::kernels
