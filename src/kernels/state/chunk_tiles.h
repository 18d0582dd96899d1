// Operands of the matrix units from rows of f16 in shared memory, for the kernels of chunked recurrences.
#pragma once
#include "ptx/builder.h"

namespace heddle::kernels {

using Left = ptx::Tile<heddle::f16, 16, 16>;
using Right = ptx::Tile<heddle::f16, 16, 8>;

// The numbers that a row of `columns`, a multiple of 16, takes: 16 bytes more, so that 8 rows lie in different banks.
constexpr uint32_t padded_row(uint32_t columns) { return columns + 8; }

// What lies in shared memory: the operand, or its transpose.
enum class Stored { plain, transposed };

// The lane's address of one of four matrices of 8 x 8.
inline ptx::Shared<heddle::f16> matrix_address(ptx::Code& k, ptx::Shared<heddle::f16> at, uint32_t stride, Stored s) {
  const ptx::U32 lane = k.lane(), second = lane / 8u % 2u * 8u, third = lane / 16u * 8u;
  const bool plain = s == Stored::plain;
  return at + ((lane % 8u + (plain ? second : third)) * stride + (plain ? third : second));
}

// 16 x 16 numbers from `at` on.
inline Left left_tile(ptx::Code& k, ptx::Shared<heddle::f16> at, uint32_t stride, Stored s) {
  return {ptx::load_matrices<4>(matrix_address(k, at, stride, s), s == Stored::transposed)};
}
// The same as two operands of 8 columns.
inline std::array<Right, 2> right_tiles(ptx::Code& k, ptx::Shared<heddle::f16> at, uint32_t stride, Stored s) {
  const auto four = ptx::load_matrices<4>(matrix_address(k, at, stride, s), s == Stored::plain);
  return {Right{{four[0], four[1]}}, Right{{four[2], four[3]}}};
}

}  // namespace heddle::kernels
