// Matrix times a few vectors at the memory limit (sm_90), with what surrounds it in a layer: the norm of its input
// before, and bias, residual, activation or rotation and KV write after. One launch is one phase of a layer.
#pragma once
#include <compare>

#include "kernels/format/known_formats.h"
#include "kernels/product/tile.h"
#include "kernels/spec/functions.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// The weights (tiles, see tile.h) come through a ring of shared memory by bulk copies, asked for before the kernel
// ahead in the chain has finished. Every block brings x to shared memory, normalised, as int8 in blocks of 16 with a
// scale each (or as f32: exact), and each computing warp keeps its part. A warp owns per_warp slices of tile_cols
// columns and every groups-th tile row; one more warp adds up and writes.
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
    gate,   // of each four rows of W the first two are of the gate, the others of up: y = act(gate) * up
    qkv,    // rows of q, then of k, then of v; q to y, k and v to the cache; see qkv_row
  };
  struct Args {
    ptx::DevicePtr<float> y;            // (columns, y_stride); act, gate: bf16 where y_bf16 is set
    ptx::DevicePtr<float> residual;     // add: (columns, y_stride), may be y
    ptx::DevicePtr<uint8_t> x;          // (columns, x_stride) values, rows 16-byte aligned, zeros up to a multiple of 8
    ptx::DevicePtr<float> norm, shift;  // the norm's weight, and for layer its bias, zeros up to a multiple of 8
    ptx::DevicePtr<uint8_t> w, w2;      // tiles, 16-byte aligned; w2: those of the second format
    ptx::DevicePtr<float> bias;         // (rows)
    ptx::DevicePtr<uint32_t> experts;   // (vectors): the matrix to use; an expert beyond the last would be a fault
    ptx::DevicePtr<uint64_t> turns;     // qkv: of each pair, see rope_frequencies.h
    ptx::DevicePtr<uint32_t> positions;  // qkv: (columns)
    ptx::DevicePtr<int32_t> table;       // qkv: (columns, table_stride), pages of the cache
    ptx::DevicePtr<uint8_t> k, v;        // qkv: (pages, kv_heads, page_size, head or value_head) f16
    uint64_t expert_bytes;               // from an expert to the next
    uint32_t rows, cols;                 // before filling up
    uint32_t first_rows;                 // mixed: rows of the first format, a multiple of the tile's
    uint32_t second_blocks;              // mixed: blocks of the grid, its last, for the second format; see mixed_blocks
    uint32_t x_stride, y_stride;         // values
    uint32_t blocks;                     // of the grid: the number of SMs times a small number
    uint32_t vectors, x_share;           // experts: results, and how many in a row have the same x
    uint32_t q_rows, k_rows;             // qkv
    uint32_t head, value_head, rotary, kv_heads, page_size, table_stride;
    float epsilon, scale, magnitude;
    ptx::DevicePtr<float> scales;  // mma_product: (vectors): what each vector is to be multiplied with
  };
  uint32_t format = uint32_t(quant::Format::q4_k), second = uint32_t(quant::Format::q6_k);
  uint32_t mixed = 0;  // the last rows are of the second format; a block has rows of one of the two
  uint32_t tile_cols = 1024, slices = 4;
  uint32_t unit = 16;          // rows that are finished at once, 16 or 32
  uint32_t groups = 4;         // tile rows of a unit in work at once: slices / per_warp * groups + 1 warps
  uint32_t second_groups = 4;  // mixed: the same for blocks of the second format, not more than groups
  uint32_t per_warp = 1;       // slices of a warp; slices must be a multiple of it
  uint32_t depth = 2;          // tiles in flight per warp
  uint32_t resident = 2;       // blocks per SM to leave registers for
  uint32_t room = 0;           // KB of shared memory to take at least; see product_choice
  uint32_t late = 0;           // the next kernel may start when x was read, else at once
  uint32_t columns = 1;
  uint32_t x = x_f32, norm = no_norm, exact = 0;
  uint32_t out = store, activation = act_silu, y_bf16 = 0, bias = 0;
  uint32_t cache = 1;    // qkv: k and v go to the cache as f16; no: behind q in y, whatever the cache wants
  uint32_t halves = 0;   // qkv: values half of `rotary` apart are turned, else neighbours
  uint32_t experts = 0;  // a matrix per vector, chosen on the device; columns = 1
  uint32_t chained = 0;
  auto operator<=>(const Product&) const = default;
  static auto fields();

  quant::Format weights() const { return quant::Format(format); }
  quant::Format second_weights() const { return quant::Format(second); }
  uint32_t filled_cols() const { return slices * tile_cols; }
  uint32_t warps() const { return slices / per_warp * groups + 1; }
  // Of shared memory, known while building.
  uint32_t x_bytes() const;
  uint32_t ring_bytes() const;
  uint32_t second_depth() const;  // tiles in flight per warp of the second format, in the same ring

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// In which order the rows of a head go into the tiles for `qkv`: rows 4j to 4j + 3 are two values and their partners.
// Packed row p of a head of `head` rows is row qkv_row(p, ...) of the model's. rotary must be a multiple of 4.
constexpr uint32_t qkv_row(uint32_t p, uint32_t rotary, bool halves) {
  if (p >= rotary) return p;
  const uint32_t pair = p / 4 * 2 + p % 2, second = p % 4 / 2;
  return halves ? pair + second * (rotary / 2) : 2 * pair + second;
}

// A shape for the product, from what was fastest on an H200. The fields that say what is computed are the caller's.
//
// A kernel of a chain starts while the one before it still runs, wherever an SM has room. If two of its blocks come to
// lie on one SM and none on another, it takes twice as long. So one block of one vector takes so much shared memory
// that its like does not fit beside it, but the next kernel's does: products that follow each other take turns at being
// `large` (114 KB) and not (76 KB).
struct ProductChoice {
  Product spec;
  uint32_t blocks_per_sm;
};
ProductChoice product_choice(const Product& what, uint32_t rows, uint32_t cols, bool large = false);
// Other shapes worth a try, the choice above first: what a search on another GPU goes through.
std::vector<ProductChoice> product_candidates(const Product& what, uint32_t rows, uint32_t cols, bool large = false);
// How many of a grid's blocks should do the rows of the second format, so that all end at the same time.
uint32_t mixed_blocks(const Product& spec, uint32_t first_rows, uint32_t second_rows, uint32_t blocks);
// Of the second format, from the rest of the shape: larger tiles go to fewer warps rather than to more shared memory.
void set_second_groups(Product& spec);
// Whether a shape from elsewhere (groups, per_warp, depth, resident) fits the product.
bool product_fits(const Product& spec);
// The most vectors at once.
uint32_t product_most_columns(const Product& what, uint32_t cols);

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
      F{"columns", &S::columns, range(1, 8)}, F{"x", &S::x, named({"f32", "bf16"})},
      F{"norm", &S::norm, named({"none", "rms", "layer"})}, F{"exact", &S::exact, yes_or_no()},
      F{"out", &S::out, named({"store", "add", "act", "gate", "qkv"})}, F{"activation", &S::activation, activations()},
      F{"y_bf16", &S::y_bf16, yes_or_no()}, F{"bias", &S::bias, yes_or_no()}, F{"cache", &S::cache, yes_or_no()},
      F{"halves", &S::halves, yes_or_no()}, F{"experts", &S::experts, yes_or_no()},
      F{"chained", &S::chained, yes_or_no()});
}

}  // namespace heddle::kernels
