// Attention of any shape, for models that the fast kernels do not support.
#pragma once
#include <compare>

#include "kernels/attention/kv_cache.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Attention of any shape. A row at position p sees the positions 0 to p of its sequence, or the last `window` of them,
// or those of its chunk, or with `bidirectional` its whole text, in a paged cache. Query head h belongs to kv head h /
// (heads / kv_heads). Rows may be of one sequence or of many, in any mix. A position from 2^31 on sees nothing and
// gives zeros.
struct AnyAttention {
  static constexpr std::string_view name = "any_attention",
                                    summary = "attention of rows at their positions, heads of any size, paged cache",
                                    lowest_target = "sm_75";
  // window = 0: no window. softcap, chunk, sinks and slopes are read with the fields of their names.
  struct Args : AttentionArgs {
    ptx::DevicePtr<uint32_t> positions, sequences;  // (rows)
    uint32_t rows;
    uint32_t head, value_head;         // values of a head of q and k, and of v and out: 1 to `largest`
    ptx::DevicePtr<uint32_t> lengths;  // bidirectional: (rows), positions of the row's text
  };
  uint32_t warps = 8;  // they share the positions of a row and head
  uint32_t largest = 512;
  uint32_t vec = 1;  // values per load; head and value_head must be multiples of it. q8: 1 or 4
  uint32_t kv = kv_f16;
  uint32_t softcap = 0, sinks = 0, slopes = 0;
  uint32_t chunk = 0, bidirectional = 0;
  uint32_t chained = 0;
  auto operator<=>(const AnyAttention&) const = default;
  static auto fields() {
    using F = Field<AnyAttention>;
    return std::tuple(F{"warps", &AnyAttention::warps, range(1, 16)},
                      F{"largest", &AnyAttention::largest, one_of({128, 256, 512})},
                      F{"vec", &AnyAttention::vec, one_of({1, 2, 4})}, F{"kv", &AnyAttention::kv, kv_types()},
                      F{"softcap", &AnyAttention::softcap, yes_or_no()}, F{"sinks", &AnyAttention::sinks, yes_or_no()},
                      F{"slopes", &AnyAttention::slopes, yes_or_no()}, F{"chunk", &AnyAttention::chunk, yes_or_no()},
                      F{"bidirectional", &AnyAttention::bidirectional, yes_or_no()},
                      F{"chained", &AnyAttention::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
