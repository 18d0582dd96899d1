// The ways to multiply with weights as they lie in their tiles.
#pragma once
#include "gpu/path.h"
#include "kernels/product/mma_product.h"
#include "kernels/product/mma_tiles.h"
#include "kernels/product/wgmma_product.h"

namespace heddle::gpu {

// One vector after another, or a few at once, while weights stream through shared memory at the speed of the memory:
// kernel `product`. Activations are int8, or f32 where that is too coarse.
class VectorProducts : public ExpertProducts {
 public:
  // `exact`: activations are f32 in every product. `otherwise`: for those that do not fit, if they need not be exact.
  VectorProducts(const Resources& resources, bool exact, Products& otherwise)
      : r_(resources), exact_(exact), otherwise_(otherwise) {}

  void begin() { large_ = false; }  // a new plan
  void product(const Weights& w, const Weights* second, const Input& in, const Output& out, const Rows& rows,
               const DeviceAttention* attention = nullptr) override;
  bool takes_bf16(const Weights& w) const override { return !in_f32(w); }
  void expert_product(const Weights& w, const Input& in, const Output& out, const Experts& which,
                      kernels::Product::Weighted weighted) override;
  void expert_sum(const Weights& w, const Input& in, const Output& out, const Experts& which, bool weighted) override;
  bool sum_takes_bf16(const Weights& w, uint32_t used) const override { return !in_f32(w, used); }

 private:
  // `vectors`: how many are multiplied with their matrices and added up.
  bool in_f32(const Weights& w, uint32_t vectors = 1) const;
  kernels::Product expert_spec(const Weights& w, const Input& in, const Output& out, uint32_t vectors) const;
  void launch_experts(const kernels::Product& what, const Weights& w, const Input& in, const Output& out,
                      const Experts& which, uint32_t read);
  void launch(const kernels::ProductChoice& choice, const kernels::Product::Args& args, uint64_t bytes);

  const Resources& r_;
  const bool exact_;
  Products& otherwise_;
  bool large_ = false;  // of the next product: see kernels::product_choice
};

// On the matrix units, with activations in f16: kernels `mma_product` for a few rows; for many `wgmma_product`, and
// `mma_tiles` on GPUs without wgmma.
template <class Spec>
class UnitProducts : public Products {
 public:
  explicit UnitProducts(const Resources& resources) : r_(resources) {}

  void product(const Weights& w, const Weights* second, const Input& in, const Output& out, const Rows& rows,
               const DeviceAttention* attention = nullptr) override;
  bool takes_bf16(const Weights&) const override { return false; }
  HalfForm half_form(const Weights& w, const Weights& first, const Output& out, const Rows& rows,
                     const DeviceAttention* attention = nullptr) const override;

 private:
  // A shape for what is computed.
  Spec choose(const Spec& what, const Weights& matrix, const Rows& rows) const;
  // The same for a product. `first`: the matrix that has the bias of all.
  Spec spec_of(const Weights& matrix, const Weights& first, const Output& out, const Rows& rows,
               const DeviceAttention* attention) const;

  const Resources& r_;
};
using MatrixProducts = UnitProducts<kernels::MmaProduct>;
using TileProducts = UnitProducts<kernels::MmaTiles>;
using WgmmaProducts = UnitProducts<kernels::WgmmaProduct>;

}  // namespace heddle::gpu
