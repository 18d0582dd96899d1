// Pages of a paged cache for the positions that a case needs, in random order; all other entries are wild.
#pragma once
#include <map>
#include <numeric>

#include "proof/case.h"

namespace heddle::proof {

class PageTable {
 public:
  PageTable(uint32_t sequences, uint32_t last_position, uint32_t page_size)
      : page_size_(page_size),
        stride_(last_position / page_size + 2),
        table_(size_t(sequences) * stride_, 0x7fffffff) {}

  void need(uint32_t sequence, uint32_t position) { table_[size_t(sequence) * stride_ + position / page_size_] = -1; }
  // After all needs: a page for each, and two that belong to nobody.
  void place(Random& random) {
    std::vector<int32_t*> entries;
    for (int32_t& entry : table_)
      if (entry == -1) entries.push_back(&entry);
    pages_ = uint32_t(entries.size()) + 2;
    std::vector<int32_t> order(pages_);
    std::iota(order.begin(), order.end(), 0);
    for (uint32_t i = pages_; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (size_t i = 0; i < entries.size(); ++i) *entries[i] = order[i];
  }

  // The row of a position and kv head, counted over the cache.
  size_t row(uint32_t sequence, uint32_t position, uint32_t kv_heads, uint32_t kv_head) const {
    const size_t page = size_t(table_[size_t(sequence) * stride_ + position / page_size_]);
    return (page * kv_heads + kv_head) * page_size_ + position % page_size_;
  }
  size_t rows(uint32_t kv_heads) const { return size_t(pages_) * kv_heads * page_size_; }
  uint32_t stride() const { return stride_; }
  const std::vector<int32_t>& table() const { return table_; }

 private:
  uint32_t page_size_, stride_, pages_ = 0;
  std::vector<int32_t> table_;
};

}  // namespace heddle::proof
