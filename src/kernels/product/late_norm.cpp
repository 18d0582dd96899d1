#include "kernels/product/late_norm.h"

#include "ptx/memory.h"

namespace heddle::kernels {

using namespace ptx;

LateRow::LateRow(Global<RowSquares> row, U32 cols) {
  const auto words = load_vec<4>(row.as<uint32_t>());
  // of a power of two: the exponents of the two add up to twice the bias
  inverse = bitcast<float>(-(words[2] - 0x7f000000u));
  F32 sum = fma(to_f32(words[1]), 0x1p32f, to_f32(words[0]));
  mean_square = sum * inverse * inverse * (rcp_approx(to_f32(cols)) * (1 / squares_unit));
}

// A few thousand parts of a row cannot overflow.
void add_squares(Global<RowSquares> row, F32 sum) {
  reduce(Atomic::add, row.as<uint64_t>(), to<uint64_t>(min(sum * squares_unit, 0x1p52f), Round::rni));
}

F32 load_scale(Global<RowSquares> row) { return load(row.as<float>().offset(2)); }

// 2^-6 / 2^floor(log2(mean_square) / 2); 0 counts as 2^-127.
void store_scale(Global<RowSquares> row, F32 mean_square) {
  U32 exponent = bitcast<uint32_t>(mean_square) >> 23u;  // of a number that is not negative
  store(row.as<float>().offset(2), bitcast<float>((-((exponent + 1u) >> 1u) + 185u) << 23u));
}

}  // namespace heddle::kernels
