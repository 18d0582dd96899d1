// Matrix times 8 to thousands of vectors on the matrix units of sm_90a, straight from the tiles of the weights, with
// the epilogue of its phase of a layer: for prompts, for batches of many sequences, and for the experts of a mixture.
#pragma once
#include "kernels/product/activations.h"
#include "kernels/product/product.h"
#include "kernels/product/tile.h"

namespace heddle::kernels {

// Weights are unpacked in registers and are operand A of wgmma; x is operand B, in shared memory. A block computes
// tiles of 64 * row_groups rows of W times `columns` vectors. Four warps bring x and weights by bulk copies through
// rings of their own: x in stages of `stage_cols` columns, weights in runs of strips (see tile.h). Where tiles are few,
// the columns of W are shared: by `col_groups` warp groups of a block, which take every col_groups-th run, and by
// `shares` blocks of a cluster, which take equal ranges. Their sums are added in shared memory in a fixed order. So a
// result depends on its row, its vector and the spec: not on the other vectors or the grid.
//
// Weights are multiplied as f16, as in mma_product.
struct WgmmaProduct {
  static constexpr std::string_view name = "wgmma_product",
                                    summary = "matrix times 8 to thousands of vectors by wgmma, and what follows",
                                    lowest_target = "sm_90a";
  // Those of Product, with x (rows, filled_cols) f16 in the order of operand_place. `rows` counts all rows of y, of
  // which w has those from `first_rows` on. With y_apart y is f16 in that order too, in groups of y_group rows of
  // y_stride values, divided by Product::f16_act. `blocks`: of the grid at most. norm, shift and w2 are not read; with
  // experts neither is `vectors`: the vectors are those of the tiles.
  using Args = Product::Args;

  uint32_t format = uint32_t(quant::Format::q4_k);
  uint32_t tile_cols = 1024, slices = 4;
  uint32_t columns = 128;                   // vectors of a tile
  uint32_t row_groups = 2, col_groups = 1;  // warp groups that share the rows, and the columns, of a tile
  uint32_t shares = 1;                      // blocks of a cluster
  uint32_t stage_cols = 128;                // of x in a stage
  uint32_t run = 1;                         // strips of weights that are copied at once
  uint32_t stages = 3, runs = 2;            // of x and of weights, in flight
  uint32_t early = 0;                       // a step's weights are unpacked while the product of the one before runs
  uint32_t out = Product::store, activation = act_silu, y_bf16 = 0, bias = 0, cache = 1, halves = 0;
  uint32_t y_apart = 0;                    // act, gate: y is x of a product with weights of this `apart`
  uint32_t late_norm = 0;                  // x is to be divided by the root of its mean square: see late_norm.h
  uint32_t next_apart = 0, next_also = 0;  // add: y is x of a product with a norm too, or of two
  uint32_t by_sequence = 0;                // qkv: `table` has a row for each sequence, and `sequences` says which
  uint32_t experts = 0;                    // tiles are read from the device
  uint32_t chained = 0;
  auto operator<=>(const WgmmaProduct&) const = default;
  static auto fields();

  static constexpr uint32_t step_cols = 128;  // that eight wgmma of a group multiply
  quant::Format weights() const { return quant::Format(format); }
  uint32_t filled_cols() const { return slices * tile_cols; }
  uint32_t tile_rows() const { return 64 * row_groups; }  // of W that a block has at once
  uint32_t stage_bytes() const { return columns * stage_cols * 2; }
  TileStrip strip() const { return tile_strip(weights(), tile_cols); }
  uint32_t run_cols() const { return strip().cols * run; }
  uint32_t run_bytes() const { return tile_rows() / strip().rows * strip().bytes * run; }  // of all rows of a block
  bool alone() const { return col_groups == 1 && shares == 1; }  // a warp group has all columns of its rows
  uint32_t sums_bytes() const;
  uint32_t shared_bytes() const;
  uint32_t registers() const;  // of a thread that computes, at most
  // Whether the copying group gives registers to the others, where they need more than all have at the start. Not where
  // all warps go on together. Such texts are not kept in the cache of cubins (see cuda/compile.cpp).
  bool moves_registers() const { return shares == 1 && needed_registers() > first_registers(); }
  uint32_t needed_registers() const;
  uint32_t first_registers() const;  // of every thread, at the start
  bool divides() const;              // runs into stages, and both by the blocks and warp groups that share them
  bool fits() const;                 // shared memory and registers too

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// A spec for the product of a matrix of `rows` x `cols` with `vectors` vectors on `sms` SMs, from what was fastest on
// an H200. The caller sets the fields that say what is computed. With what.experts, `vectors` is what an expert may
// expect.
WgmmaProduct wgmma_product_choice(const WgmmaProduct& what, uint32_t rows, uint32_t cols, uint32_t vectors,
                                  uint32_t sms);

// Other shapes worth trying, the choice above first: the candidates of a search on another GPU.
std::vector<WgmmaProduct> wgmma_product_candidates(const WgmmaProduct& what, uint32_t rows, uint32_t cols,
                                                   uint32_t vectors, uint32_t sms);

inline auto WgmmaProduct::fields() {
  using S = WgmmaProduct;
  using F = Field<S>;
  return std::tuple(
      F{"format", &S::format, weight_formats()}, F{"tile_cols", &S::tile_cols, one_of({256, 512, 1024})},
      F{"slices", &S::slices, range(1, 512)}, F{"columns", &S::columns, one_of({8, 16, 32, 64, 128, 256})},
      F{"row_groups", &S::row_groups, range(1, 4)}, F{"col_groups", &S::col_groups, range(1, 4)},
      F{"shares", &S::shares, one_of({1, 2, 4, 8})}, F{"stage_cols", &S::stage_cols, one_of({64, 128, 256, 512})},
      F{"stages", &S::stages, range(1, 32)}, F{"run", &S::run, one_of({1, 2, 4})}, F{"runs", &S::runs, range(1, 32)},
      F{"early", &S::early, yes_or_no()}, F{"out", &S::out, named({"store", "add", "act", "gate", "qkv"})},
      F{"activation", &S::activation, activations()}, F{"y_bf16", &S::y_bf16, yes_or_no()},
      F{"y_apart", &S::y_apart, aparts()}, F{"late_norm", &S::late_norm, yes_or_no()},
      F{"next_apart", &S::next_apart, aparts()}, F{"next_also", &S::next_also, aparts()},
      F{"bias", &S::bias, yes_or_no()}, F{"cache", &S::cache, yes_or_no()}, F{"halves", &S::halves, yes_or_no()},
      F{"by_sequence", &S::by_sequence, yes_or_no()}, F{"experts", &S::experts, yes_or_no()},
      F{"chained", &S::chained, yes_or_no()});
}

}  // namespace heddle::kernels
