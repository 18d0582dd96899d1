// A lane holds a piece (32 values) of rows g and g + 8 of each sixteen of its warp. Eight mma multiply 128 columns:
// each takes four values of every lane's piece, and x lies in shared memory in the order that agrees, as for wgmma.
// There 8 vectors x 16 bytes are one matrix of ldmatrix, in 128 bytes that follow one another: no two lanes meet in a
// bank.
#include "kernels/product/mma_tiles.h"

#include <algorithm>

#include "kernels/product/group_ending.h"
#include "kernels/product/product_io.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/async.h"
#include "ptx/matrix.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using TilesArgs = Product::Args;

constexpr uint32_t products = 8;  // of 16 columns, in a step
constexpr uint32_t piece_bytes = 16;

class MmaTilesWriter {
 public:
  explicit MmaTilesWriter(const MmaTiles& s)
      : s_(s),
        out_(ending_of(s)),
        k_(std::string(MmaTiles::name), Launch{.threads = s.warps() * 32, .min_blocks = s.resident}),
        strip_(s.strip()),
        stage_count_(s.filled_cols() / (s.stage_cols * s.col_warps)),
        steps_(s.filled_cols() / (MmaTiles::step_cols * s.col_warps)) {}

  Kernel write() {
    ring_ = k_.shared<uint8_t>(s_.ring_bytes(), 128);
    factors_ = k_.shared<float>(s_.columns);
    chain_start(k_, s_.chained);
    book_ = TilePiece::codebook(k_, s_.weights());
    U32 rows = k_.arg(&TilesArgs::rows) - k_.arg(&TilesArgs::first_rows);
    w_tiles_ = (rows + (strip_.rows - 1)) / strip_.rows;
    row_tiles_ = (rows + (s_.tile_rows() - 1)) / s_.tile_rows();
    row_warp_ = s_.col_warps == 1 ? k_.warp() : k_.warp() % s_.row_warps;
    col_warp_ = s_.col_warps == 1 ? k_.constant(0u) : k_.warp() / s_.row_warps;
    // lane 8 i + r names vector r of matrix i: both halves of a product's columns, then the next eight vectors
    x_of_lane_ = (k_.lane() >> 3u & 1u) * (s_.columns * 16) + (k_.lane() >> 4u) * 128u + (k_.lane() & 7u) * 16u +
                 col_warp_ * (s_.columns * MmaTiles::step_cols * 2);
    chain_wait(k_, s_.chained);
    k_.loop(k_.block_id(), row_tiles_ * column_tiles(), k_.grid_x(), [&](U32 i) { compute(tile(i)); });
    return k_.finish();
  }

 private:
  // Rows [row, ...) of W times vectors [first, end).
  struct Tile {
    U32 row, first, end;
    Global<uint8_t> w;
    U32 expert{};
  };
  U32 column_tiles() {
    if (s_.experts) return k_.assume_uniform(load(k_.arg(&TilesArgs::tile_count)), Uniform::grid);
    return (k_.arg(&TilesArgs::vectors) + (s_.columns - 1)) / s_.columns;
  }
  Tile tile(U32 i) {
    Global<uint8_t> w = k_.arg(&TilesArgs::w);
    if (s_.experts) {
      U32 column = i / row_tiles_;
      auto at = (k_.arg(&TilesArgs::tiles) + column).template as<uint32_t>();
      auto uniform = [&](U32 v) { return k_.assume_uniform(v); };
      U32 expert = uniform(load(at)), first = uniform(load(at.offset(1))), rows = uniform(load(at.offset(2)));
      return {(i - column * row_tiles_) * s_.tile_rows(), first, first + rows,
              w + widen(expert) * k_.arg(&TilesArgs::expert_bytes), expert};
    }
    // neighbouring blocks share weights or x: eight tiles of rows, then the next columns
    constexpr uint32_t side = 8;
    U32 columns = max(column_tiles(), 1u), band = i / (columns * side), in = i - band * (columns * side);
    U32 here = min(row_tiles_ - band * side, side), column = in / here, row = band * side + (in - column * here);
    U32 first = column * s_.columns;
    return {row * s_.tile_rows(), first, min(first + s_.columns, k_.arg(&TilesArgs::vectors)), w};
  }

  // --- weights ------------------------------------------------------------------------------------------------------
  // This lane's piece of rows g and g + 8 of a strip, in a step of this warp.
  std::vector<TilePiece> pieces_of(U32 step) {
    U32 group = k_.lane() >> 2u, piece = (k_.lane() & 3u) + step % in_strip() * 4u;
    std::vector<TilePiece> pieces;
    for (uint32_t half = 0; half < 2; ++half)
      if (half == 0 || strip_.rows == 16)
        pieces.push_back(
            TilePiece::in_strip(k_, s_.weights(), s_.tile_cols, (group + 8 * half) % strip_.rows, piece, book_));
      else
        pieces.push_back(pieces[0]);
    return pieces;
  }
  uint32_t in_strip() const { return strip_.cols / MmaTiles::step_cols; }  // steps
  uint32_t pieces() const { return s_.row_tiles * 2; }  // of a lane in a step: rows g and g + 8 of each sixteen

  // Words of the step that comes next, of a piece.
  struct Coming {
    std::vector<Var<uint32_t>> head, quants;
    void set(Code& k, const Raw& raw) {
      for (auto [to, from] : {std::pair{&head, &raw.head}, {&quants, &raw.quants}})
        for (size_t i = 0; i < from->size(); ++i)
          i < to->size() ? void((*to)[i] = (*from)[i]) : to->push_back(k.var((*from)[i]));
    }
    Raw get() const {
      Raw raw;
      for (const auto& v : head) raw.head.push_back(v.get());
      for (const auto& v : quants) raw.quants.push_back(v.get());
      return raw;
    }
  };
  struct Weights {
    Global<uint8_t> tile;   // the first strip of the tile's rows
    std::vector<U32> rows;  // of each piece: bytes from there to the first strip of its row
    std::vector<Coming> coming;
  };
  Weights weights_of(const Tile& t) {
    const uint32_t row_bytes = s_.slices * tile_bytes(s_.weights());
    U32 row = row_warp_ * s_.warp_rows() + (k_.lane() >> 2u), first = t.row / strip_.rows;
    Weights w;
    w.tile = t.w + mul_wide(first, row_bytes);
    for (uint32_t i = 0; i < pieces(); ++i) {
      // padding rows have the weights of other rows, and their sums are not used
      w.rows.push_back(min((row + i * 8u) / strip_.rows, w_tiles_ - 1u - first) * row_bytes);
      w.coming.emplace_back();
    }
    return w;
  }
  void bring(Weights& w, U32 step) {
    const std::vector<TilePiece> own = pieces_of(step);
    auto strips = w.tile + mul_wide(step / in_strip(), strip_.bytes);
    for (uint32_t i = 0; i < pieces(); ++i) w.coming[i].set(k_, own[i % 2].raw(strips + w.rows[i]));
  }
  std::vector<std::vector<U32>> unpack(const Weights& w, U32 step) {
    const std::vector<TilePiece> own = pieces_of(step);
    std::vector<std::vector<U32>> words;
    for (uint32_t i = 0; i < pieces(); ++i) words.push_back(own[i % 2].halves(w.coming[i].get()));
    return words;
  }

  // --- x ------------------------------------------------------------------------------------------------------------
  struct Stages {
    Global<uint8_t> from;     // stage 0
    Var<uint32_t> slot;       // that is read next
    Var<uint32_t> requested;  // stages
  };
  uint32_t bytes_at_once() const { return k_.threads() * piece_bytes; }
  // f(number, byte) for each of this thread's pieces of a stage.
  void each_piece(auto&& f) {
    for (uint32_t i = 0; i * bytes_at_once() < s_.stage_bytes(); ++i) {
      const uint32_t at = i * bytes_at_once(), left = (s_.stage_bytes() - at) / piece_bytes;
      auto one = [&] { f(i, at); };
      left < k_.threads() ? k_.when(k_.thread() < left, one) : one();
    }
  }
  Shared<uint8_t> place(U32 slot) { return ring_ + (slot * s_.stage_bytes() + k_.thread() * piece_bytes); }
  Global<uint8_t> stage_in_memory(const Stages& x, U32 number) { return x.from + mul_wide(number, s_.stage_bytes()); }
  void copy_stage(Stages& x, U32 slot) {
    auto from = stage_in_memory(x, x.requested.get()) + k_.thread() * piece_bytes;
    auto to = place(slot);
    each_piece([&](uint32_t, uint32_t at) { copy_async<piece_bytes>(to.offset(at), from.offset(at)); });
  }
  Stages first_stages(const Tile& t) {
    Stages x{k_.arg(&TilesArgs::x) + mul_wide(t.first, s_.filled_cols() * 2), k_.var(0u), k_.var(0u)};
    if (!s_.async) {
      keep_stage(load_stage(x), k_.constant(0u));
      return x;
    }
    for (uint32_t i = 0; i + 1 < s_.stages; ++i) {
      if (i < stage_count_) {
        copy_stage(x, k_.constant(i));
        x.requested += 1u;
      }
      copy_commit(k_);
    }
    return x;
  }
  // Waits for the next stage, and requests another one in the place of the last.
  U32 await_stage(Stages& x) {
    U32 slot = x.slot.get();
    if (s_.async) copy_wait(k_, s_.stages - 2);
    k_.barrier();  // all threads' pieces have landed, and all warps have read the stage before
    if (!s_.async) return slot;
    U32 last = select(slot == 0u, k_.constant(s_.stages - 1), slot - 1u);
    k_.when(x.requested.get() < stage_count_, [&] { copy_stage(x, last); });
    copy_commit(k_);
    x.requested += 1u;
    return slot;
  }
  void go_on(Stages& x) {
    U32 slot = x.slot.get();
    x.slot = select(slot == s_.stages - 1, k_.constant(0u), slot + 1u);
  }
  // Without copies beside the threads: the next stage is in registers while this one is multiplied.
  std::vector<Vec<uint32_t, 4>> load_stage(Stages& x) {
    auto from = stage_in_memory(x, min(x.requested.get(), stage_count_ - 1));
    x.requested += 1u;
    std::vector<Vec<uint32_t, 4>> words;
    for (uint32_t at = 0; at < s_.stage_bytes(); at += bytes_at_once()) {
      U32 own = k_.thread() * piece_bytes;  // threads that have no piece load the last one
      if (s_.stage_bytes() - at < bytes_at_once()) own = min(own, s_.stage_bytes() - at - piece_bytes);
      words.push_back(load_vec<4>((from + own).offset(at).as<uint32_t>()));
    }
    return words;
  }
  void keep_stage(const std::vector<Vec<uint32_t, 4>>& words, U32 slot) {
    auto to = place(slot);
    each_piece([&](uint32_t i, uint32_t at) { store_vec(to.offset(at).template as<uint32_t>(), words[i]); });
  }

  // --- products -----------------------------------------------------------------------------------------------------
  // One of a step's eight products: 16 columns of all rows and vectors. `w`: the unpacked words of each piece.
  void multiply(std::vector<GroupSums>& sums, const std::vector<std::vector<U32>>& w, uint32_t product,
                Shared<uint8_t> x) {
    for (uint32_t n = 0; n < s_.columns; n += 16) {
      const auto b = load_matrices<4>(x.offset(n * 16));
      for (uint32_t t = 0; t < s_.row_tiles; ++t)
        for (uint32_t eight = 0; eight < 2; ++eight) {
          const auto &low = w[2 * t], &high = w[2 * t + 1];
          const uint32_t i = 2 * product, j = 2 * eight;
          mma(sums[t], n + 8 * eight, A{{low[i], high[i], low[i + 1], high[i + 1]}}, B{{b[j], b[j + 1]}});
        }
    }
  }
  using A = ptx::Tile<heddle::f16, 16, 16>;
  using B = ptx::Tile<heddle::f16, 16, 8>;

  void compute(const Tile& t) {
    k_.barrier();  // no warp reads the ring and the factors of the tile before any more; the codebook is there
    bring_factors(t);
    Stages x = first_stages(t);
    Weights w = weights_of(t);
    bring(w, col_warp_);
    std::vector<GroupSums> sums;
    for (uint32_t i = 0; i < s_.row_tiles; ++i) sums.emplace_back(k_, s_.columns);
    const uint32_t in_stage = s_.stage_cols / 16;  // products
    // With many sums there are no registers for the next words until half of these have been multiplied. Unpacking is
    // asked for twice then: the second half of the words can wait.
    const bool in_halves = s_.columns == 128;
    auto unpacks = [&](uint32_t product) { return product == 0 || (in_halves && product == products / 2); };
    k_.loop(0u, steps_, 1u, [&](U32 number) {
      auto step = [&](U32 n) { return s_.col_warps == 1 ? n : n * s_.col_warps + col_warp_; };
      std::vector<std::vector<U32>> words;
      for (uint32_t first = 0; first < products; first += in_stage) {
        if (unpacks(first)) words = unpack(w, step(number));  // before the wait
        U32 slot = await_stage(x);
        auto from = ring_ + (slot * s_.stage_bytes() + x_of_lane_);
        std::vector<Vec<uint32_t, 4>> next;
        if (!s_.async) next = load_stage(x);
        for (uint32_t n = 0; n < in_stage; ++n) {
          if (n > 0 && unpacks(first + n)) words = unpack(w, step(number));
          // after the last step, its words once more
          if (first + n == (in_halves ? products / 2 : 0)) bring(w, step(min(number + 1u, steps_ - 1)));
          multiply(sums, words, first + n, from.offset(n * s_.columns * 32));
        }
        go_on(x);
        if (!s_.async) keep_stage(next, x.slot.get());
      }
    });
    finish(t, sums);
  }

  // --- endings ------------------------------------------------------------------------------------------------------
  void bring_factors(const Tile& t) {
    k_.loop(k_.thread(), s_.columns, k_.threads(), [&](U32 i) {
      F32 scale = vector_factor(k_, s_.late_norm, min(t.first + i, t.end - 1u), t.row == 0u);
      store(factors_ + i, scale * (1 / TilePiece::half_factor(s_.weights())));
    });
  }
  void finish(const Tile& t, std::vector<GroupSums>& sums) {
    U32 row = k_.arg(&TilesArgs::first_rows) + t.row + row_warp_ * s_.warp_rows();
    auto end = [&] {
      for (uint32_t i = 0; i < s_.row_tiles; ++i)
        GroupEnding(k_, out_, factors_).write(sums[i], s_.columns, row + i * 16u, t.first, t.end, t.expert);
    };
    if (s_.col_warps == 1) return end();
    // all sums of the other warps go through the ring, in the order of the registers
    const uint32_t each = s_.warp_rows() * s_.columns, of_tile = s_.columns / 2;
    auto own = ring_.as<float>() + (row_warp_ * each + k_.lane());
    auto place = [&](uint32_t tile, uint32_t i) { return (tile * of_tile + i) * 32; };
    k_.barrier();  // x has been read
    k_.when(col_warp_ > 0u, [&] {
      auto to = own + (col_warp_ - 1u) * (s_.row_warps * each);
      for (uint32_t tile = 0; tile < s_.row_tiles; ++tile)
        for (uint32_t i = 0; i < of_tile; ++i) store(to.offset(place(tile, i)), sums[tile].get(i));
    });
    k_.barrier();
    k_.when(col_warp_ == 0u, [&] {
      // a loop on the device: in one text the sums of all warps would be loaded at once, and spill
      k_.loop(0u, s_.col_warps - 1, 1u, [&](U32 other) {
        auto from = own + other * (s_.row_warps * each);
        for (uint32_t tile = 0; tile < s_.row_tiles; ++tile)
          for (uint32_t i = 0; i < of_tile; ++i)
            sums[tile].set(i, sums[tile].get(i) + load(from.offset(place(tile, i))));
      });
      end();
    });
  }

  const MmaTiles& s_;
  const Product out_;
  Builder<TilesArgs> k_;
  const TileStrip strip_;
  const uint32_t stage_count_, steps_;  // of a tile, for a warp
  Shared<uint8_t> ring_;
  Shared<float> factors_;    // of the vectors of a tile
  U32 w_tiles_, row_tiles_;  // tiles of weights, and of the product, along the rows
  U32 row_warp_, col_warp_;  // this warp among those that share the rows, and the columns
  U32 x_of_lane_;            // bytes from the beginning of a stage to what this lane names for ldmatrix
  Codebook book_;
};

}  // namespace

uint32_t MmaTiles::shared_bytes() const {
  const size_t book = quant::is_float(weights()) ? 0 : block_format(weights()).book().size() * 4;
  return ring_bytes() + columns * 4 + uint32_t(book) + 128;
}

bool MmaTiles::divides() const {
  return filled_cols() % (step_cols * col_warps) == 0 && (col_warps == 1 || stage_cols == step_cols) &&
         (async || stages == 2);
}

// Found by trial: the sums, the operands of a step, and what the formats with the longest decoding need beside. The
// words of floats are more than their operands.
uint32_t MmaTiles::registers() const {
  const uint32_t of_sixteen = columns / 2 + 32 + (quant::is_float(weights()) ? 16 : 0);
  return row_tiles * of_sixteen + (row_tiles == 1 ? 72 : 63);
}

bool MmaTiles::fits(uint32_t shared_limit) const {
  constexpr uint32_t reserved = 1024;  // of each block, beside what it may have
  return warps() <= 8 && divides() && resident * (shared_bytes() + reserved) <= shared_limit + reserved &&
         registers() <= std::min(65536 / (warps() * 32 * resident) / 8 * 8, 255u);
}

Kernel MmaTiles::build() const {
  check_fields(*this);
  if (warps() > 8) throw Error("mma_tiles: {} warps, 8 at most", warps());
  if (!divides())
    throw Error("mma_tiles: {} columns do not divide into {} stages of {} for {} x {} warps", filled_cols(), stages,
                stage_cols, row_warps, col_warps);
  check_ending(*this);
  return MmaTilesWriter(*this).write();
}

Grid MmaTiles::grid(const TilesArgs& args) const {
  check_fields(*this);
  check_matrix_args(*this, args);
  if (experts) return {.x = args.blocks};
  const uint32_t along = (args.rows - args.first_rows + tile_rows() - 1) / tile_rows();
  const uint64_t tiles = uint64_t(along) * ((args.vectors + columns - 1) / columns);
  return {.x = std::max(uint32_t(std::min<uint64_t>(args.blocks, tiles)), 1u)};
}

void add_mma_tiles_kernels(std::vector<Entry>& all) { all.push_back(entry<MmaTiles>()); }

}  // namespace heddle::kernels
