// Multi-head latent attention over a paged cache, absorbed (model::Latent): the queries of all heads become latents,
// attend to the latents of the cache, and what they find becomes the heads' values. Three kernels, in this order.
#pragma once
#include <algorithm>
#include <compare>

#include "base/f16.h"
#include "kernels/attention/kv_cache.h"
#include "kernels/spec/gpu_limits.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// The sizes of a head, which all three kernels share. A row of the cache has `rank` values, the latent, and behind them
// `rotated` ones; in q8 the groups of its scales are those of one head of all these values.
inline Allowed latent_ranks() { return range(16, 1024, 16); }
inline Allowed latent_parts() { return range(8, 512, 8); }

// Of each row and head: the plain part of the query times the head's matrix, as f16, and behind it the rotated part,
// rotated. Of each row: the latent through its norm, and the rotated part of the key, rotated, to the cache.
// Blocks take a part of a head's matrix, or at the end of the grid a row. Without `absorbed` the queries stay as they
// are but for the rotation, in place: for attention to the heads' own keys (latent_expand.h).
struct LatentQueries {
  static constexpr std::string_view name = "latent_queries",
                                    summary = "queries as latents, and the latent of each row into a paged cache",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<f16> out;                        // absorbed: (rows, heads, rank + rotated), 16-byte aligned
    ptx::DevicePtr<float> q;                        // (rows, q_stride): heads of (plain, rotated) side by side
    ptx::DevicePtr<float> kv;                       // (rows, kv_stride): latent, rotated part of the key
    ptx::DevicePtr<f16> up;                         // absorbed: (heads, rank, plain), 16-byte aligned
    ptx::DevicePtr<float> norm;                     // (rank): its weight
    ptx::DevicePtr<uint64_t> turns;                 // (rotated / 2), RopeFrequencies::turns()
    ptx::DevicePtr<uint32_t> positions, sequences;  // (rows); a position from 2^31 on skips the row
    ptx::DevicePtr<int32_t> table;                  // (sequences, table_stride): pages, as in kv_cache.h
    ptx::DevicePtr<f16> cache;                      // (pages, page_size, rank + rotated); q8: int8
    ptx::DevicePtr<f16> scales;                     // q8: (pages, page_size, groups of rank + rotated)
    uint32_t rows, heads, q_stride, kv_stride, page_size, table_stride;
    float epsilon, magnitude;  // of the norm; of rotated values
    float temperature = 0;     // see model::Temperature; 0: none
    uint32_t temperature_length = 1, temperature_offset = 0;
  };
  uint32_t rank = 512, plain = 128, rotated = 64;
  uint32_t tiles = 1;   // of 16 rows, that a block takes
  uint32_t halves = 0;  // the rotation takes values half of them apart; otherwise neighbours
  uint32_t absorbed = 1;
  uint32_t temperature = 0;
  uint32_t cache = kv_f16;
  uint32_t chained = 0;
  auto operator<=>(const LatentQueries&) const = default;
  static auto fields() {
    using S = LatentQueries;
    using F = Field<S>;
    return std::tuple(F{"rank", &S::rank, latent_ranks()}, F{"plain", &S::plain, latent_parts()},
                      F{"rotated", &S::rotated, latent_parts()}, F{"tiles", &S::tiles, range(1, 4)},
                      F{"halves", &S::halves, yes_or_no()}, F{"absorbed", &S::absorbed, yes_or_no()},
                      F{"temperature", &S::temperature, yes_or_no()}, F{"cache", &S::cache, kv_types()},
                      F{"chained", &S::chained, yes_or_no()});
  }
  static constexpr uint32_t columns = 64;  // of the result, of a block
  uint32_t head() const { return rank + rotated; }
  uint32_t chunks() const { return (rank + columns - 1) / columns; }
  uint32_t groups(uint32_t rows) const { return (rows + tiles * 16 - 1) / (tiles * 16); }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// Of each row, for 16 heads at a time: the sum of weight * latent over the positions that the row sees, divided into
// `splits` ranges. Weights are relative to the largest score of a range; see LatentValues for what becomes of them.
struct LatentAttention {
  static constexpr std::string_view name = "latent_attention",
                                    summary = "attention of all heads to the latents of a paged cache",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> out;   // (rows, heads, splits, rank)
    ptx::DevicePtr<float> sums;  // (rows, heads, splits, 2): the largest score in base 2, and the sum of the weights
    ptx::DevicePtr<f16> q;       // (rows, heads, rank + rotated), 16-byte aligned
    ptx::DevicePtr<f16> cache;   // (pages, page_size, rank + rotated), 16-byte aligned; q8: int8
    ptx::DevicePtr<f16> scales;  // q8: (pages, page_size, groups of rank + rotated)
    ptx::DevicePtr<uint32_t> positions, sequences;  // (rows); a position from 2^31 on skips the row
    ptx::DevicePtr<int32_t> table;                  // (sequences, table_stride)
    uint32_t rows, heads, page_size, table_stride;
    uint32_t splits = 1;
    float scale = 1;  // of the scores
  };
  uint32_t rank = 512, rotated = 64;
  uint32_t positions = 32;  // of a step
  uint32_t stages = 1;      // steps in shared memory; q8: 1 or 2
  uint32_t cache = kv_f16;
  uint32_t chained = 0;
  auto operator<=>(const LatentAttention&) const = default;
  static auto fields() {
    using S = LatentAttention;
    using F = Field<S>;
    return std::tuple(F{"rank", &S::rank, latent_ranks()}, F{"rotated", &S::rotated, latent_parts()},
                      F{"positions", &S::positions, one_of({32, 64})}, F{"stages", &S::stages, range(1, 4)},
                      F{"cache", &S::cache, kv_types()}, F{"chained", &S::chained, yes_or_no()});
  }
  uint32_t head() const { return rank + rotated; }
  uint32_t threads() const { return positions * 4; }
  uint32_t warps() const { return threads() / 32; }
  uint32_t steps_of_16() const { return (head() + 31) / 32 * 2; }  // of a row, for two halves of the warps
  // A row in shared memory, padded so that 8 rows lie in different banks.
  uint32_t row_bytes() const { return steps_of_16() * 32 + 16; }
  uint32_t stage_bytes() const { return positions * row_bytes(); }
  uint32_t shared_bytes() const {
    return stages * stage_bytes() + 16 * row_bytes() + 2 * 16 * (positions + 4) * 4 + 16 * (positions + 8) * 2 + 128;
  }
  uint32_t warp_columns() const { return std::max(16u, (rank / warps() + 15) / 16 * 16); }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// Of each row and head: the ranges of LatentAttention as one, times the head's matrix.
struct LatentValues {
  static constexpr std::string_view name = "latent_values", summary = "from latents that were found to values of heads",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> out;      // (rows, out_stride): heads of `value` side by side
    ptx::DevicePtr<float> x, sums;  // out and sums of LatentAttention
    ptx::DevicePtr<f16> up;         // (heads, value, rank), 16-byte aligned
    uint32_t rows, heads, out_stride;
    uint32_t splits = 1;  // up to 64
  };
  uint32_t rank = 512, value = 128;
  uint32_t tiles = 1;  // of 16 rows, that a block takes
  uint32_t chained = 0;
  auto operator<=>(const LatentValues&) const = default;
  static auto fields() {
    using S = LatentValues;
    using F = Field<S>;
    return std::tuple(F{"rank", &S::rank, latent_ranks()}, F{"value", &S::value, latent_parts()},
                      F{"tiles", &S::tiles, range(1, 4)}, F{"chained", &S::chained, yes_or_no()});
  }
  static constexpr uint32_t columns = 32, max_splits = 64;
  uint32_t shared_bytes() const { return (columns + tiles * 16) * (rank * 2 + 16) + tiles * 16 * max_splits * 4; }
  uint32_t chunks() const { return (value + columns - 1) / columns; }
  uint32_t groups(uint32_t rows) const { return (rows + tiles * 16 - 1) / (tiles * 16); }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// Shapes for a GPU with so much shared memory per block.
LatentAttention latent_choice(uint32_t rank, uint32_t rotated, const GpuLimits& gpu = {});
LatentValues latent_values_choice(uint32_t rank, uint32_t value, uint32_t rows, const GpuLimits& gpu = {});
// The ranges of the positions: enough blocks for all SMs, without blocks that have little to do.
uint32_t latent_splits(const LatentAttention& spec, uint32_t rows, uint32_t heads, uint32_t longest, uint32_t sms);

}  // namespace heddle::kernels
