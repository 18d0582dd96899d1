// Rows of activations: f32, and quantised in the ways that the weights they meet ask for.
#pragma once
#include <vector>

#include "cpu/isa.h"
#include "cpu/pack.h"

namespace heddle::cpu {

// Rows as the products take them.
struct RowsView {
  const float* const* f32 = nullptr;
  const XRow *by_32 = nullptr, *by_256 = nullptr;
  uint32_t count = 0;
};

class Rows {
 public:
  Rows() = default;
  // Room for `rows` rows of `cols` values that meet weights of these kinds.
  Rows(uint32_t rows, uint32_t cols, bool meets_32, bool meets_256);

  uint32_t cols() const { return cols_; }
  float* row(uint64_t index) { return f32_.data() + index * cols_; }
  const float* row(uint64_t index) const { return f32_.data() + index * cols_; }
  // Quantises a row that is complete.
  void finish(uint64_t index, const Isa& isa);

  RowsView view(uint32_t count) const { return {pointers_.data(), by_32_.data(), by_256_.data(), count}; }

 private:
  friend class Picked;
  uint32_t cols_ = 0;
  std::vector<float> f32_;              // (rows, cols)
  std::vector<const float*> pointers_;  // to each row
  std::vector<int8_t> q_32_, q_256_, parts_;
  std::vector<float> d_32_, d_256_;
  std::vector<int32_t> sums_32_, sums_256_;
  std::vector<XRow> by_32_, by_256_;  // of each row
};

// Some of the rows, in any order.
class Picked {
 public:
  void add(const Rows& rows, uint64_t index);
  void clear();
  RowsView view() const { return {f32_.data(), by_32_.data(), by_256_.data(), uint32_t(f32_.size())}; }

 private:
  std::vector<const float*> f32_;
  std::vector<XRow> by_32_, by_256_;
};

}  // namespace heddle::cpu
