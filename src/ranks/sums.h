// Sums in the order of the ranks: every transport adds in this order, so that all give the same bits.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

namespace heddle::ranks {

// Sums of up to this many values are computed by every rank for itself; of longer ones each rank computes a slice. A
// decode step of few rows sums 4096 to 8192 values, where one exchange less counts more than the additions.
inline constexpr size_t one_shot_values = 8192;

struct ValueRange {
  size_t first, count;
};
// The slice of a sum that a rank computes.
inline ValueRange slice_of(size_t count, uint32_t rank, uint32_t ranks) {
  const size_t each = count / ranks, more = count % ranks;
  return {rank * each + std::min<size_t>(rank, more), each + (rank < more)};
}

// to = parts(0) + parts(1) + ..., from the left.
void add_in_order(std::span<float> to, uint32_t ranks, auto&& part) {
  const float* first = part(0u);
  std::copy_n(first, to.size(), to.begin());
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    const float* more = part(rank);
    for (size_t i = 0; i < to.size(); ++i) to[i] += more[i];
  }
}

}  // namespace heddle::ranks
