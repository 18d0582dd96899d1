// Matrix times 16 to thousands of vectors on the matrix units of any GPU, straight from the tiles of the weights, with
// the epilogue of its phase of a layer: what wgmma_product is on GPUs that have wgmma.
#pragma once
#include <algorithm>

#include "kernels/product/activations.h"
#include "kernels/product/product.h"
#include "kernels/product/tile.h"

namespace heddle::kernels {

// A block computes tiles of rows of W times `columns` vectors. Each warp has 16 * row_tiles rows and all vectors of the
// tile: it reads its weights from global memory a step of 128 columns ahead, unpacks them in registers as operand A of
// mma, and multiplies them with x, operand B, which the block brings to shared memory in stages. Where tiles are few,
// `col_warps` warps share the columns of the same rows; their sums are added in a fixed order. So a result depends on
// its row, its vector and the spec: not on the other vectors or the grid.
//
// Weights are multiplied as f16, as in mma_product.
struct MmaTiles {
  static constexpr std::string_view name = "mma_tiles",
                                    summary = "matrix times 16 to thousands of vectors by mma, and what follows",
                                    lowest_target = "sm_75";
  // Those of Product, with x (rows, filled_cols) f16 in the order of operand_place. `rows` counts all rows of y, of
  // which w has those from `first_rows` on. With y_apart y is f16 in that order too, in groups of y_group rows of
  // y_stride values, divided by Product::f16_act. `blocks`: of the grid at most. norm, shift and w2 are not read; with
  // experts neither is `vectors`: the vectors are those of the tiles.
  using Args = Product::Args;

  uint32_t format = uint32_t(quant::Format::q4_k);
  uint32_t tile_cols = 1024, slices = 4;
  uint32_t columns = 64;                  // vectors of a tile
  uint32_t row_tiles = 2;                 // of 16 rows, of a warp
  uint32_t row_warps = 4, col_warps = 1;  // warps that share the rows, and the columns, of a tile
  uint32_t stage_cols = 64;               // of x in a stage, for each of the col_warps
  uint32_t stages = 3;                    // in flight
  uint32_t resident = 1;                  // blocks per SM to leave registers for
  uint32_t async = 1;                     // x comes by copies that run beside the threads, else through registers
  uint32_t out = Product::store, activation = act_silu, y_bf16 = 0, bias = 0, cache = 1, halves = 0;
  uint32_t y_apart = 0;                    // act, gate: y is x of a product with weights of this `apart`
  uint32_t late_norm = 0;                  // x is to be divided by the root of its mean square: see late_norm.h
  uint32_t next_apart = 0, next_also = 0;  // add: y is x of a product with a norm too, or of two
  uint32_t by_sequence = 0;                // qkv: `table` has a row for each sequence, and `sequences` says which
  uint32_t experts = 0;                    // tiles are read from the device
  uint32_t chained = 0;
  auto operator<=>(const MmaTiles&) const = default;
  static auto fields();

  static constexpr uint32_t step_cols = 128;  // that a warp unpacks at once
  quant::Format weights() const { return quant::Format(format); }
  uint32_t filled_cols() const { return slices * tile_cols; }
  uint32_t warps() const { return row_warps * col_warps; }
  uint32_t warp_rows() const { return 16 * row_tiles; }
  uint32_t tile_rows() const { return warp_rows() * row_warps; }  // of W that a block has at once
  uint32_t stage_bytes() const { return columns * stage_cols * col_warps * 2; }
  TileStrip strip() const { return tile_strip(weights(), tile_cols); }
  uint32_t sums_bytes() const { return (col_warps - 1) * tile_rows() * columns * 4; }
  uint32_t ring_bytes() const { return std::max(stages * stage_bytes(), sums_bytes()); }
  uint32_t shared_bytes() const;
  uint32_t registers() const;              // that a thread needs
  bool divides() const;                    // the columns into steps of all warps, and these into stages
  bool fits(uint32_t shared_limit) const;  // shared memory of a block and registers too

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// A spec for the product of a matrix of `rows` x `cols` with `vectors` vectors on `sms` SMs, in blocks of up to
// `shared_limit` bytes of shared memory; its grid has sms * resident blocks at most. The caller sets `async` and the
// fields that say what is computed. With what.experts, `vectors` is what an expert may expect.
MmaTiles mma_tiles_choice(const MmaTiles& what, uint32_t rows, uint32_t cols, uint32_t vectors, uint32_t sms,
                          uint32_t shared_limit);

// Other shapes worth trying, the choice above first.
std::vector<MmaTiles> mma_tiles_candidates(const MmaTiles& what, uint32_t rows, uint32_t cols, uint32_t vectors,
                                           uint32_t sms, uint32_t shared_limit);

inline auto MmaTiles::fields() {
  using S = MmaTiles;
  using F = Field<S>;
  return std::tuple(F{"format", &S::format, weight_formats()}, F{"tile_cols", &S::tile_cols, one_of({256, 512, 1024})},
                    F{"slices", &S::slices, range(1, 512)}, F{"columns", &S::columns, one_of({16, 32, 64, 128})},
                    F{"row_tiles", &S::row_tiles, range(1, 2)}, F{"row_warps", &S::row_warps, one_of({1, 2, 4, 8})},
                    F{"col_warps", &S::col_warps, one_of({1, 2, 4, 8})},
                    F{"stage_cols", &S::stage_cols, one_of({64, 128})}, F{"stages", &S::stages, range(2, 8)},
                    F{"resident", &S::resident, range(1, 4)}, F{"async", &S::async, yes_or_no()},
                    F{"out", &S::out, named({"store", "add", "act", "gate", "qkv"})},
                    F{"activation", &S::activation, activations()}, F{"y_bf16", &S::y_bf16, yes_or_no()},
                    F{"y_apart", &S::y_apart, aparts()}, F{"late_norm", &S::late_norm, yes_or_no()},
                    F{"next_apart", &S::next_apart, aparts()}, F{"next_also", &S::next_also, aparts()},
                    F{"bias", &S::bias, yes_or_no()}, F{"cache", &S::cache, yes_or_no()},
                    F{"halves", &S::halves, yes_or_no()}, F{"by_sequence", &S::by_sequence, yes_or_no()},
                    F{"experts", &S::experts, yes_or_no()}, F{"chained", &S::chained, yes_or_no()});
}

}  // namespace heddle::kernels
