// A paged f16 cache whose sizes are known at launch only. kv_cache.h has the layout.
#pragma once
#include "kernels/attention/kv_cache.h"

namespace heddle::kernels {

// Rows of one sequence. Args has the members table, kv_heads, page_size and table_stride.
template <class Args>
class PagedRows {
 public:
  PagedRows(ptx::Builder<Args>& k, ptx::U32 sequence)
      : table_(k.arg(&Args::table) + mul_wide(sequence, k.arg(&Args::table_stride))),
        kv_heads_(k.arg(&Args::kv_heads)),
        page_size_(k.arg(&Args::page_size)),
        pages_(k, page_size_) {}

  // How many rows lie before that of a position and kv head. Reads the table.
  ptx::U64 row(ptx::U32 position, ptx::U32 kv_head) const {
    using namespace ptx;
    const U32 slot = pages_.divide(position), in_page = position - slot * page_size_;
    const U32 page = bitcast<uint32_t>(load(table_ + slot));
    return mad(mad_wide(page, kv_heads_, widen(kv_head)), widen(page_size_), widen(in_page));
  }

 private:
  ptx::Global<int32_t> table_;
  ptx::U32 kv_heads_, page_size_;
  Divider pages_;
};

// Rows that are not in use have a position from here on: -1 as a signed number, say.
constexpr uint32_t no_position = 0x80000000u;

// Refuses heads that are none, and pages of nothing. `kernel` is who asks.
template <class Args>
void check_paged_heads(std::string_view kernel, const Args& a, uint32_t largest) {
  if (a.kv_heads == 0 || a.heads == 0 || a.heads % a.kv_heads)
    throw Error("{}: {} heads are not a positive multiple of {} kv heads", kernel, a.heads, a.kv_heads);
  for (uint32_t size : {a.head, a.value_head})
    if (size == 0 || size > largest) throw Error("{}: heads of {} values, 1 to {} expected", kernel, size, largest);
  if (a.page_size == 0) throw Error("{}: pages of 0 positions", kernel);
}

// Refuses rows that overlap.
inline void check_stride(std::string_view kernel, const char* which, uint32_t rows, uint32_t stride, uint64_t values) {
  if (rows > 1 && stride < values)
    throw Error("{}: {} has a stride of {}, but rows of {} values", kernel, which, stride, values);
}

}  // namespace heddle::kernels
