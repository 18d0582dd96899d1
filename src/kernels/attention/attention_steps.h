// The steps around attention as kernels of their own: rotary embedding, the write to the KV cache, and the softmax of
// scores. `heads` and the attention kernels do the same in one launch.
#pragma once
#include <compare>

#include "kernels/attention/kv_cache.h"
#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Rotary position embedding of queries and keys.

// Each head's first rotary_dim values are pairs, turned by position * frequency; the rest is copied. q and k in one
// launch (either may have 0 heads), in place (out = in) or to other buffers.
struct Rope {
  static constexpr std::string_view name = "rope", summary = "rotary position embedding of q and k",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> q_out, q;     // (tokens, q_heads, head_dim)
    ptx::DevicePtr<float> k_out, k;     // (tokens, k_heads, head_dim)
    ptx::DevicePtr<int32_t> positions;  // (tokens)
    ptx::DevicePtr<uint64_t> turns;     // (rotary_dim / 2), from rope_frequencies()
    uint32_t tokens, q_heads, k_heads;
    uint32_t head_dim, rotary_dim;    // even; rotary_dim <= head_dim
    uint32_t q_out_stride, q_stride;  // values from token to token, at least heads * head_dim
    uint32_t k_out_stride, k_stride;  // (more where q, k and v share a row)
    float magnitude = 1;              // of the rotated values, from rope_frequencies()
  };
  uint32_t threads = 128;
  uint32_t pairs = half_split;
  uint32_t chained = 0;
  enum : uint32_t {
    interleaved,  // (0, 1), (2, 3), ...: GPT-J, Llama in GGUF order
    half_split,   // (0, rotary_dim / 2), (1, rotary_dim / 2 + 1), ...: NeoX, and most models as published
  };
  auto operator<=>(const Rope&) const = default;
  static auto fields() {
    return std::tuple(Field<Rope>{"threads", &Rope::threads, range(32, 1024, 32)},
                      Field<Rope>{"pairs", &Rope::pairs, named({"interleaved", "half_split"})},
                      Field<Rope>{"chained", &Rope::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// Writes new keys and values to the KV cache.

// Writes row r of k_new and v_new to position positions[r] of its sequence's K and V, in one launch for all rows. A
// position below 0 skips the row. No two rows may go to the same place.
struct KvScatter {
  static constexpr std::string_view name = "kv_scatter",
                                    summary = "new K and V rows of many sequences into their caches",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> k_new, v_new;       // (rows, kv_heads, head_dim), 16-byte aligned
    ptx::DevicePtr<int32_t> positions;        // (rows)
    ptx::DevicePtr<int32_t> sequence_of;      // (rows); read with mapped only
    ptx::DevicePtr<uint8_t> k, v;             // single, paged: the cache
    ptx::DevicePtr<uint64_t> k_base, v_base;  // batched: (sequences), addresses
    ptx::DevicePtr<int32_t> table;            // paged: (sequences, table_stride), page numbers
    uint32_t rows, kv_heads;
    uint32_t k_stride, v_stride;       // values from row to row of k_new, v_new; multiples of 4
    uint32_t max_len;                  // single, batched: positions from one kv head to the next
    uint32_t page_size, table_stride;  // paged; page_size a multiple of 16
  };
  uint32_t head_dim = 128;
  uint32_t kv = kv_f16;
  uint32_t layout = kv_batched;
  uint32_t mapped = 0;  // yes: row r belongs to sequence sequence_of[r]; no: to sequence r (single: to the only one)
  uint32_t chained = 0;
  auto operator<=>(const KvScatter&) const = default;
  static auto fields() {
    using F = Field<KvScatter>;
    return std::tuple(F{"head_dim", &KvScatter::head_dim, range(8, 1024, 8)}, F{"kv", &KvScatter::kv, kv_types()},
                      F{"layout", &KvScatter::layout, kv_layouts()}, F{"mapped", &KvScatter::mapped, yes_or_no()},
                      F{"chained", &KvScatter::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// Softmax over rows of attention scores.

// Row r = head * queries + query has position offset + query and sees keys position - window + 1 ... position; what it
// does not see becomes 0, and so does a row that sees nothing or only -infinity. y may be x.
struct CausalSoftmax {
  static constexpr std::string_view name = "causal_softmax",
                                    summary = "softmax of score rows up to each row's position",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, x;    // (rows, keys)
    uint32_t rows, queries, keys;  // rows: a multiple of queries
    int32_t offset;                // position of query 0, that is the keys before it
    uint32_t window;               // a row sees the last `window` keys; 0: all
    float scale;                   // of the scores
    float cap;                     // capped: cap * tanh(scale * score / cap) instead of scale * score
  };
  uint32_t warps = 4;  // per block
  uint32_t row_per = block;
  uint32_t capped = 0;
  uint32_t chained = 0;
  enum : uint32_t { warp, block };
  auto operator<=>(const CausalSoftmax&) const = default;
  static auto fields() {
    return std::tuple(Field<CausalSoftmax>{"warps", &CausalSoftmax::warps, range(1, 32)},
                      Field<CausalSoftmax>{"row_per", &CausalSoftmax::row_per, named({"warp", "block"})},
                      Field<CausalSoftmax>{"capped", &CausalSoftmax::capped, yes_or_no()},
                      Field<CausalSoftmax>{"chained", &CausalSoftmax::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
