// What a lane of ring_gemv does with a tile: 32 values of a block (two runs of 16) per row, eight lanes per block.
#pragma once
#include "kernels/ring_gemv.h"

namespace heddle::kernels {

struct RingPiece {
  RingPiece(uint32_t format, ptx::U32 lane) : six_bits(format == 1), block(lane / 8u), l(lane & 7u) {}

  bool six_bits;       // Q6_K, else Q4_K
  ptx::U32 block, l;   // of the four in the tile's row; piece of the block

  // The activations of this lane's two runs of 16.
  struct Run {
    ptx::Vec<uint32_t, 4> q;
    ptx::F32 d, sum;  // scale; scale times the sum of q
  };
  struct Activations {
    Run low, high;
  };
  Activations activations(ptx::Global<uint8_t> x, ptx::U32 slice, ptx::U32 cols) const;
  // This lane's part of row r (0 to 3) of the tile at w.
  ptx::F32 dot(ptx::Shared<uint8_t> w, uint32_t r, const Activations& x) const;

 private:
  // The first values of the two runs inside the block.
  ptx::U32 low_first() const;
  uint32_t high_distance() const { return six_bits ? 64 : 32; }
};

}  // namespace heddle::kernels
