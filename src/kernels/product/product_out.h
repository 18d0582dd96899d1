// The epilogue of a product, done by its finishing warp for the sums of a unit: one row per lane; with 16 rows both
// halves of the warp do the same.
#pragma once
#include "kernels/product/product.h"

namespace heddle::kernels {

class ProductOut {
 public:
  // To be created after the wait: reads positions and tables. `y`: that of the first vector. With `vector` only that
  // one is written (and spec.columns is 1).
  ProductOut(ptx::Builder<Product::Args>& k, const Product& spec, ptx::Global<float> y, ptx::U32 vector = {});

  // Loads what can be loaded before the sums are complete. `mine`: this lane has a row to write.
  void prepare(ptx::U32 row, ptx::Pred mine);
  // Writes the row's sum for vector v. All lanes must call it.
  void write(uint32_t v, ptx::F32 sum);

 private:
  void rotate_and_cache(uint32_t v, ptx::F32 sum);
  // Where vector v begins, with `stride` from one vector to the next.
  ptx::U64 start(ptx::U32 stride, uint32_t v) const;

  ptx::Builder<Product::Args>& k_;
  const Product& s_;
  ptx::Global<float> y_;
  ptx::U32 vector_;
  std::vector<ptx::U64> cache_k_, cache_v_;  // qkv: of each vector, its row in kv head 0
  std::vector<ptx::U32> positions_;
  ptx::U32 row_;
  ptx::Pred mine_;
  ptx::F32 bias_;
  std::vector<ptx::F32> before_;     // add: the residual of each vector
  std::vector<ptx::F32> sin_, cos_;  // qkv: of each vector
  ptx::U32 head_, place_, second_;   // qkv: where the row belongs
  ptx::Pred is_q_, is_k_, turned_;
};

}  // namespace heddle::kernels
