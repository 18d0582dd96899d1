// Attention of any shape, for what the fast kernels do not take.
#pragma once
#include <compare>

#include "base/f16.h"
#include "kernels/attention/kv_cache.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// A row at position p sees the positions 0 to p of its sequence, or the last `window` of them, in a paged cache.
// Query head h belongs to kv head h / (heads / kv_heads). Rows may be of one sequence or of many, in any mix. A
// position from 2^31 on sees nothing and gives zeros.
struct AnyAttention {
  static constexpr std::string_view name = "any_attention",
                                    summary = "attention of rows at their positions, heads of any size, paged cache",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> out;                         // (rows, heads, value_head)
    ptx::DevicePtr<float> q;                           // (rows, heads, head)
    ptx::DevicePtr<f16> k_cache;                       // (pages, kv_heads, page_size, head); q8: int8
    ptx::DevicePtr<f16> v_cache;                       // (pages, kv_heads, page_size, value_head); q8: int8
    ptx::DevicePtr<f16> k_scale, v_scale;              // q8: (pages, kv_heads, page_size, a 32nd of the head)
    ptx::DevicePtr<uint32_t> positions, sequences;     // (rows)
    ptx::DevicePtr<int32_t> table;                     // (sequences, table_stride): pages, as in kv_cache.h
    uint32_t rows, heads, kv_heads, head, value_head;  // heads of 1 to `largest` values
    uint32_t out_stride, q_stride;                     // values from row to row
    uint32_t page_size, table_stride;
    uint32_t window = 0;  // a position sees itself and window - 1 before it; 0: all
    float scale = 1;      // of the scores
    float softcap = 0;    // read with the field `softcap`: scores become cap * tanh(score / cap)
  };
  uint32_t warps = 8;  // they share the positions of a row and head
  uint32_t largest = 512;
  uint32_t vec = 1;  // values per load; head and value_head must be multiples of it. q8: 4
  uint32_t kv = kv_f16;
  uint32_t softcap = 0;
  uint32_t chained = 0;
  auto operator<=>(const AnyAttention&) const = default;
  static auto fields() {
    using F = Field<AnyAttention>;
    return std::tuple(
        F{"warps", &AnyAttention::warps, range(1, 16)}, F{"largest", &AnyAttention::largest, one_of({128, 256, 512})},
        F{"vec", &AnyAttention::vec, one_of({1, 2, 4})}, F{"kv", &AnyAttention::kv, model_kv_types()},
        F{"softcap", &AnyAttention::softcap, yes_or_no()}, F{"chained", &AnyAttention::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
