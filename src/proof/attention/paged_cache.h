// A paged cache as a case fills it: which pages there are, and the rows in them.
#pragma once
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "base/f16.h"
#include "kernels/attention/kv_cache.h"
#include "proof/case.h"
#include "quant/kv_q8.h"

namespace heddle::proof {

// Rows of a cache as the device has them, f16 or q8, all NaN but for those that were put.
struct KvRows {
  uint32_t size, kv;  // values of a row, kernels::kv_f16 or kv_q8
  std::vector<uint8_t> bytes;
  std::vector<f16> scales;  // q8

  KvRows(size_t rows, uint32_t size_, uint32_t kv_)
      : size(size_), kv(kv_), bytes(rows * size * (kv == kernels::kv_q8 ? 1 : 2), 0x7e) {  // 0x7e7e is a NaN
    const f16 nan = to_f16(std::numeric_limits<float>::quiet_NaN());
    if (kv == kernels::kv_q8) scales.assign(rows * (size / 32), nan);
  }

  // Values become what the cache keeps of them; with `rounded`, what the matrix units are given: that as f16.
  void put(size_t row, float* values, bool rounded = false) {
    if (kv == kernels::kv_q8)
      for (uint32_t b = 0; b < size / 32; ++b) {
        auto* q = reinterpret_cast<int8_t*>(&bytes[row * size + b * 32]);
        const uint16_t scale = quant::encode_kv_q8(values + b * 32, q);
        scales[row * (size / 32) + b] = f16{scale};
        quant::decode_kv_q8(scale, q, values + b * 32);
      }
    for (uint32_t i = 0; i < size; ++i) {
      const f16 half = to_f16(values[i]);
      if (kv == kernels::kv_f16) std::memcpy(&bytes[(row * size + i) * 2], &half, 2);
      if (kv == kernels::kv_f16 || rounded) values[i] = to_f32(half);
    }
  }
};

// Pages of a paged cache for the positions that a case needs, in random order; all other entries are wild.
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
