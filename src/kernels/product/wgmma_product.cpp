// A lane holds a piece (32 values) of rows g and g + 8 of the sixteen of its warp. Eight wgmma multiply 128 columns:
// each takes four values of every lane's piece, and x lies in shared memory in the order that agrees.
#include "kernels/product/wgmma_product.h"

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

using WgmmaProductArgs = Product::Args;

constexpr uint32_t step_cols = WgmmaProduct::step_cols;
constexpr uint32_t core = 8;            // vectors of a core matrix
constexpr uint32_t few_registers = 24;  // of the copying warps
constexpr uint32_t weight_warps = 3;    // that copy weights: each copy is an instruction of its own
constexpr uint32_t pad = 4;             // floats between the sums of two vectors: lanes store to different banks

class WgmmaWriter {
 public:
  explicit WgmmaWriter(const WgmmaProduct& s)
      : s_(s),
        out_(ending_of(s, core)),
        groups_(s.row_groups * s.col_groups),
        k_(std::string(WgmmaProduct::name),
           Launch{.threads = (groups_ + 1) * 128, .min_blocks = 1, .cluster = s.shares}),
        strip_(s.strip()),
        tile_(tile_bytes(s.weights())),
        run_bytes_(strip_.bytes * s.run),
        run_count_(s.filled_cols() / s.run_cols() / s.shares) {}

  Kernel write() {
    x_ring_ = k_.shared<uint8_t>(s_.stages * s_.stage_bytes(), 128);
    w_ring_ = k_.shared<uint8_t>(s_.runs * s_.run_bytes(), 128);
    // alone, each warp has factors of its own; else there are those of the next norm too
    scales_ = k_.shared<float>((s_.alone() ? groups_ * 4 : 2) * s_.columns);
    if (!s_.alone()) sums_ = k_.shared<float>(s_.sums_bytes() / 4);
    for (Ring* ring : {&x_, &w_}) {
      const uint32_t count = ring == &x_ ? s_.stages : s_.runs;
      *ring = {mbarriers(k_, count), mbarriers(k_, count), count / s_.col_groups};
    }
    chain_start(k_, s_.chained);
    k_.when(k_.thread() == groups_ * 128, [&] {
      for (Mbarrier b : x_.full) b.init(1u);
      for (Mbarrier b : w_.full) b.init(weight_warps);
      for (const Ring* ring : {&x_, &w_})
        for (Mbarrier b : ring->empty) b.init(s_.row_groups * 4);
      fence_mbarrier_init(k_);
    });
    book_ = TilePiece::codebook(k_, s_.weights());
    k_.barrier();
    w_tiles_ =
        (k_.arg(&WgmmaProductArgs::rows) - k_.arg(&WgmmaProductArgs::first_rows) + (strip_.rows - 1)) / strip_.rows;
    row_tiles_ = (k_.arg(&WgmmaProductArgs::rows) - k_.arg(&WgmmaProductArgs::first_rows) + (s_.tile_rows() - 1)) /
                 s_.tile_rows();
    U32 rank = s_.shares == 1 ? k_.constant(0u) : k_.cluster_rank();
    first_run_ = rank * run_count_;
    // The copying warps need few registers. They are not moved where all warps go on together.
    k_.when_else(
        k_.group() < groups_,
        [&] {
          if (s_.moves_registers()) take_registers(k_, s_.registers());
          work();
        },
        [&] {
          if (s_.moves_registers()) release_registers(k_, few_registers);
          k_.when(k_.warp() == groups_ * 4, [&] { bring_x(); });
          k_.when(k_.warp() > groups_ * 4, [&] { bring_weights(); });
        });
    if (s_.shares > 1) finish_cluster();
    return k_.finish();
  }

 private:
  // Rows [row, ...) of W times vectors [first, end).
  struct Tile {
    U32 row, first, end;
    Global<uint8_t> w;
    U32 expert{};
  };
  // The tiles of this block, the same in all of its warps.
  void each_tile(auto&& body) {
    U32 cluster = s_.shares == 1 ? k_.block_id() : k_.block_id() / s_.shares;
    U32 count = row_tiles_ * column_tiles();
    if (s_.shares > 1) return k_.when(cluster < count, [&] { body(tile(cluster), cluster); });  // one tile each
    k_.loop(cluster, count, k_.grid_x(), [&](U32 i) { body(tile(i), i); });
  }
  U32 column_tiles() {
    if (s_.experts) return k_.assume_uniform(load(k_.arg(&WgmmaProductArgs::tile_count)), Uniform::grid);
    return (k_.arg(&WgmmaProductArgs::vectors) + (s_.columns - 1)) / s_.columns;
  }
  Tile tile(U32 i) {
    Global<uint8_t> w = k_.arg(&WgmmaProductArgs::w);
    if (s_.experts) {
      U32 column = i / row_tiles_;
      auto at = (k_.arg(&WgmmaProductArgs::tiles) + column).template as<uint32_t>();
      auto uniform = [&](U32 v) { return k_.assume_uniform(v, Uniform::cluster); };
      U32 expert = uniform(load(at)), first = uniform(load(at.offset(1))), rows = uniform(load(at.offset(2)));
      return {(i - column * row_tiles_) * s_.tile_rows(), first, first + rows,
              w + widen(expert) * k_.arg(&WgmmaProductArgs::expert_bytes), expert};
    }
    // neighbouring blocks share weights or x: eight tiles of rows, then the next columns
    constexpr uint32_t side = 8;
    U32 columns = max(column_tiles(), 1u), band = i / (columns * side), in = i - band * (columns * side);
    U32 here = min(row_tiles_ - band * side, side), column = in / here, row = band * side + (in - column * here);
    U32 first = column * s_.columns;
    return {row * s_.tile_rows(), first, min(first + s_.columns, k_.arg(&WgmmaProductArgs::vectors)), w};
  }

  // Copies in flight, of which each warp group that shares the columns has its own.
  struct Ring {
    std::vector<Mbarrier> full, empty;
    uint32_t each = 0;  // of a group
  };
  // Number `number` of a group in its ring.
  struct Slot {
    U32 index, turn;
  };
  static Slot slot(const Ring& ring, U32 group, U32 number) {
    U32 turn = number / ring.each;
    return {group * ring.each + (number - turn * ring.each), turn};
  }
  Shared<uint8_t> x_at(U32 index) { return x_ring_ + index * s_.stage_bytes(); }
  Shared<uint8_t> w_at(U32 index) { return w_ring_ + index * s_.run_bytes(); }

  // --- the copying warps --------------------------------------------------------------------------------------------
  // f(tile, part, slot, full) for all `parts` of all runs, in the order of the groups, when there is room for
  // `bytes`.
  void each_copy(const Ring& ring, uint32_t parts, Arg<uint32_t> bytes, auto&& f) {
    auto before = k_.var(0u);  // copies so far, of each group
    each_tile([&](const Tile& t, U32) {
      k_.loop(0u, run_count_ * parts, 1u, [&](U32 i) {
        U32 run = i / parts, number = run / s_.col_groups, part = i - run * parts;
        U32 group = run - number * s_.col_groups;
        const Slot to = slot(ring, group, before.get() + number * parts + part);
        k_.when(to.turn > 0u, [&] { Mbarrier{ring.empty[0].at + to.index}.wait(k_, (to.turn - 1u) & 1u); });
        Mbarrier full{ring.full[0].at + to.index};
        k_.when(k_.lane() == 0u, [&] { full.arrive_expect_bytes(bytes); });
        k_.warp_sync();
        f(t, first_run_ * parts + i, to.index, full);
      });
      before += run_count_ / s_.col_groups * parts;
    });
  }
  void bring_x() {
    chain_wait(k_, s_.chained);
    each_copy(
        x_, s_.run_cols() / s_.stage_cols, s_.stage_bytes(), [&](const Tile& t, U32 stage, U32 index, Mbarrier full) {
          auto from = k_.arg(&WgmmaProductArgs::x) + mul_wide(t.first, s_.filled_cols() * 2);
          k_.when(k_.lane() == 0u,
                  [&] { bulk_load(x_at(index), from + mul_wide(stage, s_.stage_bytes()), s_.stage_bytes(), full); });
        });
  }
  // Before the preceding kernel has ended, unless it says which weights. A run of each tile row, one per lane; the
  // warps share the tile rows.
  void bring_weights() {
    if (s_.experts) chain_wait(k_, s_.chained);
    const uint32_t count = s_.tile_rows() / strip_.rows, in_slice = s_.tile_cols / s_.run_cols();
    U32 warp = k_.warp() - (groups_ * 4 + 1);
    U32 begin = warp * count / weight_warps, end = (warp + 1u) * count / weight_warps;
    each_copy(w_, 1, (end - begin) * run_bytes_, [&](const Tile& t, U32 run, U32 index, Mbarrier full) {
      U32 slice = run / in_slice, at = slice * tile_ + (run - slice * in_slice) * run_bytes_;
      k_.loop(begin + k_.lane(), end, 32u, [&](U32 i) {
        // padding rows have the weights of other rows, and their sums are not used
        U32 w_tile = min(t.row / strip_.rows + i, w_tiles_ - 1u);
        bulk_load(w_at(index) + i * run_bytes_, t.w + (mul_wide(w_tile, s_.slices * tile_) + widen(at)), run_bytes_,
                  full);
      });
    });
  }

  // --- the warp groups ----------------------------------------------------------------------------------------------
  // This lane's piece of rows g and g + 8 of its warp's sixteen, in a step of 128 columns of a run.
  struct Rows {
    U32 row[2];   // in its tile of weights
    U32 tile[2];  // bytes of a run before it
  };
  Rows rows_of_lane(U32 row_group) {
    Rows rows;
    for (uint32_t half = 0; half < 2; ++half) {
      U32 row = row_group * 64u + (k_.warp() & 3u) * 16u + (k_.lane() >> 2u) + half * 8u;
      rows.row[half] = row % strip_.rows;
      rows.tile[half] = row / strip_.rows * run_bytes_;
    }
    return rows;
  }
  TilePiece piece(const Rows& rows, uint32_t half, uint32_t step) {
    return TilePiece::in_strip(k_, s_.weights(), s_.tile_cols, rows.row[half], (k_.lane() & 3u) + step * 4u, book_);
  }
  // Both rows' values of a step.
  class Operands {
   public:
    explicit Operands(Code& k) {
      for (uint32_t i = 0; i < 32; ++i) words_.push_back(k.var(0u));
    }
    void set(uint32_t half, const std::vector<U32>& halves) {
      for (uint32_t i = 0; i < 16; ++i) words_[half * 16 + i] = halves[i];
    }
    void set(const Operands& other) {
      for (uint32_t i = 0; i < 32; ++i) words_[i] = other.words_[i].get();
    }
    U32 get(uint32_t half, uint32_t i) const { return words_[half * 16 + i].get(); }

   private:
    std::vector<Var<uint32_t>> words_;
  };

  void work() {
    if (s_.experts) chain_wait(k_, s_.chained);
    U32 row_group = s_.row_groups == 1 ? k_.constant(0u) : k_.group() % s_.row_groups;
    U32 col_group = s_.col_groups == 1 ? k_.constant(0u) : k_.group() / s_.row_groups;
    GroupSums acc(k_, s_.columns);
    const Rows rows = rows_of_lane(row_group);
    Pred first_lane = k_.lane() == 0u;
    auto release = [&](const Ring& ring, U32 index) {
      k_.when(first_lane, [&] { Mbarrier{ring.empty[0].at + index}.arrive(); });
    };
    // what this group reads next
    struct Reading {
      Var<uint32_t> index, parity;
    };
    Reading x{k_.var(col_group * x_.each), k_.var(0u)}, w{k_.var(col_group * w_.each), k_.var(0u)};
    auto await = [&](const Ring& ring, Reading& at) {
      U32 index = at.index.get();
      Mbarrier{ring.full[0].at + index}.wait(k_, at.parity.get());
      U32 next = index + 1u, end = (col_group + 1u) * ring.each;
      Pred wraps = next == end;
      at.index = select(wraps, end - ring.each, next);
      at.parity = at.parity.get() ^ select(wraps, k_.constant(1u), 0u);
      return index;
    };
    const uint32_t steps = s_.run_cols() / step_cols, count = run_count_ / s_.col_groups;
    auto w_index = k_.var(0u);
    std::vector<Operands> operands;
    for (uint32_t i = 0; i <= s_.early; ++i) operands.emplace_back(k_);
    auto unpack = [&](uint32_t step, Operands& to) {
      if (step == 0) w_index = await(w_, w);
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t strip_steps = strip_.cols / step_cols;
        const TilePiece own = piece(rows, half, step % strip_steps);
        auto strip = (w_at(w_index.get()) + rows.tile[half]).offset(step / strip_steps * strip_.bytes);
        to.set(half, own.halves(own.raw(strip)));
      }
      if (step + 1 < steps) return;
      k_.warp_sync();  // all lanes have their words of the run
      release(w_, w_index.get());
    };
    each_tile([&](const Tile& t, U32) {
      for (uint32_t i = 0; i < s_.columns / 2; ++i) acc.set(i, 0.0f);
      if (s_.early) unpack(0, operands[0]);
      if (!s_.experts) chain_wait(k_, s_.chained);
      bring_scales(t);
      k_.loop(0u, count, 1u, [&](U32 number) {
        U32 x_index;
        for (uint32_t step = 0; step < steps; ++step) {
          Operands& now = operands[s_.early ? step % 2 : 0];
          if (!s_.early) unpack(step, now);
          // a stage is a part of a step, or has several
          const uint32_t parts = std::max(step_cols / s_.stage_cols, 1u), products = 8 / parts;
          std::vector<U32> used;
          for (uint32_t part = 0; part < parts; ++part) {
            if (step * step_cols % s_.stage_cols == 0) x_index = await(x_, x);
            used.push_back(x_index);
            multiply(acc, now, part * products, products, x_index, step * step_cols % s_.stage_cols / 16);
          }
          if (s_.early) {
            const uint32_t next = (step + 1) % steps;
            Operands& then = operands[(step + 1) % 2];
            next ? unpack(next, then) : k_.when(number + 1u < count, [&] { unpack(next, then); });
          }
          const bool ends = (step + 1) * step_cols % s_.stage_cols == 0;
          for (uint32_t part = 0; part < parts; ++part) {
            wgmma_wait(k_, parts - 1 - part);  // meanwhile the other groups' products run
            if (ends) release(x_, used[part]);
          }
        }
        if (s_.early && steps % 2) operands[0].set(operands[1]);
      });
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
  // Products first to first + count of a step's eight, with x from product `in_stage` of its stage on.
  void multiply(GroupSums& acc, const Operands& w, uint32_t first, uint32_t count, U32 x_index, uint32_t in_stage) {
    U64 x = matrix_descriptor(x_at(x_index), s_.columns * 16, 128, Swizzle::none);
    std::vector<std::array<U32, 4>> a;
    for (uint32_t i = first; i < first + count; ++i)
      a.push_back({w.get(0, 2 * i), w.get(1, 2 * i), w.get(0, 2 * i + 1), w.get(1, 2 * i + 1)});
    wgmma_fence(k_);
    for (uint32_t n = 0; n < count; ++n) {
      const uint64_t at = uint64_t(in_stage + n) * s_.columns * 32 >> 4;
      wgmma<heddle::f16>(acc, a[n], at ? x + at : x, true);
    }
    wgmma_commit(k_);
  }

  // --- endings ------------------------------------------------------------------------------------------------------
  // The vectors' factors are brought before the sums are computed. Alone, a warp finishes its sixteen rows by itself.
  Shared<float> own_scales() { return scales_ + k_.warp() * s_.columns; }
  void bring_scales(const Tile& t) {
    const uint32_t together = s_.alone() ? 32 : groups_ * 128;
    auto to = s_.alone() ? own_scales() : scales_;
    U32 thread = s_.alone() ? k_.lane() : k_.thread();
    Pred first = t.row == 0u && k_.warp() < together / 32;
    for (uint32_t v = 0; v < s_.columns; v += together) {
      auto one = [&] {
        U32 vector = min(t.first + v + thread, t.end - 1u);
        F32 factor = vector_factor(k_, s_.late_norm, vector, first) * (1 / TilePiece::half_factor(s_.weights()));
        store(to + (thread + v), factor);
        if (!s_.alone() && s_.next_apart)
          store(next_scales() + (thread + v), load_scale(k_.arg(&WgmmaProductArgs::next_squares) + vector));
      };
      s_.columns < together ? k_.when(thread < s_.columns, one) : one();
    }
  }
  Shared<float> next_scales() { return scales_.offset(s_.columns); }
  void finish_alone(const Tile& t, const GroupSums& acc, U32 row_group) {
    U32 first_row = k_.arg(&WgmmaProductArgs::first_rows) + t.row + row_group * 64u + (k_.warp() & 3u) * 16u;
    k_.warp_sync();  // other lanes brought the factors
    GroupEnding(k_, out_, own_scales()).write(acc, s_.columns, first_row, t.first, t.end, t.expert);
    k_.warp_sync();
  }

  // All sums of a tile, the col groups one after the other.
  void keep_sums(const GroupSums& acc, U32 row_group, U32 col_group) {
    const uint32_t stride = s_.tile_rows() + pad;
    auto mine = sums_ + (col_group * (s_.columns * stride) + row_group * 64u + (k_.warp() & 3u) * 16u +
                         (k_.lane() >> 2u) + (k_.lane() & 3u) * (2 * stride));
    for (uint32_t n = 0; n < s_.columns; n += 8)
      for (uint32_t i = 0; i < 4; ++i) store(mine.offset((n + i % 2) * stride + i / 2 * 8), acc.get(n / 2 + i));
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
        U32 row = k_.arg(&WgmmaProductArgs::first_rows) + t.row + in_rows;
        ProductOut out(k_, out_, k_.arg(&WgmmaProductArgs::y), vector, t.end);
        out.set_next_scales(next_scales() + in_tile);
        if (s_.experts && s_.bias) out.set_experts({{t.expert}});
        out.prepare(row, row < k_.arg(&WgmmaProductArgs::rows));
        auto at = sums_ + (in_tile * stride + in_rows);
        for (uint32_t v = 0; v < core; ++v) {
          F32 sum;
          for (uint32_t share = 0; share < s_.shares; ++share)
            for (uint32_t c = 0; c < s_.col_groups; ++c) {
              auto one = at.offset(v * stride + c * s_.columns * stride);
              F32 part = s_.shares == 1 ? load(one) : load(in_block(one, share));
              sum = share + c ? sum + part : part;
            }
          out.write(v, sum * load((scales_ + in_tile).offset(v)));
        }
      });
    });
  }

  const WgmmaProduct& s_;
  const Product out_;
  const uint32_t groups_;  // of four warps that compute
  Builder<WgmmaProductArgs> k_;
  const TileStrip strip_;
  const uint32_t tile_, run_bytes_;  // a run of one tile row
  const uint32_t run_count_;         // of a block
  Shared<uint8_t> x_ring_, w_ring_;
  Shared<float> sums_, scales_;
  Ring x_, w_;
  U32 w_tiles_, row_tiles_;  // tiles of weights, and of the product, along the rows
  U32 first_run_;            // of this block
  Codebook book_;
};

}  // namespace

uint32_t WgmmaProduct::sums_bytes() const {
  if (alone()) return 0;
  return col_groups * columns * (tile_rows() + pad) * 4;
}

uint32_t WgmmaProduct::shared_bytes() const {
  const size_t book = quant::is_float(weights()) ? 0 : block_format(weights()).book().size() * 4;
  const uint32_t factors = columns * (alone() ? row_groups * 16 : 8);  // of the vectors, for each warp or for all
  return stages * (stage_bytes() + 16) + runs * (run_bytes() + 16) + sums_bytes() + factors + uint32_t(book) + 1024;
}

bool WgmmaProduct::divides() const {
  return strip().cols % stage_cols == 0 && tile_cols % run_cols() == 0 &&
         filled_cols() / run_cols() % (shares * col_groups) == 0 && stages % col_groups == 0 && runs % col_groups == 0;
}

// Found by trial: the sums, the operands of a step, and the words of the next one.
uint32_t WgmmaProduct::needed_registers() const {
  const uint32_t bits = tile_bytes(weights()) * 8 / tile_values, words = quant::is_float(weights()) ? bits : bits + 4;
  // those of the next tile are there during the ending of an expert's
  const uint32_t inside = columns / 2 + 56 + 2 * words + early * 32 + (experts && bias ? 4 : 0);
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
  return row_groups * col_groups <= 4 && divides() && shared_bytes() <= 226 * 1024 && needed_registers() <= registers();
}

Kernel WgmmaProduct::build() const {
  check_fields(*this);
  if (strip().cols % stage_cols)
    throw Error("wgmma_product: strips of {} columns are not stages of {}", strip().cols, stage_cols);
  if (tile_cols % run_cols())
    throw Error("wgmma_product: runs of {} columns do not divide a tile of {}", run_cols(), tile_cols);
  if (!divides())
    throw Error("wgmma_product: {} runs, {} of them and {} stages in flight, do not divide by {} blocks of {} groups",
                filled_cols() / run_cols(), runs, stages, shares, col_groups);
  if (row_groups * col_groups > 4) throw Error("wgmma_product: {} warp groups, 4 at most", row_groups * col_groups);
  if (experts && shares > 1) throw Error("wgmma_product: experts are not shared by a cluster");
  check_ending(*this);
  return WgmmaWriter(*this).write();
}

Grid WgmmaProduct::grid(const WgmmaProductArgs& args) const {
  check_fields(*this);
  check_matrix_args(*this, args);
  if (experts) return {.x = args.blocks};
  const uint32_t along = (args.rows - args.first_rows + tile_rows() - 1) / tile_rows();
  const uint64_t tiles = uint64_t(along) * ((args.vectors + columns - 1) / columns);
  if (tiles * shares > 0x7fffffff) throw Error("wgmma_product: {} tiles are too many for a grid", tiles);
  if (shares > 1) return {.x = uint32_t(std::max<uint64_t>(tiles, 1)) * shares};
  return {.x = std::max(uint32_t(std::min<uint64_t>(args.blocks, tiles)), 1u)};
}

void add_wgmma_product_kernels(std::vector<Entry>& all) { all.push_back(entry<WgmmaProduct>()); }

}  // namespace heddle::kernels
