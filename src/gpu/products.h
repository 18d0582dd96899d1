// The two ways to multiply with weights as they lie in their tiles.
#pragma once
#include "gpu/path.h"

namespace heddle::gpu {

// One vector after another, or a few at once, through a ring of shared memory at the speed of the memory: kernel
// `product`. Activations are int8, or f32 where that is too coarse.
class VectorProducts : public Products {
 public:
  explicit VectorProducts(const Resources& resources) : r_(resources) {}

  void begin() { large_ = false; }
  void product(const Weights& w, const Weights* second, const Input& in, const Output& out, const Rows& rows,
               const DeviceAttention* attention = nullptr) override;
  bool takes_bf16(const Weights& w) const override { return !in_f32(w); }

  // The matrix of an expert per vector: `vectors` of them, from `first` on in work.expert_ids; `share` vectors in a row
  // have the same input.
  struct Experts {
    uint32_t first, vectors, share;
  };
  void experts(const Weights& w, const Input& in, const Output& out, const Experts& which);

 private:
  bool in_f32(const Weights& w) const;
  void launch(const kernels::ProductChoice& choice, const kernels::Product::Args& args, uint64_t bytes);

  const Resources& r_;
  bool large_ = false;  // the next product takes its turn as the large one: see product_choice
};

// On the matrix units, with activations in f16: kernel `mma_product`.
class MatrixProducts : public Products {
 public:
  explicit MatrixProducts(const Resources& resources) : r_(resources) {}

  void product(const Weights& w, const Weights* second, const Input& in, const Output& out, const Rows& rows,
               const DeviceAttention* attention = nullptr) override {
    multiply(w, second, in, out, rows.count, attention, {});
  }
  bool takes_bf16(const Weights&) const override { return false; }
  // With the rows of `in` that work.outputs names from `first` on.
  void gathered(const Weights& w, const Input& in, const Output& out, uint32_t first, uint32_t count) {
    multiply(w, nullptr, in, out, count, nullptr, first);
  }

 private:
  void multiply(const Weights& w, const Weights* second, const Input& in, const Output& out, uint32_t rows,
                const DeviceAttention* attention, std::optional<uint32_t> list);

  const Resources& r_;
};

}  // namespace heddle::gpu
