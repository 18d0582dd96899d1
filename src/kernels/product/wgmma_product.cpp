// A lane holds a piece (32 values) of rows g and g + 8 of the sixteen of its warp. Eight wgmma multiply 128 columns:
// each takes four values of every lane's piece, and x lies in shared memory in the order that agrees.
#include "kernels/product/wgmma_product.h"

#include <algorithm>

#include "kernels/product/product_io.h"
#include "kernels/product/tile.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/async.h"
#include "ptx/matrix.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using WgmmaArgs = Product::Args;

constexpr uint32_t step_cols = WgmmaProduct::step_cols;
constexpr uint32_t core = 8;            // vectors of a core matrix
constexpr uint32_t few_registers = 24;  // of the copying warp
constexpr uint32_t chunk = 32;          // vectors that a warp finishes at once
constexpr uint32_t warp_stride = 20;    // floats from vector to vector of a warp's sums: lanes use different banks
constexpr uint32_t pad = 4;             // floats between the sums of two vectors: lanes store to different banks

// What is left of a product is finished four or eight vectors at a time, one row per lane.
Product ending_of(const WgmmaProduct& s) {
  return {.columns = s.alone() ? 4 : core,
          .out = s.out,
          .activation = s.activation,
          .y_bf16 = s.y_bf16,
          .bias = s.bias,
          .cache = s.cache,
          .halves = s.halves,
          .by_sequence = s.by_sequence};
}

class WgmmaWriter {
 public:
  explicit WgmmaWriter(const WgmmaProduct& s)
      : s_(s),
        out_(ending_of(s)),
        groups_(s.row_groups * s.col_groups),
        k_(std::string(WgmmaProduct::name),
           Launch{.threads = (groups_ + 1) * 128, .min_blocks = 1, .cluster = s.shares}),
        w_rows_(tile_values / s.tile_cols),
        tile_(tile_bytes(s.weights())),
        units_(s.filled_cols() / (step_cols * s.steps)),
        units_per_slice_(s.tile_cols / (step_cols * s.steps)),
        unit_count_(units_ / s.shares) {}

  Kernel write() {
    ring_ = k_.shared<uint8_t>(s_.stages * s_.stage_bytes(), 128);
    sums_ = k_.shared<float>(s_.sums_bytes() / 4);
    if (s_.alone()) scales_ = k_.shared<float>(groups_ * 4 * s_.columns);
    full_ = mbarriers(k_, s_.stages);
    empty_ = mbarriers(k_, s_.stages);
    chain_start(k_, s_.chained);
    k_.when(k_.thread() == groups_ * 128, [&] {
      for (auto& b : full_) b.init(1u);
      for (auto& b : empty_) b.init(s_.row_groups * 4);
      fence_mbarrier_init(k_);
    });
    book_ = TilePiece::codebook(k_, s_.weights());
    k_.barrier();
    w_tiles_ = (k_.arg(&WgmmaArgs::rows) - k_.arg(&WgmmaArgs::first_rows) + (w_rows_ - 1)) / w_rows_;
    row_tiles_ = (k_.arg(&WgmmaArgs::rows) - k_.arg(&WgmmaArgs::first_rows) + (s_.tile_rows() - 1)) / s_.tile_rows();
    U32 rank = s_.shares == 1 ? k_.constant(0u) : k_.cluster_rank();
    first_unit_ = rank * unit_count_;
    // The copying warp needs few registers. They are not moved where all warps go on together.
    k_.when_else(
        k_.group() < groups_,
        [&] {
          if (s_.moves_registers()) take_registers(k_, s_.registers());
          work();
        },
        [&] {
          if (s_.moves_registers()) release_registers(k_, few_registers);
          k_.when(k_.warp() == groups_ * 4, [&] { bring(); });
        });
    if (s_.shares > 1) finish_cluster();
    return k_.finish();
  }

 private:
  // Rows [row, ...) of W times vectors [first, end).
  struct Tile {
    U32 row, first, end;
    Global<uint8_t> w;
  };
  // The tiles of this block, the same in all of its warps.
  void each_tile(auto&& body) {
    U32 cluster = s_.shares == 1 ? k_.block_id() : k_.block_id() / s_.shares;
    U32 count = row_tiles_ * column_tiles();
    if (s_.shares > 1) return k_.when(cluster < count, [&] { body(tile(cluster), cluster); });  // one tile each
    k_.loop(cluster, count, k_.grid_x(), [&](U32 i) { body(tile(i), i); });
  }
  U32 column_tiles() {
    if (s_.experts) return k_.assume_uniform(load(k_.arg(&WgmmaArgs::tile_count)), Uniform::grid);
    return (k_.arg(&WgmmaArgs::vectors) + (s_.columns - 1)) / s_.columns;
  }
  Tile tile(U32 i) {
    Global<uint8_t> w = k_.arg(&WgmmaArgs::w);
    if (s_.experts) {
      U32 column = i / row_tiles_;
      auto at = (k_.arg(&WgmmaArgs::tiles) + column).template as<uint32_t>();
      auto uniform = [&](U32 v) { return k_.assume_uniform(v, Uniform::cluster); };
      U32 expert = uniform(load(at)), first = uniform(load(at.offset(1))), rows = uniform(load(at.offset(2)));
      return {(i - column * row_tiles_) * s_.tile_rows(), first, first + rows,
              w + widen(expert) * k_.arg(&WgmmaArgs::expert_bytes)};
    }
    // neighbouring blocks share weights or x: eight tiles of rows, then the next columns
    constexpr uint32_t side = 8;
    U32 columns = max(column_tiles(), 1u), band = i / (columns * side), in = i - band * (columns * side);
    U32 here = min(row_tiles_ - band * side, side), column = in / here, row = band * side + (in - column * here);
    U32 first = column * s_.columns;
    return {row * s_.tile_rows(), first, min(first + s_.columns, k_.arg(&WgmmaArgs::vectors)), w};
  }

  Shared<uint8_t> stage(U32 index) { return ring_ + index * s_.stage_bytes(); }

  // --- the copying warp ---------------------------------------------------------------------------------------------
  void bring() {
    if (!s_.experts) {
      // the first weights are requested before the preceding kernel has ended
      k_.when(k_.block_id() / s_.shares < row_tiles_ * column_tiles(), [&] {
        Tile t = tile(k_.block_id() / s_.shares);
        request_weights(t, first_unit_ / units_per_slice_);
      });
    }
    chain_wait(k_, s_.chained);
    auto before = k_.var(0u);  // stages so far
    each_tile([&](const Tile& t, U32) {
      auto from = k_.arg(&WgmmaArgs::x) + mul_wide(t.first, s_.filled_cols() * 2);
      k_.loop(0u, unit_count_, 1u, [&](U32 i) {
        U32 unit = first_unit_ + i, index = before.get() + i, turn = index / s_.stages, s = index - turn * s_.stages;
        k_.when(unit % units_per_slice_ == 0u || i == 0u, [&] { request_weights(t, unit / units_per_slice_); });
        k_.when(turn > 0u, [&] { Mbarrier{empty_[0].at + s}.wait(k_, (turn - 1u) & 1u); });
        k_.when(k_.lane() == 0u, [&] {
          Mbarrier full{full_[0].at + s};
          full.arrive_expect_bytes(s_.stage_bytes());
          bulk_load(stage(s), from + mul_wide(unit, s_.stage_bytes()), s_.stage_bytes(), full);
        });
      });
      before += unit_count_;
    });
  }
  // A slice of the tile's rows to L2, a tile row per lane.
  void request_weights(const Tile& t, U32 slice) {
    const uint32_t count = s_.tile_rows() / w_rows_;
    for (uint32_t first = 0; first < count; first += 32) {
      U32 i = k_.lane() + first, w_tile = t.row / w_rows_ + i;
      k_.when(i < count && w_tile < w_tiles_, [&] {
        auto at = t.w + (mul_wide(w_tile, s_.slices * tile_) + widen(slice * tile_));
        for (uint32_t line = 0; line < tile_; line += 128) ptx::prefetch(at.offset(line));
      });
    }
  }

  // --- the warp groups ----------------------------------------------------------------------------------------------
  // This lane's two rows: where they are in the matrix, and in their tiles.
  struct Rows {
    Global<uint8_t> at[2];  // slice 0
    U32 piece[2];           // of the tile's pieces, this lane's first
  };
  Rows rows_of(const Tile& t, U32 row_in_tile) {
    const uint32_t row_pieces = s_.tile_cols / 32;
    Rows rows;
    for (uint32_t half = 0; half < 2; ++half) {
      U32 row = t.row + row_in_tile + (k_.lane() >> 2u) + half * 8u;
      // padding rows read the weights of other rows, and their sums are not used
      U32 w_tile = min(row / w_rows_, w_tiles_ - 1u);
      rows.at[half] = t.w + mul_wide(w_tile, s_.slices * tile_);
      // a warp's rows begin with a tile
      U32 in_w_tile = (k_.lane() >> 2u) % w_rows_;
      if (w_rows_ > 8) in_w_tile = in_w_tile + half * 8u;
      rows.piece[half] = in_w_tile * row_pieces + (k_.lane() & 3u);
    }
    return rows;
  }
  // How this lane reads one of its rows in a step.
  TilePiece piece(const Rows& rows, uint32_t half, U32 unit, uint32_t step) {
    U32 first = rows.piece[half] + unit % units_per_slice_ * (s_.steps * 4) + step * 4u;
    return {k_, s_.weights(), s_.tile_cols, first, book_};
  }
  std::vector<Raw> load_step(const Rows& rows, U32 unit, uint32_t step) {
    std::vector<Raw> all;
    for (uint32_t half = 0; half < 2; ++half)
      all.push_back(piece(rows, half, unit, step).raw(rows.at[half] + unit / units_per_slice_ * tile_));
    return all;
  }

  // Words that were loaded for the next step.
  class Held {
   public:
    Held(Code& k, const std::vector<Raw>& raw) {
      for (const Raw& r : raw) {
        heads_.push_back(r.head.size());
        quants_.push_back(r.quants.size());
        for (const auto& words : {r.head, r.quants})
          for (U32 w : words) all_.push_back(k.var(w));
      }
    }
    std::vector<Raw> get() const {
      std::vector<Raw> raw;
      size_t at = 0;
      for (size_t i = 0; i < heads_.size(); ++i) {
        Raw r;
        for (size_t n = 0; n < heads_[i]; ++n) r.head.push_back(all_[at++].get());
        for (size_t n = 0; n < quants_[i]; ++n) r.quants.push_back(all_[at++].get());
        raw.push_back(std::move(r));
      }
      return raw;
    }
    void set(const std::vector<Raw>& raw) {
      size_t at = 0;
      for (const Raw& r : raw)
        for (const auto& words : {r.head, r.quants})
          for (U32 w : words) all_[at++] = w;
    }

   private:
    std::vector<size_t> heads_, quants_;
    std::vector<Var<uint32_t>> all_;
  };

  void work() {
    if (s_.experts) chain_wait(k_, s_.chained);
    U32 row_group = s_.row_groups == 1 ? k_.constant(0u) : k_.group() % s_.row_groups;
    U32 col_group = s_.col_groups == 1 ? k_.constant(0u) : k_.group() / s_.row_groups;
    GroupSums acc(k_, s_.columns);
    Pred first_lane = k_.lane() == 0u;
    auto x_stage = k_.var(col_group), parity = k_.var(0u);  // that this group reads next
    auto rows_in = [&](const Tile& t) { return rows_of(t, row_group * 64u + (k_.warp() & 3u) * 16u); };
    // the weights of step n from stage i on; past the end any other
    auto load_ahead = [&](const Rows& rows, U32 i, uint32_t n) {
      U32 unit = first_unit_ + min(i + n / s_.steps * s_.col_groups, unit_count_ - 1);
      return load_step(rows, unit, n % s_.steps);
    };
    // The first steps of a tile: experts have many small ones, and load them before the ending of the one before.
    const bool early = s_.experts && s_.columns <= 32;
    std::vector<Held> held;
    auto load_first = [&](const Rows& rows) {
      const bool again = !held.empty();
      for (uint32_t n = 0; n < s_.ahead; ++n)
        again ? held[n].set(load_ahead(rows, col_group, n))
              : void(held.emplace_back(k_, load_ahead(rows, col_group, n)));
    };
    U32 last_tile = max(row_tiles_ * column_tiles(), 1u) - 1u;
    if (early) load_first(rows_in(tile(min(k_.block_id(), last_tile))));
    each_tile([&](const Tile& t, U32 number) {
      const Rows rows = rows_in(t);
      for (uint32_t i = 0; i < s_.columns / 2; ++i) acc.set(i, 0.0f);
      if (!early) load_first(rows);
      if (!s_.experts) chain_wait(k_, s_.chained);
      bring_scales(t);
      auto one_stage = [&](U32 i, uint32_t first_held) {
        U32 s = x_stage.get(), unit = first_unit_ + i;
        Mbarrier{full_[0].at + s}.wait(k_, parity.get());
        U64 x = matrix_descriptor(stage(s), s_.columns * 16, 128, Swizzle::none);
        for (uint32_t step = 0; step < s_.steps; ++step) {
          Held& own = held[(first_held + step) % s_.ahead];
          multiply(acc, rows, own.get().data(), unit, step, x);
          own.set(load_ahead(rows, i, step + s_.ahead));
          wgmma_wait(k_, 0);  // meanwhile the other groups' products run
        }
        k_.when(first_lane, [&] { Mbarrier{empty_[0].at + s}.arrive(); });
        U32 next = s + s_.col_groups;
        Pred wraps = next >= s_.stages;
        x_stage = select(wraps, next - s_.stages, next);
        parity = parity.get() ^ select(wraps, k_.constant(1u), 0u);
      };
      // words that were loaded for different steps stay in different registers
      const uint32_t stages = std::max(s_.ahead / s_.steps, 1u);
      k_.loop(col_group, unit_count_, s_.col_groups * stages, [&](U32 i) {
        one_stage(i, 0);
        if (stages == 1) return;
        U32 second = i + s_.col_groups;
        k_.when(second < unit_count_, [&] { one_stage(second, 1); });
      });
      if (early) load_first(rows_in(tile(min(number + k_.grid_x(), last_tile))));
      if (s_.alone())
        finish_alone(t, acc, row_group);
      else
        keep_sums(acc, row_group, col_group);
      if (!s_.alone() && s_.shares == 1) {
        k_.barrier(1, groups_ * 128);
        finish(t, k_.constant(0u), s_.columns, groups_ * 4);
        k_.barrier(1, groups_ * 128);
      }
    });
  }

  void multiply(GroupSums& acc, const Rows& rows, const Raw* raw, U32 unit, uint32_t step, U64 x) {
    std::vector<std::vector<U32>> halves;
    for (uint32_t half = 0; half < 2; ++half) halves.push_back(piece(rows, half, unit, step).halves(raw[half]));
    wgmma_fence(k_);
    for (uint32_t i = 0; i < 8; ++i) {
      const uint64_t at = (step * 8 + i) * s_.columns * 32 >> 4;
      wgmma<heddle::f16>(acc,
                         std::array{halves[0][2 * i], halves[1][2 * i], halves[0][2 * i + 1], halves[1][2 * i + 1]},
                         at ? x + at : x, true);
    }
    wgmma_commit(k_);
  }

  // --- endings ------------------------------------------------------------------------------------------------------
  // The sums of vectors [first, first + count) to shared memory, `stride` floats from vector to vector. `to`: where the
  // sums of this warp's first row go.
  void put(const GroupSums& acc, uint32_t first, uint32_t count, Shared<float> to, uint32_t stride) {
    auto mine = to + (k_.lane() >> 2u) + (k_.lane() & 3u) * (2 * stride);
    for (uint32_t n = 0; n < count; n += 8)
      for (uint32_t i = 0; i < 4; ++i)
        store(mine.offset((n + i % 2) * stride + i / 2 * 8), acc.get((first + n) / 2 + i));
  }

  // Alone, a warp finishes its sixteen rows by itself, a chunk of vectors at a time: each half of the warp has four
  // vectors of the sixteen rows. Their factors are brought before the sums are computed.
  Shared<float> own_scales() { return scales_ + k_.warp() * s_.columns; }
  void bring_scales(const Tile& t) {
    if (!s_.alone()) return;
    for (uint32_t v = 0; v < s_.columns; v += 32) {
      auto one = [&] {
        U32 vector = min(t.first + v + k_.lane(), t.end - 1u);
        F32 scale = load(k_.arg(&WgmmaArgs::scales) + vector) * (1 / TilePiece::half_factor(s_.weights()));
        store(own_scales() + (k_.lane() + v), scale);
      };
      s_.columns < 32 ? k_.when(k_.lane() < s_.columns, one) : one();
    }
  }
  void finish_alone(const Tile& t, const GroupSums& acc, U32 row_group) {
    const uint32_t count = std::min(chunk, s_.columns);
    auto mine = sums_ + k_.warp() * (count * warp_stride);
    U32 half = k_.lane() >> 4u;
    U32 row = k_.arg(&WgmmaArgs::first_rows) + t.row + row_group * 64u + (k_.warp() & 3u) * 16u + (k_.lane() & 15u);
    for (uint32_t first = 0; first < s_.columns; first += count) {
      auto part = [&] {
        put(acc, first, count, mine, warp_stride);
        k_.warp_sync();
        k_.loop(0u, min(t.end - t.first - first, count), core, [&](U32 v) {
          U32 in_chunk = v + half * 4u;
          ProductOut out(k_, out_, k_.arg(&WgmmaArgs::y), t.first + first + in_chunk, t.end);
          out.prepare(row, row < k_.arg(&WgmmaArgs::rows));
          auto at = mine + (in_chunk * warp_stride + (k_.lane() & 15u));
          auto scale = own_scales() + (in_chunk + first);
          for (uint32_t i = 0; i < 4; ++i) out.write(i, load(at.offset(i * warp_stride)) * load(scale.offset(i)));
        });
        k_.warp_sync();
      };
      first ? k_.when(t.first + first < t.end, part) : part();
    }
  }

  // All sums of a tile, the col groups one after the other.
  void keep_sums(const GroupSums& acc, U32 row_group, U32 col_group) {
    const uint32_t stride = s_.tile_rows() + pad;
    put(acc, 0, s_.columns, sums_ + (col_group * (s_.columns * stride) + row_group * 64u + (k_.warp() & 3u) * 16u),
        stride);
  }
  // Adds up over the blocks of the cluster, each for a part of the vectors, with all warps.
  void finish_cluster() {
    k_.cluster_barrier();
    const uint32_t each = std::max(s_.columns / s_.shares, core);
    U32 first = k_.cluster_rank() * each;
    k_.when(first < s_.columns && k_.block_id() / s_.shares < row_tiles_ * column_tiles(),
            [&] { finish(tile(k_.block_id() / s_.shares), first, each, groups_ * 4 + 4); });
    k_.cluster_barrier();  // nothing is read from a block that has ended
  }

  // The ending of `count` vectors of the tile from `first` on, by the first `warps` warps of the block; each takes 32
  // rows of eight vectors at a time.
  void finish(const Tile& t, U32 first, uint32_t count, uint32_t warps) {
    const uint32_t stride = s_.tile_rows() + pad, groups = s_.tile_rows() / 32, turns = count / core * groups;
    k_.loop(k_.warp(), turns, warps, [&](U32 turn) {
      U32 in_tile = first + turn / groups * core, in_rows = turn % groups * 32u + k_.lane();
      U32 vector = t.first + in_tile;
      k_.when(vector < t.end, [&] {
        U32 row = k_.arg(&WgmmaArgs::first_rows) + t.row + in_rows;
        ProductOut out(k_, out_, k_.arg(&WgmmaArgs::y), vector, t.end);
        out.prepare(row, row < k_.arg(&WgmmaArgs::rows));
        auto at = sums_ + (in_tile * stride + in_rows);
        for (uint32_t v = 0; v < core; ++v) {
          F32 scale = load(k_.arg(&WgmmaArgs::scales) + min(vector + v, t.end - 1u));
          F32 sum;
          for (uint32_t share = 0; share < s_.shares; ++share)
            for (uint32_t c = 0; c < s_.col_groups; ++c) {
              auto one = at.offset(v * stride + c * s_.columns * stride);
              F32 part = s_.shares == 1 ? load(one) : load(in_block(one, share));
              sum = share + c ? sum + part : part;
            }
          out.write(v, sum * (scale * (1 / TilePiece::half_factor(s_.weights()))));
        }
      });
    });
  }

  const WgmmaProduct& s_;
  const Product out_;
  const uint32_t groups_;  // of four warps that compute
  Builder<WgmmaArgs> k_;
  const uint32_t w_rows_, tile_;                         // rows and bytes of a tile of weights
  const uint32_t units_, units_per_slice_, unit_count_;  // stages of all columns, of a slice, and of a block
  Shared<uint8_t> ring_;
  Shared<float> sums_, scales_;
  std::vector<Mbarrier> full_, empty_;
  U32 w_tiles_, row_tiles_;  // tiles of weights, and of the product, along the rows
  U32 first_unit_;           // of this block
  Codebook book_;
};

}  // namespace

uint32_t WgmmaProduct::sums_bytes() const {
  if (alone()) return row_groups * 4 * std::min(chunk, columns) * warp_stride * 4;
  return col_groups * columns * (tile_rows() + pad) * 4;
}

uint32_t WgmmaProduct::shared_bytes() const {
  const size_t book = quant::is_float(weights()) ? 0 : block_format(weights()).book().size() * 4;
  const uint32_t factors = row_groups * columns * 16;  // of the vectors, for each warp
  return stages * (stage_bytes() + 16) + sums_bytes() + factors + uint32_t(book) + 1024;
}

// A stage is always the same group's: the parity of a barrier tells it from the stage before, not from earlier ones.
bool WgmmaProduct::divides() const {
  return filled_cols() / (step_cols * steps) % (shares * col_groups) == 0 && stages % col_groups == 0;
}

// Found by trial: the sums, the operands of a step, and the words of the next one.
uint32_t WgmmaProduct::needed_registers() const {
  const uint32_t bits = tile_bytes(weights()) * 8 / tile_values, words = quant::is_float(weights()) ? bits : bits + 4;
  // those of the next tile are there during the ending of an expert's
  const uint32_t inside = columns / 2 + 40 + (1 + 2 * ahead) * words + (experts ? 8 : 0);
  // the ending of eight vectors at once, each with its rotation
  const bool rotates_eight = out == Product::qkv && !alone();
  return std::max(inside, rotates_eight ? 112u : 0u);
}

uint32_t WgmmaProduct::first_registers() const {
  return std::min(65536 / ((row_groups * col_groups + 1) * 128) / 8 * 8, 248u);
}

uint32_t WgmmaProduct::registers() const {
  const uint32_t groups = row_groups * col_groups;
  if (!moves_registers()) return first_registers();
  // the pool is what all groups have at the start: a group that asks for more waits forever
  return std::min((first_registers() * (groups + 1) - few_registers) / groups / 8 * 8, 240u);
}

bool WgmmaProduct::fits() const {
  return steps * step_cols <= tile_cols && row_groups * col_groups <= 4 && divides() && shared_bytes() <= 226 * 1024 &&
         needed_registers() <= registers();
}

Kernel WgmmaProduct::build() const {
  check_fields(*this);
  if (steps * step_cols > tile_cols)
    throw Error("wgmma_product: a stage of {} columns is more than a tile of {}", steps * step_cols, tile_cols);
  if (!divides())
    throw Error("wgmma_product: {} stages of {} columns, {} in flight, do not divide by {} blocks of {} groups",
                filled_cols() / (steps * step_cols), steps * step_cols, stages, shares, col_groups);
  if (row_groups * col_groups > 4) throw Error("wgmma_product: {} warp groups, 4 at most", row_groups * col_groups);
  if (experts && shares > 1) throw Error("wgmma_product: experts are not shared by a cluster");
  if (experts && out != Product::store && out != Product::gate && out != Product::act)
    throw Error("wgmma_product: experts have no residual and no cache");
  if (y_bf16 && out != Product::gate && out != Product::act) throw Error("wgmma_product: y_bf16 is for act and gate");
  return WgmmaWriter(*this).write();
}

Grid WgmmaProduct::grid(const WgmmaArgs& args) const {
  check_fields(*this);
  if (args.cols == 0 || args.cols > filled_cols())
    throw Error("wgmma_product: {} columns, but {} slices of {} are {}", args.cols, slices, tile_cols, filled_cols());
  for (uint64_t address : {args.w.address, args.x.address})
    if (address % 16) throw Error("wgmma_product: x and w must be 16-byte aligned, found {:#x}", address);
  if (args.first_rows > args.rows) throw Error("wgmma_product: rows from {} of {}", args.first_rows, args.rows);
  if (out == Product::gate && args.rows % 4)
    throw Error("wgmma_product: {} rows of gate and up, expected a multiple of 4", args.rows);
  if (out == Product::qkv && args.page_size == 0) throw Error("wgmma_product: pages of 0 positions");
  if (args.blocks == 0) throw Error("wgmma_product: a grid of 0 blocks");
  if (experts) return {.x = args.blocks};
  const uint32_t along = (args.rows - args.first_rows + tile_rows() - 1) / tile_rows();
  const uint64_t tiles = uint64_t(along) * ((args.vectors + columns - 1) / columns);
  if (tiles * shares > 0x7fffffff) throw Error("wgmma_product: {} tiles are too many for a grid", tiles);
  if (shares > 1) return {.x = uint32_t(std::max<uint64_t>(tiles, 1)) * shares};
  return {.x = std::max(uint32_t(std::min<uint64_t>(args.blocks, tiles)), 1u)};
}

void add_wgmma_product_kernels(std::vector<Entry>& all) { all.push_back(entry<WgmmaProduct>()); }

}  // namespace heddle::kernels
