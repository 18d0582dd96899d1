// Attention of many new tokens per sequence over a paged cache by warp groups (sm_90a): for long prompts and texts.
#pragma once
#include "kernels/attention/prompt_attention.h"

namespace heddle::kernels {

// The same as PromptAttention, in tiles of up to 128 rows: one block per tile, query head and part of its values. Two
// warp groups compute 64 rows each, while the warps of a third bring K and V to shared memory.
struct WgmmaAttention {
  static constexpr std::string_view name = "wgmma_attention",
                                    summary = "attention of many tokens per sequence by warp groups",
                                    lowest_target = "sm_90a";
  // As for PromptAttention.
  using Args = PromptAttention::Args;
  static constexpr uint32_t groups = 2, queries = 64 * groups;  // warp groups that compute; limit of a tile's rows
  static constexpr uint32_t threads = (groups + 1) * 128;

  uint32_t head_dim = 128;   // of q and K
  uint32_t value_dim = 0;    // of V and out; 0: the same
  uint32_t positions = 128;  // of the cache per step
  uint32_t stages = 2;       // steps in shared memory
  uint32_t kv = kv_f16;      // q8: head_dim must be a multiple of 32, and that of V
  uint32_t window = 0, softcap = 0, chunk = 0, sinks = 0, slopes = 0, bidirectional = 0, chained = 0;
  auto operator<=>(const WgmmaAttention&) const = default;
  static auto fields() {
    using S = WgmmaAttention;
    using F = Field<S>;
    return std::tuple(
        F{"head_dim", &S::head_dim, one_of({64, 80, 96, 112, 128, 160, 192, 256, 512})},
        F{"value_dim", &S::value_dim, range(0, 256, 16)},
        F{"positions", &S::positions, one_of({32, 64, 96, 128, 160, 192})}, F{"stages", &S::stages, range(2, 4)},
        F{"kv", &S::kv, kv_types()}, F{"window", &S::window, yes_or_no()}, F{"softcap", &S::softcap, yes_or_no()},
        F{"chunk", &S::chunk, yes_or_no()}, F{"sinks", &S::sinks, yes_or_no()}, F{"slopes", &S::slopes, yes_or_no()},
        F{"bidirectional", &S::bidirectional, yes_or_no()}, F{"chained", &S::chained, yes_or_no()});
  }

  uint32_t values() const { return value_dim ? value_dim : head_dim; }
  // Blocks that share a head's values, as in PromptAttention.
  uint32_t value_parts() const { return values() > 256 ? 2 : 1; }
  uint32_t part_values() const { return values() / value_parts(); }
  // Rows lie in panels of 64 values, 128 bytes: what a swizzle of 128 bytes wants.
  static uint32_t panels(uint32_t dim) { return (dim + 63) / 64; }
  uint32_t key_bytes() const { return panels(head_dim) * positions * 128; }  // of a stage
  uint32_t value_bytes() const { return panels(part_values()) * positions * 128; }
  uint32_t shared_bytes() const {
    return panels(head_dim) * queries * 128 + stages * (key_bytes() + value_bytes() + 32);
  }
  uint32_t registers() const;  // that a thread keeps: sums, scores and weights

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

// The spec for a size of heads; value_dim: as in the spec. The caller sets kv, chained, and what positions and scores
// depend on.
WgmmaAttention wgmma_choice(uint32_t head_dim, uint32_t value_dim = 0);

}  // namespace heddle::kernels
