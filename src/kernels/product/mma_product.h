// Matrix times 8 to 32 vectors at once on the matrix units, straight from the tiles of the weights, with the epilogue
// of its phase of a layer: for batches of several sequences, and for experts of a mixture with a few rows each.
#pragma once
#include "kernels/product/activations.h"
#include "kernels/product/product.h"

namespace heddle::kernels {

// x is f16 in the order of operand_place (see activations.h), with `columns` rows in a group. A block takes an even
// share of the rows of W, a band at a time. Weights and x come through a ring of stages of 1024 columns (or `direct`,
// weights from memory to registers); each warp of a team of eight has the same 128 columns of every stage, for the
// team's rows and all vectors, and the warps' sums are added in a fixed order. So a result depends on its row and its
// vector alone: not on the other vectors, on `columns`, `band`, or the grid. With experts, blocks share the bands of
// all tiles: of the expert's matrix times the vectors of the tile.
//
// Weights are multiplied as f16. f32 and bf16 weights are clamped to +-65504. A weight of a block format beyond 4095
// becomes infinite: a clamp would cost two instructions per word in the inner loop.
struct MmaProduct {
  static constexpr std::string_view name = "mma_product",
                                    summary = "matrix times 8 to 32 vectors on the matrix units, and what follows",
                                    lowest_target = "sm_90";
  // Those of Product. x: see above. With y_apart y is f16 in that order too, in groups of y_group rows of y_stride
  // values, divided by Product::f16_act. `rows` counts all rows of y, of which w has those from `first_rows` on;
  // `vectors` may be fewer than `columns`, or many times that. norm, shift and w2 are not read; with experts neither is
  // `vectors`: the vectors are those of the tiles.
  using Args = Product::Args;

  uint32_t format = uint32_t(quant::Format::q4_k);
  uint32_t tile_cols = 1024, slices = 4;
  uint32_t columns = 8;
  uint32_t band = 32;   // rows at once
  uint32_t stages = 2;  // in flight
  uint32_t copies = copies_bulk;
  uint32_t direct = 0;  // copies = async: x alone goes through the ring, for weights that do not fit
  uint32_t teams = 1;   // of eight warps; they divide a band into tiles of 16 rows
  uint32_t resident = 1;
  uint32_t out = Product::store, activation = act_silu, y_bf16 = 0, bias = 0, cache = 1, halves = 0;
  uint32_t y_apart = 0;                    // act, gate: y is x of a product with weights of this `apart`
  uint32_t late_norm = 0;                  // x is to be divided by the root of its mean square: see late_norm.h
  uint32_t next_apart = 0, next_also = 0;  // add: y is x of a product with a norm too, or of two
  uint32_t experts = 0;                    // tiles are read from the device
  uint32_t chained = 0;
  auto operator<=>(const MmaProduct&) const = default;
  static auto fields();

  static constexpr uint32_t stage_cols = 1024;
  quant::Format weights() const { return quant::Format(format); }
  uint32_t slices_per_stage() const { return stage_cols / tile_cols; }
  uint32_t steps() const { return (slices + slices_per_stage() - 1) / slices_per_stage(); }
  uint32_t shared_bytes() const;
  bool fits(const GpuLimits& gpu = {}) const;  // shared memory and registers

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// A spec for the product of a matrix of `rows` x `cols` with `vectors` vectors on `sms` SMs; its grid has
// sms * resident blocks. The caller sets the fields that say what is computed. With what.experts, `rows` are those of
// all experts that vectors go to.
MmaProduct mma_product_choice(const MmaProduct& what, uint32_t rows, uint32_t cols, uint32_t vectors, uint32_t sms,
                              const GpuLimits& gpu = {});

inline auto MmaProduct::fields() {
  using S = MmaProduct;
  using F = Field<S>;
  return std::tuple(F{"format", &S::format, weight_formats()}, F{"tile_cols", &S::tile_cols, one_of({256, 512, 1024})},
                    F{"slices", &S::slices, range(1, 512)}, F{"columns", &S::columns, one_of({8, 16, 32})},
                    F{"band", &S::band, one_of({16, 32, 48, 64})}, F{"stages", &S::stages, range(1, 8)},
                    F{"copies", &S::copies, copy_kinds()}, F{"direct", &S::direct, yes_or_no()},
                    F{"teams", &S::teams, one_of({1, 2})}, F{"resident", &S::resident, range(1, 2)},
                    F{"out", &S::out, named({"store", "add", "act", "gate", "qkv"})},
                    F{"activation", &S::activation, activations()}, F{"y_bf16", &S::y_bf16, yes_or_no()},
                    F{"bias", &S::bias, yes_or_no()}, F{"cache", &S::cache, yes_or_no()},
                    F{"halves", &S::halves, yes_or_no()}, F{"y_apart", &S::y_apart, aparts()},
                    F{"late_norm", &S::late_norm, yes_or_no()}, F{"next_apart", &S::next_apart, aparts()},
                    F{"next_also", &S::next_also, aparts()}, F{"experts", &S::experts, yes_or_no()},
                    F{"chained", &S::chained, yes_or_no()});
}

}  // namespace heddle::kernels
