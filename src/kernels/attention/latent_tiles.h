// Tiles of halves in shared memory, as the kernels of latent attention multiply them.
#pragma once
#include "base/f16.h"
#include "ptx/matrix.h"

namespace heddle::kernels {

using LatentA = ptx::Tile<f16, 16, 16>;
using LatentB = ptx::Tile<f16, 16, 8>;

// A tile of 16 x 16 halves at `at`, rows `row_bytes` apart.
inline LatentA left_operand(ptx::Code& k, ptx::Shared<uint8_t> at, uint32_t row_bytes) {
  const ptx::U32 lane = k.lane();
  return {ptx::load_matrices<4>(at + (lane % 16u * row_bytes + lane / 16u * 16u))};
}

}  // namespace heddle::kernels
