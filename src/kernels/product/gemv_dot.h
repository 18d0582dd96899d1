// The dot products of one step of a gemv: what a lane has read of the weights with its values of x.
#pragma once
#include "kernels/product/gemv_x.h"

namespace heddle::kernels {

// Running sums of `rows` rows for `columns` columns.
struct GemvSums {
  GemvSums(ptx::Code& k, uint32_t row_count, uint32_t column_count) : code(k), rows(row_count), columns(column_count) {
    for (uint32_t i = 0; i < rows * columns; ++i) sums.push_back(k.var(0.0f));
  }
  ptx::Var<float>& at(uint32_t row, uint32_t column) { return sums[row * columns + column]; }
  // Called after each column. The assembler asks for the x of all columns at once if it may, and runs out of registers
  // (255, spilled, for 8 columns of 2 rows); no load crosses this, so that it has two columns at a time.
  void column_done(uint32_t c) {
    if (columns > 2 && c % 2 == 1) code.warp_sync();
  }

  ptx::Code& code;
  uint32_t rows, columns;
  std::vector<ptx::Var<float>> sums;
};

// `weights`: one Raw per row. `value`: where in x the step is, from the lane's place. `active`: null, or false for
// lanes whose weights do not count (they read some that exist).
void add_products(GemvSums& sums, const GemvWeights& format, const GemvWeights::Place& place,
                  const std::vector<Raw>& weights, const GemvFloats<ptx::Space::global>& x, uint32_t value,
                  const ptx::Pred* active);
void add_products(GemvSums& sums, const GemvWeights& format, const GemvWeights::Place& place,
                  const std::vector<Raw>& weights, const GemvFloats<ptx::Space::shared>& x, uint32_t value,
                  const ptx::Pred* active);
void add_products(GemvSums& sums, const GemvWeights& format, const GemvWeights::Place& place,
                  const std::vector<Raw>& weights, const GemvQ8& x, uint32_t value, const ptx::Pred* active);

}  // namespace heddle::kernels
