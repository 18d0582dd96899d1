// What a lane of ring_gemv does with a tile: one piece of a block (two runs of 16 values) per row, eight lanes per
// block. The format's own struct decodes; here is only where in a tile its words lie.
#pragma once
#include "kernels/format/block_format.h"
#include "kernels/ring_gemv.h"

namespace heddle::kernels {

class RingPiece {
 public:
  RingPiece(ptx::Code& k, uint32_t format, ptx::U32 lane);

  // The activations of a run: 16 int8, their scale, and the scale times their sum.
  struct Activations {
    ptx::Vec<uint32_t, 4> q;
    ptx::F32 d, sum;
  };
  using Both = std::array<Activations, 2>;
  // Those of this lane's two runs in a slice of a vector.
  Both activations(ptx::Global<uint8_t> x, ptx::U32 slice, ptx::U32 cols) const;
  // This lane's part of row r (0 to 3) of the tile at w, for every vector.
  std::vector<ptx::F32> dot(ptx::Shared<uint8_t> w, uint32_t r, const std::vector<Both>& x) const;

 private:
  Raw load(ptx::Shared<uint8_t> w, uint32_t r) const;

  const BlockFormat& format_;
  bool six_bits_;   // q6_k, else q4_k
  ptx::U32 block_;  // of the four in a row of the tile
  Lane lane_;
};

}  // namespace heddle::kernels
