// How x enters a product: read by the whole block, normalised, and kept in shared memory as int8 or f32, from which
// each computing warp takes its slices.
#pragma once
#include "kernels/product/product.h"
#include "kernels/product/tile_piece.h"

namespace heddle::kernels {

class ProductX {
 public:
  ProductX(ptx::Builder<Product::Args>& k, const Product& spec);

  // Loads the weights of the norm, which do not depend on other kernels.
  void before_wait();
  // By all threads of the block, after the wait. `from`: the first vector. Ends with a barrier.
  void bring(ptx::Global<uint8_t> from);
  // The factor that is left to apply to the products of each vector: an rms norm's factor is known only when all of x
  // has been read, so it is applied last. Empty without an rms norm.
  std::vector<ptx::F32> factors() const;

  // This lane's values of a slice, for every vector.
  std::vector<TilePiece::Q8> integers(const TilePiece& piece, ptx::U32 slice) const;
  std::vector<TilePiece::Floats> floats(const TilePiece& piece, ptx::U32 slice) const;

 private:
  std::vector<ptx::F32> load(ptx::Global<uint8_t> from, uint32_t column, uint32_t round) const;
  std::vector<ptx::F32> weight(ptx::Global<float> from, uint32_t round) const;
  std::vector<ptx::F32> totals(uint32_t turn) const;  // of the warps' sums, for every vector
  ptx::U32 item(uint32_t round) const;
  void keep(const std::vector<ptx::F32>& v, uint32_t column, uint32_t round);

  ptx::Builder<Product::Args>& k_;
  const Product& s_;
  uint32_t per_, rounds_;  // values of a thread in a round
  ptx::U32 cols_;
  ptx::Shared<uint8_t> quants_;               // (columns, filled_cols) int8
  ptx::Shared<float> pairs_;                  // (columns, filled_cols / 16) of {d, d * sum}
  ptx::Shared<float> floats_;                 // (columns, filled_cols / 32 * 36)
  ptx::Shared<float> sums_;                   // (columns, warps), twice
  std::vector<std::vector<ptx::F32>> early_;  // the norm's weight of each round
};

}  // namespace heddle::kernels
