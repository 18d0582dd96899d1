// Products of weights and rows: of some tiles, and of whole matrices as one phase of the team, with the tiles divided
// into chunks of about equal bytes.
#pragma once
#include <algorithm>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "cpu/pages.h"
#include "cpu/rows.h"
#include "cpu/team.h"

namespace heddle::cpu {

constexpr uint32_t slab_tiles = 4;  // of 2048 columns: 64 KiB, which stay in L2
// Bytes of a slab of `tiles` tiles, or of what a product with few rows needs in its place.
uint64_t slab_bytes(const Weights& weights, const Isa& isa, uint32_t tiles = slab_tiles);

// out (count, tiles * tile_rows) = W x for some tiles; `slab` has slab_bytes(weights, isa) bytes.
void multiply_tiles(const Weights& weights, const Isa& isa, uint64_t first, uint32_t tiles, const XRow* xs,
                    uint32_t count, float* out, uint8_t* slab);
// The products of scales are exact, so this is what quant::decode gives; `slab` is that of one tile.
void decode_tile_row(const Weights& weights, const Isa& isa, uint64_t row, float* out, uint8_t* slab);

// y = W x for all rows of x; with a second matrix of as many rows also y2 = W2 x, handed to `finish` together.
struct Product {
  const Weights *weights = nullptr, *second = nullptr;
  RowsView x;
};

// Some rows of the result: `count` rows of x from `row` on, with `rows` weight rows from `first` on.
struct Piece {
  uint32_t product;  // index
  uint64_t first;
  uint32_t rows, row, count, stride;
  const float *values, *second;  // (count, stride)
};

class Products {
 public:
  Products(const Isa& isa, Team& team, const std::deque<Weights>& all, uint32_t rows);

  // finish(piece) for each piece of each product, on the thread that computed it. `next`: the products of the phase
  // after it where they are not those of the last time, such as those of the experts that the router chose; of x their
  // number of rows alone is read.
  template <class Finish>
  void run(std::span<const Product> products, Finish&& finish, std::span<const Product> next = {}) {
    plan(products, pieces_);
    look_ahead(products, next);
    team_.run(pieces_.size(), [&](uint64_t item, uint32_t thread) {
      prefetch_next_piece(products, item);
      finish(compute(products, pieces_[item], thread));
    });
  }

  // What each thread of the team reads first of a phase with these products.
  std::vector<Team::Prefetch> first_reads(std::span<const Product> products) {
    plan(products, next_pieces_);
    return first_reads(products, next_pieces_);
  }

 private:
  struct Range {
    uint32_t product, tiles;
    uint64_t first;
    uint32_t row, count;  // of x
  };
  struct Scratch {
    Pages slab;            // aligned to a cache line
    Pages tiles;           // of weights that are packed on use, those of a piece
    Pages values, second;  // f32
    std::vector<float> decoded;
  };
  void plan(std::span<const Product> products, std::vector<Range>& pieces) const;
  std::vector<Team::Prefetch> first_reads(std::span<const Product> products, const std::vector<Range>& pieces) const;
  // Tells the team what its threads will read first in the next phase.
  void look_ahead(std::span<const Product> products, std::span<const Product> next);
  // The beginning of the piece after this one, where it is of another matrix: kernels prefetch within one only.
  void prefetch_next_piece(std::span<const Product> products, uint64_t item) const;
  Piece compute(std::span<const Product> products, const Range& range, uint32_t thread);
  void multiply(const Weights& weights, const Range& range, const RowsView& x, Scratch& scratch, float* out);
  void multiply_floats(const Weights& weights, const Range& range, const RowsView& x, Scratch& scratch, float* out);

  const Isa& isa_;
  Team& team_;
  std::vector<Range> pieces_, next_pieces_;
  struct Phase {
    std::vector<Team::Prefetch> first_reads;  // of each thread
    const Weights* next = nullptr;            // the first weights of the phase after it
  };
  std::unordered_map<const Weights*, Phase> phases_;  // by the first weights of each
  const Weights* last_ = nullptr;                     // of the last phase
  std::vector<Scratch> scratch_;                      // of each thread
};

}  // namespace heddle::cpu
