// Activations in the form that a product reads: rows of f16 for the matrix units, blocks of int8 for integer dot
// products.
#pragma once
#include <compare>

#include "kernels/product/late_norm.h"
#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// BlockFormat::apart of the weights that rows of f16 in the order of the matrix units are for; 0: another order.
inline Allowed aparts() { return one_of({0, 16, 32, 64, 128}); }

// Converts rows of f32 to the f16 rows that the matrix units read, with an optional norm.

// out = the row, normalised, as f16; a block keeps its rows, mostly one, in registers. scale[row] is a power of two
// that the row is divided by, with `factors` times the row's own factor. A largest magnitude above 16384 is brought to
// 16384 or less, so that nothing becomes infinite; one of 1/16 or less is brought above 1/16, so that few values become
// subnormal. For all other rows it is 1.
struct HalfRows {
  static constexpr std::string_view name = "half_rows", summary = "rows of f32 as rows of f16, normalised if need be",
                                    lowest_target = "sm_75";
  enum Norm : uint32_t { none, rms, layer };
  static constexpr uint32_t no_row = 0xffffffff;
  struct Args {
    ptx::DevicePtr<f16> out;        // (rows, ld), 16-byte aligned; columns from cols on become 0. With apart in the
                                    // order of operand_place
    ptx::DevicePtr<float> scale;    // (rows)
    ptx::DevicePtr<float> x;        // (any, x_stride), aligned to vec values; with a norm their squares sum up to less
                                    // than 3e38
    ptx::DevicePtr<float> weight;   // (cols), aligned as x, read with weight = yes only
    ptx::DevicePtr<float> bias;     // (cols), aligned as x, read with bias = yes only
    ptx::DevicePtr<uint32_t> list;  // (rows), read with gather = yes only: which row of x each row of out is;
                                    // no_row: none, and nothing is written
    uint32_t rows, cols;
    uint32_t x_stride;  // not below cols; a multiple of vec, as cols is
    uint32_t ld;        // a multiple of 64, with apart of 256, not below cols
    uint32_t group;     // with apart: rows of a group, a multiple of 8
    float epsilon;
    ptx::DevicePtr<RowSquares> squares;  // with squares: (squares_count, squares_stride), see late_norm.h. All become
                                         // 0, but for the scales of the first norm that follows
    uint32_t squares_count, squares_stride;
    ptx::DevicePtr<f16> also;  // with also_apart: as out, in groups of also_group rows, a power of two from 8 on
    uint32_t also_group;
    ptx::DevicePtr<float> factors;  // with factors: (rows)
  };
  uint32_t threads = 256;
  uint32_t vec = 4;   // values per load
  uint32_t held = 4;  // loads per thread: threads * vec * held must not be below ld
  uint32_t norm = none;
  uint32_t weight = 0;      // the normalised row is multiplied with it
  uint32_t plus_one = 0;    // times (1 + weight), as Gemma stores it
  uint32_t bias = 0;        // and this is added
  uint32_t gather = 0;      // rows of x by a list
  uint32_t apart = 0;       // 0: row by row; else that of the weights' format, in the order of the matrix units
  uint32_t also_apart = 0;  // with apart and vec = 4: the rows once more, for weights of another apart; 0: no
  uint32_t factors = 0;     // a row of out stands for its value times a factor
  uint32_t squares = 0;     // with an rms norm, no bias and no list: for the late norms that follow
  // Rows of a block, with apart: 16 bytes of each lie side by side.
  uint32_t together = 1;
  uint32_t chained = 0;
  auto operator<=>(const HalfRows&) const = default;
  static auto fields() {
    using S = HalfRows;
    using F = Field<S>;
    return std::tuple(F{"threads", &S::threads, range(32, 1024, 32)}, F{"vec", &S::vec, one_of({1, 2, 4})},
                      F{"held", &S::held, range(1, 32)}, F{"norm", &S::norm, named({"none", "rms", "layer"})},
                      F{"weight", &S::weight, yes_or_no()}, F{"plus_one", &S::plus_one, yes_or_no()},
                      F{"bias", &S::bias, yes_or_no()}, F{"gather", &S::gather, yes_or_no()},
                      F{"apart", &S::apart, aparts()}, F{"also_apart", &S::also_apart, aparts()},
                      F{"factors", &S::factors, yes_or_no()}, F{"squares", &S::squares, yes_or_no()},
                      F{"together", &S::together, one_of({1, 2, 4, 8})}, F{"chained", &S::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

// Of each four values the first and the third make a word, then the second and the fourth: that is how a mask takes
// them out of a word of bytes or nibbles.
constexpr uint32_t in_pairs(uint32_t col) { return (col & ~3u) | (col & 1u) << 1 | (col >> 1 & 1u); }

// Where a value lies as operand B of the matrix units: rows in groups (those of a tile of wgmma_product or
// mma_product), of which a step of the matrix unit (16 columns) reads two rows of core matrices, each 8 rows x 16
// bytes. The four lanes that hold a row of W have a piece of 32 values each, so a step has four values of each of four
// pieces. `apart`: BlockFormat::apart, 16 for floats.
inline uint64_t operand_place(uint32_t row, uint32_t col, uint32_t apart, uint32_t group, uint32_t ld) {
  const uint32_t in = col % (2 * apart), piece = col / (2 * apart) * (apart / 16) + in % apart / 16;
  const uint32_t value = in / apart * 16 + in % 16;  // of the piece
  const uint32_t step = piece / 4 * 8 + value / 4, in_step = in_pairs(value % 4);
  return uint64_t(row / group) * group * ld + (uint64_t(step * 2 + in_step / 2) * group + row % group) * 8 +
         piece % 4 * 2 + in_step % 2;
}

// The same on the device, for a kernel that writes rows in this order itself: where the four values from column `col`
// on, a multiple of four, begin. The first and the third are there, the second and the fourth 8 * group values further.
// `group`: a power of two.
ptx::U32 operand_quad(ptx::U32 row, ptx::U32 col, uint32_t apart, ptx::U32 group, ptx::U32 ld);
// And where one value lies.
ptx::U32 operand_value(ptx::U32 row, ptx::U32 col, uint32_t apart, ptx::U32 group, ptx::U32 ld);
// Throws an Error unless rows of `cols` values, in groups of `group`, can be written so by kernel `name`.
void check_operand(std::string_view name, uint32_t cols, uint32_t group);

// The spec for rows of this size: threads, vec and held. The caller sets the rest.
HalfRows half_rows_choice(uint32_t cols, uint32_t x_stride, uint32_t ld, uint32_t together = 1);
// How many rows a block takes with apart, so that there are still blocks for all SMs.
uint32_t half_rows_together(uint32_t ld, uint32_t rows, uint32_t sms);

}  // namespace heddle::kernels
