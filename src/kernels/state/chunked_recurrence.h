// Heads with a recurrent state over chunks of rows on the matrix units: what recurrence computes row after row.
//
// In a chunk, g is the sum of the logarithms of decays up to a row, G that of all rows, and S the state before it:
//   (I + L) u = beta v - beta e^g K S, L_ij = beta_i e^(g_i - g_j) k_i . k_j for j < i   (ssd: u = step v)
//   y = e^g Q S + P u, P_ij = e^(g_i - g_j) q_i . k_j for j <= i
//   S' = e^G S + K^T (e^(G - g) u)
// recurrence_prepare computes all that does not depend on states, for all chunks at once; recurrence_scan goes through
// the chunks of a sequence. Exponents are never positive: no decay, however strong, divides by zero.
//
// Operands are f16, sums and states f32. Rows of Q and K are divided by their lengths, so that f16 holds them (ssd has
// the lengths among its factors), (I + L)^-1 and P are at most 1, and S, the right side and u are scaled by a power of
// two for each chunk.
#pragma once
#include "kernels/state/recurrence.h"

namespace heddle::kernels {

constexpr uint32_t chunk_rows = 64;
constexpr uint32_t max_chunked_key = 128;
// Of inverses and scores, which are at most 1: f16 holds what decays have left of them down to 2^-28.
constexpr float square_scale = 0x1p14f;

// Rows of one sequence, `count` entries from `begin` on, not empty. All chunks of a run but its last are full, and
// follow each other.
struct StateChunk {
  uint32_t begin, count;
};

struct ChunkedArgs : Recurrence::Args {
  ptx::DevicePtr<uint32_t> chunks{};  // StateChunk; this and all below are 16-byte aligned
  // What recurrence_prepare hands over.
  ptx::DevicePtr<heddle::f16> keys{}, queries{};  // (chunks, key_heads, chunk_rows, padded_key()): of length 1
  ptx::DevicePtr<heddle::f16> inverses{};  // (chunks, heads, chunk_rows, chunk_rows): (I + L)^-1 of delta, scaled
  ptx::DevicePtr<heddle::f16> scores{};    // the same of P
  ptx::DevicePtr<float> factors{};         // (chunks, heads, 4, chunk_rows): of u, e^g, e^(G - g), of y
  uint32_t chunk_count = 0;
};

// Throws an Error that names what does not fit.
void check_chunked_args(std::string_view name, const ChunkedArgs& args);

struct RecurrencePrepare {
  static constexpr std::string_view name = "recurrence_prepare",
                                    summary = "what chunks of rows do to recurrent states, whatever these are",
                                    lowest_target = "sm_80";
  using Args = ChunkedArgs;
  uint32_t key = 128;
  uint32_t rule = rule_delta;
  uint32_t chained = 0;
  auto operator<=>(const RecurrencePrepare&) const = default;
  static auto fields() {
    using S = RecurrencePrepare;
    using F = Field<S>;
    return std::tuple(F{"key", &S::key, range(1, max_chunked_key)}, F{"rule", &S::rule, named({"ssd", "delta"})},
                      F{"chained", &S::chained, yes_or_no()});
  }

  uint32_t padded_key() const { return Recurrence{.key = key}.padded_key(); }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

struct RecurrenceScan {
  static constexpr std::string_view name = "recurrence_scan",
                                    summary = "the recurrent states of heads, chunk after chunk",
                                    lowest_target = "sm_80";
  using Args = ChunkedArgs;  // runs: with their first chunks
  uint32_t key = 128;
  uint32_t rule = rule_delta;
  uint32_t columns = 32;  // values of a block: 16 of a warp
  uint32_t stages = 1;    // chunks in shared memory: with 2 the next one is fetched early
  uint32_t chained = 0;
  auto operator<=>(const RecurrenceScan&) const = default;
  static auto fields() {
    using S = RecurrenceScan;
    using F = Field<S>;
    return std::tuple(F{"key", &S::key, range(1, max_chunked_key)}, F{"rule", &S::rule, named({"ssd", "delta"})},
                      F{"columns", &S::columns, one_of({32, 64})}, F{"stages", &S::stages, one_of({1, 2})},
                      F{"chained", &S::chained, yes_or_no()});
  }

  static constexpr uint32_t copy_warps = 2, warp_columns = 16;
  uint32_t warps() const { return columns / warp_columns + copy_warps; }
  uint32_t padded_key() const { return Recurrence{.key = key}.padded_key(); }
  uint32_t shared_bytes() const;

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// More values to a block where blocks still are as many as SMs, and two stages where they fit.
struct ScanShape {
  uint32_t key, rule, heads, value, runs;
  uint32_t sms, shared_per_block;  // of the GPU
};
RecurrenceScan scan_choice(const ScanShape& shape);

}  // namespace heddle::kernels
