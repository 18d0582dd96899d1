// An rms norm without a launch of its own. The product that completes the rows of the residual stream also writes them
// times the norm's weight, as f16, and adds up their squares; the product that reads those rows divides its sums by the
// root of the mean square, which is known by then.
//
// A residual stream may have any magnitude, and f16 has little range. So a row is multiplied with a power of two, which
// the kernel that ends the norm before stores: it brings a row of the same magnitude to 2^-6. From one norm to the next
// a row may grow 10 000 times, with the norm's weight up to 65504, and shrink 100 times without losing bits that
// matter. Squares are added as integers: their sum does not depend on the order.
#pragma once
#include "ptx/builder.h"

namespace heddle::kernels {

struct alignas(16) RowSquares {
  uint64_t sum;  // of the squares of the row times `scale`, in units of 1 / squares_unit
  float scale;
  uint32_t unused;
};
inline constexpr float squares_unit = 0x1p36f;

// A row that is complete: its mean square, and what its products with weights are to be multiplied with but for the
// root of that.
struct LateRow {
  LateRow(ptx::Global<RowSquares> row, ptx::U32 cols);  // loads it
  ptx::F32 mean_square, inverse;
};
// Adds a sum of squares of values times the row's scale: by one lane.
void add_squares(ptx::Global<RowSquares> row, ptx::F32 sum);
ptx::F32 load_scale(ptx::Global<RowSquares> row);
// For a row that had this mean square at the norm before.
void store_scale(ptx::Global<RowSquares> row, ptx::F32 mean_square);

}  // namespace heddle::kernels
