// Matrix times a few vectors at the speed of memory, fused with the steps around it in a layer: the norm of its
// input before, and bias, residual, activation or rotation and KV write after. One launch is one phase of a layer.
#pragma once
#include <compare>

#include "kernels/format/block_format.h"
#include "kernels/product/late_norm.h"
#include "kernels/product/tile.h"
#include "kernels/spec/functions.h"
#include "kernels/spec/gpu_limits.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// A tile of a product with experts: rows of x that go to one expert.
struct ExpertTile {
  uint32_t expert;
  uint32_t first;  // row of x and y, a multiple of the spec's columns
  uint32_t rows;
  uint32_t unused;
};

// The weights (tiles, see tile.h) come through a ring in shared memory for each computing warp; the first are requested
// before the preceding kernel of the chain has finished. Every block copies x to shared memory, normalised, as int8 in
// blocks of 16 with a scale each (or as f32 with `exact`), and each computing warp keeps its slices in registers. A
// warp owns per_warp slices of tile_cols columns and every groups-th tile row; one more warp adds up and writes.
//
// Experts: which matrices are read is known when the kernel before has ended, but for `summed`, which reads the list
// before it waits. A kernel between must therefore let the next one start only after its own wait: a product with
// experts that is not summed does.
struct Product {
  static constexpr std::string_view name = "product",
                                    summary = "a phase of a layer: norm, matrix times 1 to 8 vectors, what follows",
                                    lowest_target = "sm_90";
  enum X : uint32_t { x_f32, x_bf16 };
  enum NormKind : uint32_t { no_norm, rms, layer };
  enum Out : uint32_t {
    store,  // y = scale (W x + bias)
    add,    // y = residual + scale (W x + bias)
    act,    // y = act(W x + bias)
    gate,   // of every four rows of W two belong to the gate, then two to up: y = act(gate) * up, with the bias in both
    qkv,    // rows of q, then of k, then of v; q to y, k and v to the cache; see qkv_row
  };
  struct Args {
    ptx::DevicePtr<float> y;            // (columns, y_stride); act, gate: bf16 where y_bf16 is set
    ptx::DevicePtr<float> residual;     // add: (columns, y_stride), may be y
    ptx::DevicePtr<uint8_t> x;          // (columns, x_stride) values, rows 16-byte aligned, zeros up to a multiple of 8
    ptx::DevicePtr<float> norm, shift;  // the norm's weight, and for layer its bias, zeros up to a multiple of 8
    ptx::DevicePtr<uint8_t> w, w2;      // tiles, 16-byte aligned; w2: those of the second format
    ptx::DevicePtr<float> bias;         // (rows), or of experts (experts, rows)
    ptx::DevicePtr<uint32_t> experts;   // (vectors): the matrix to use, below the number of experts; see `summed`
    ptx::DevicePtr<uint64_t> turns;     // qkv: frequency of each pair, see rope_frequencies.h
    ptx::DevicePtr<uint32_t> positions;  // qkv: (columns)
    ptx::DevicePtr<int32_t> table;       // qkv: (columns, table_stride), pages of the cache
    ptx::DevicePtr<uint8_t> k, v;        // qkv: (pages, kv_heads, page_size, head or value_head) f16
    uint64_t expert_bytes;               // from one expert to the next
    uint32_t rows, cols;                 // without padding
    uint32_t first_rows;                 // mixed: rows of the first format, a multiple of the tile's
    uint32_t second_blocks;              // mixed: the last blocks of the grid, for the second format; see mixed_blocks
    uint32_t x_stride, y_stride;         // values
    uint32_t blocks;                     // of the grid: the number of SMs times a small number
    uint32_t vectors, x_share;           // experts: all vectors, and how many of them belong to one row, 1 to 32
    uint32_t q_rows, k_rows;             // qkv
    uint32_t head, value_head, rotary, kv_heads, page_size, table_stride;
    float epsilon, scale, magnitude;
    ptx::DevicePtr<float> scales;         // mma_product, wgmma_product, weighted: (vectors), factor of each vector
    ptx::DevicePtr<uint32_t> sequences;   // qkv with by_sequence: (vectors), the row of `table` of each vector
    ptx::DevicePtr<ExpertTile> tiles;     // wgmma_product with experts: (tile_count)
    ptx::DevicePtr<uint32_t> tile_count;  // the same: one number
    uint32_t y_group;                     // with y_apart: rows of a group
    ptx::DevicePtr<RowSquares> squares;   // late_norm: (vectors), of x
    // next_apart: rows of y times the norm's weight, as x of the next product, and their squares; late_norm: the scale
    // of these rows becomes known
    ptx::DevicePtr<f16> next_x, next_also;
    ptx::DevicePtr<float> next_norm;  // (rows)
    ptx::DevicePtr<RowSquares> next_squares;
    uint32_t next_group, next_also_group;
    float xielu_positive, xielu_negative, xielu_beta, xielu_epsilon;  // of that activation
  };
  // experts: what is multiplied with a vector's factor
  enum Weighted : uint32_t { weighted_no, weighted_result, weighted_input };
  // Activations as f16 are divided by this: above 2^20 they become that, and below 2^-10 they lose bits.
  static constexpr float f16_act = 16;
  uint32_t format = uint32_t(quant::Format::q4_k), second = uint32_t(quant::Format::q6_k);
  uint32_t mixed = 0;  // the last rows are of the second format; a block has rows of one of the two
  uint32_t tile_cols = 1024, slices = 4;
  uint32_t unit = 16;             // rows that are finished at once, 16 or 32
  uint32_t groups = 4;            // tile rows of a unit computed at once: slices / per_warp * groups + 1 warps
  uint32_t second_groups = 4;     // mixed: the same for blocks of the second format, not more than groups
  uint32_t per_warp = 1;          // slices of a warp; slices must be a multiple of it
  uint32_t depth = 2;             // tiles in flight per warp
  uint32_t resident = 2;          // blocks per SM to leave registers for
  uint32_t room = 0;              // minimum of shared memory to allocate, in KB; see product_choice
  uint32_t late = 0;              // the next kernel may start once x has been read, else at once
  uint32_t copies = copies_bulk;  // of the weights
  uint32_t columns = 1;
  uint32_t x = x_f32, norm = no_norm, exact = 0;
  uint32_t out = store, activation = act_silu, y_bf16 = 0, bias = 0;
  uint32_t cache = 1;   // qkv: k and v go to the cache as f16; no: to y after q, for any type of cache
  uint32_t halves = 0;  // qkv: pairs are values rotary / 2 apart, else neighbours
  // qkv: a table for each sequence, not for each vector. Not a field: wgmma_product and mma_tiles have it.
  uint32_t by_sequence = 0;
  // The kernels of the matrix units have these as fields, product has not. act, gate: y is x of a product with weights
  // of this `apart`, divided by f16_act.
  uint32_t y_apart = 0;
  // add: y is x of a product with a norm too, or of two with weights of different `apart`. See late_norm.h.
  uint32_t next_apart = 0, next_also = 0;
  uint32_t experts = 0;  // a matrix per vector, chosen on the device; columns = 1. The vectors of a row share its x
  // experts: each row has one result, the sum over the first `summed` of its vectors, each with its own x of `cols`
  // values. 0: a result for each vector.
  uint32_t summed = 0;
  // experts: each result, or the input that it is computed from, times its vector's factor; for store, act and gate.
  // summed: the results have their factors, and the biases, weighted_result, get them here.
  uint32_t weighted = weighted_no;
  uint32_t chained = 0;
  auto operator<=>(const Product&) const = default;
  static auto fields();

  quant::Format weights() const { return quant::Format(format); }
  quant::Format second_weights() const { return quant::Format(second); }
  uint32_t filled_cols() const { return slices * tile_cols; }
  uint32_t expert_slices() const { return summed ? slices / summed : slices; }  // of one matrix
  uint32_t warps() const { return slices / per_warp * groups + 1; }
  // Shared memory, known at build time.
  uint32_t x_bytes() const;
  uint32_t ring_bytes() const;
  uint32_t second_depth() const;  // tiles in flight per warp of the second format, in the same ring

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// The order of the rows of a head in the tiles for `qkv`: rows 4j to 4j + 3 are two values and their rotation partners.
// Packed row p of a head is row qkv_row(p, ...) of the model's. rotary must be a multiple of 4.
constexpr uint32_t qkv_row(uint32_t p, uint32_t rotary, bool halves) {
  if (p >= rotary) return p;
  const uint32_t pair = p / 4 * 2 + p % 2, second = p % 4 / 2;
  return halves ? pair + second * (rotary / 2) : 2 * pair + second;
}

// A shape for the product, from what was fastest on an H200. The caller sets the fields that say what is computed.
//
// A kernel of a chain starts while the one before it still runs, on any SM with room. If two of its blocks land on one
// SM and none on another, it takes twice as long. So with one vector a block allocates enough shared memory that a
// second block of the same kernel does not fit on the SM, but one of the next kernel does: consecutive products
// alternate between `large` (114 KB) and small (76 KB).
struct ProductChoice {
  Product spec;
  uint32_t blocks_per_sm;
};
//
// Without bulk copies there is no chain, and a GPU may have too little shared memory for that: then there is one block
// per SM, with as many warps and tiles in flight as fit.
ProductChoice product_choice(const Product& what, uint32_t rows, uint32_t cols, bool large = false,
                             const GpuLimits& gpu = {});
// Other shapes worth trying, the choice above first: the candidates of a search on another GPU.
std::vector<ProductChoice> product_candidates(const Product& what, uint32_t rows, uint32_t cols, bool large = false,
                                              const GpuLimits& gpu = {});
// How many of a grid's blocks should take the rows of the second format, so that all blocks end at the same time.
uint32_t mixed_blocks(const Product& spec, uint32_t first_rows, uint32_t second_rows, uint32_t blocks);
// Sets second_groups from the rest of the shape: larger tiles go to fewer warps rather than to more shared memory.
void set_second_groups(Product& spec);
// Whether a shape (groups, per_warp, depth, resident) fits the product and the SM.
bool product_fits(const Product& spec, const GpuLimits& gpu = {});
// The limit of vectors at once; 0: not even one fits.
uint32_t product_max_columns(const Product& what, uint32_t cols, const GpuLimits& gpu = {});

inline auto Product::fields() {
  using F = Field<Product>;
  using S = Product;
  return std::tuple(
      F{"format", &S::format, weight_formats()}, F{"second", &S::second, weight_formats()},
      F{"mixed", &S::mixed, yes_or_no()}, F{"tile_cols", &S::tile_cols, one_of({256, 512, 1024})},
      F{"slices", &S::slices, range(1, 512)}, F{"unit", &S::unit, one_of({16, 32})},
      F{"groups", &S::groups, one_of({1, 2, 4, 8})}, F{"second_groups", &S::second_groups, one_of({1, 2, 4, 8})},
      F{"per_warp", &S::per_warp, range(1, 64)}, F{"depth", &S::depth, range(1, 8)},
      F{"resident", &S::resident, range(1, 4)}, F{"room", &S::room, range(0, 226)}, F{"late", &S::late, yes_or_no()},
      F{"copies", &S::copies, copy_kinds()}, F{"columns", &S::columns, range(1, 8)},
      F{"x", &S::x, named({"f32", "bf16"})}, F{"norm", &S::norm, named({"none", "rms", "layer"})},
      F{"exact", &S::exact, yes_or_no()}, F{"out", &S::out, named({"store", "add", "act", "gate", "qkv"})},
      F{"activation", &S::activation, activations()}, F{"y_bf16", &S::y_bf16, yes_or_no()},
      F{"bias", &S::bias, yes_or_no()}, F{"cache", &S::cache, yes_or_no()}, F{"halves", &S::halves, yes_or_no()},
      F{"experts", &S::experts, yes_or_no()}, F{"summed", &S::summed, range(0, 32)},
      F{"weighted", &S::weighted, named({"no", "yes", "input"})}, F{"chained", &S::chained, yes_or_no()});
}

}  // namespace heddle::kernels
