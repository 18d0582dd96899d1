// Writes new keys and values to the KV cache.
#pragma once
#include <compare>

#include "kernels/attention/kv_cache.h"

namespace heddle::kernels {

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

}  // namespace heddle::kernels
