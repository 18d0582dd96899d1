// The ending of a product by wgmma, straight from the sums of a warp group.
#pragma once
#include "kernels/product/product.h"
#include "ptx/matrix.h"

namespace heddle::kernels {

// A lane has two rows, eight apart, and two of every eight vectors. What is read is requested for many vectors at once:
// a tile of 256 waits for it four times.
class GroupEnding {
 public:
  // `scales`: in shared memory, of the vectors of a tile.
  GroupEnding(ptx::Builder<Product::Args>& k, const Product& spec, ptx::Shared<float> scales)
      : k_(k), s_(spec), scales_(scales) {}

  // The sums of sixteen rows of y from `row` on, this warp's, and of `columns` vectors from `first` on as far as they
  // are below `end`. `expert`: whose biases are added, where there are experts.
  void write(const ptx::GroupSums& acc, uint32_t columns, ptx::U32 row, ptx::U32 first, ptx::U32 end,
             ptx::U32 expert = {});

 private:
  // Of eight vectors: those of rows g and g + 8, each of this lane's two vectors.
  struct Four {
    std::array<ptx::F32, 2> low, high;
  };
  Four scaled(const ptx::GroupSums& acc, uint32_t eight);
  // The endings of the eights of vectors [begin, end).
  void add(const ptx::GroupSums& acc, uint32_t begin, uint32_t end);
  void pairs(const ptx::GroupSums& acc, uint32_t begin, uint32_t end);
  // next_apart: the values of this lane's two rows of a vector, for the next product.
  void write_next(uint32_t eight, uint32_t i, const std::array<ptx::Pred, 2>& here,
                  const std::array<ptx::F32, 2>& values);
  // y_apart: column `at` of this lane's two vectors of eight.
  void store_halves(uint32_t eight, ptx::U32 at, ptx::Pred here, const std::array<ptx::F32, 2>& values);
  struct Turn;
  void turn_and_cache(const Turn& turn, size_t number, ptx::U32 vector, ptx::Pred below_end, ptx::F32 first,
                      ptx::F32 second);
  void each(uint32_t begin, uint32_t end, auto&& f);
  void store_at(ptx::U32 vector, ptx::U32 row, ptx::Pred here, ptx::F32 value);
  ptx::U64 place(ptx::U32 vector, ptx::U32 row);
  ptx::U32 vector(uint32_t eight, uint32_t i) { return first_ + (8 * eight + i); }
  ptx::Pred below_end(uint32_t eight, uint32_t i) { return vector(eight, i) < end_; }

  ptx::Builder<Product::Args>& k_;
  const Product& s_;
  ptx::Shared<float> scales_;
  ptx::U32 first_, end_;        // this lane's first vector
  ptx::U32 low_;                // this lane's first row; the other is eight more
  ptx::F32 bias_[2], norm_[2];  // norm_: the next norm's weight
};

}  // namespace heddle::kernels
