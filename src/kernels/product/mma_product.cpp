// A lane holds a piece (32 values) of two rows of W and of the same columns of a vector. The matrix unit adds over four
// lanes and four values of each at a time; which columns those are does not matter, as long as W and x agree.
#include "kernels/product/mma_product.h"

#include <algorithm>
#include <array>

#include "kernels/product/activations.h"
#include "kernels/product/product_io.h"
#include "kernels/product/tile.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/async.h"
#include "ptx/matrix.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using MmaArgs = Product::Args;
using A = Tile<heddle::f16, 16, 16>;
using B = Tile<heddle::f16, 16, 8>;

constexpr uint32_t team = 8;  // warps
constexpr uint32_t kept = 4;  // sums of a band that lie side by side

class MmaWriter {
 public:
  explicit MmaWriter(const MmaProduct& s)
      : s_(s),
        out_(ending_of(s)),
        compute_(team * s.teams),
        // with bulk copies one more warp starts them
        k_(std::string(MmaProduct::name),
           Launch{.threads = (compute_ + (s.copies == copies_bulk)) * 32, .min_blocks = s.resident}),
        tile_rows_(tile_values / s.tile_cols),
        band_tiles_(s.band / tile_rows_),
        tile_(tile_bytes(s.weights())),
        row_bytes_(s.slices_per_stage() * tile_),
        weight_bytes_(s.direct ? 0 : band_tiles_ * row_bytes_),
        x_bytes_(s.columns * MmaProduct::stage_cols * 2),
        stride_(s.band + 4) {}  // four lanes that store neighbouring vectors use different banks

  Kernel write() {
    ring_ = k_.shared<uint8_t>(s_.stages * (weight_bytes_ + x_bytes_), 128);
    sums_ = k_.shared<float>(kept * s_.columns * stride_);
    factors_ = k_.shared<float>(2 * s_.columns);
    if (bulk()) {
      full_ = mbarriers(k_, s_.stages);
      empty_ = mbarriers(k_, s_.stages);
    }
    chain_start(k_, s_.chained);
    if (s_.experts || !bulk()) chain_wait(k_, s_.chained);  // the tiles are another kernel's
    share_out();
    book_ = TilePiece::codebook(k_, s_.weights());
    if (!bulk()) {
      k_.barrier();
      work();
      return k_.finish();
    }
    k_.when(k_.thread() == compute_ * 32, [&] {
      for (auto& b : full_) b.init(1u);
      for (auto& b : empty_) b.init(compute_);
      fence_mbarrier_init(k_);
    });
    k_.barrier();
    k_.when_else(
        k_.warp() < compute_, [&] { work(); }, [&] { k_.when(k_.lane() == 0u, [&] { bring(); }); });
    return k_.finish();
  }

 private:
  bool bulk() const { return s_.copies == copies_bulk; }

  // Of the tile rows of the matrix, or with experts of the bands of all tiles.
  void share_out() {
    U32 rows = k_.arg(&MmaArgs::rows) - k_.arg(&MmaArgs::first_rows);
    w_tiles_ = (rows + (tile_rows_ - 1)) / tile_rows_;
    U32 all = w_tiles_;
    if (s_.experts) {
      matrix_bands_ = (w_tiles_ + (band_tiles_ - 1)) / band_tiles_;
      all = matrix_bands_ * k_.assume_uniform(load(k_.arg(&MmaArgs::tile_count)), Uniform::grid);
    }
    U32 each = all / k_.grid_x(), more = all % k_.grid_x();
    first_ = k_.block_id() * each + min(k_.block_id(), more);
    count_ = each + select(k_.block_id() < more, k_.constant(1u), 0u);
    bands_ = s_.experts ? count_ : (count_ + (band_tiles_ - 1)) / band_tiles_;
  }
  // A band of this block, and the vectors [begin, end) that it is multiplied with.
  struct Band {
    Global<uint8_t> w;  // the matrix
    U32 first, tiles;   // tile rows; `tiles` may be more than a band's
    U32 group;          // of vectors
    U32 begin, end;
    U32 expert{};
  };
  Band band_at(U32 number) {
    if (!s_.experts)
      return {k_.arg(&MmaArgs::w), first_ + number * band_tiles_, count_ - number * band_tiles_,
              k_.block_y(),        k_.block_y() * s_.columns,     k_.arg(&MmaArgs::vectors)};
    U32 tile = (first_ + number) / matrix_bands_, first = (first_ + number - tile * matrix_bands_) * band_tiles_;
    auto at = (k_.arg(&MmaArgs::tiles) + tile).template as<uint32_t>();
    auto uniform = [&](U32 v) { return k_.assume_uniform(v); };
    U32 expert = uniform(load(at)), begin = uniform(load(at.offset(1))), vectors = uniform(load(at.offset(2)));
    return {k_.arg(&MmaArgs::w) + widen(expert) * k_.arg(&MmaArgs::expert_bytes),
            first,
            w_tiles_ - first,
            begin / s_.columns,
            begin,
            begin + vectors,
            expert};
  }

  // The stages in order: all of a band, then the next band's.
  struct Place {
    Var<uint32_t> stage, parity;
  };
  Place place() { return {k_.var(0u), k_.var(0u)}; }
  void go_on(Place& at) {
    U32 s = at.stage.get();
    Pred wrap = s == s_.stages - 1;
    at.stage = select(wrap, k_.constant(0u), s + 1u);
    at.parity = at.parity.get() ^ select(wrap, k_.constant(1u), 0u);
  }
  Shared<uint8_t> stage(U32 index) { return ring_ + index * (weight_bytes_ + x_bytes_); }
  // Slices of a step: all but the last are whole.
  U32 slices_of(U32 step) { return min(s_.slices - step * s_.slices_per_stage(), s_.slices_per_stage()); }

  void bring_weights(U32 s, U32 band, U32 step) {
    Mbarrier full{full_[0].at + s};
    const Band b = band_at(band);
    U32 here = min(b.tiles, band_tiles_), slices = slices_of(step);
    U32 bytes = slices * tile_;
    full.arrive_expect_bytes(here * bytes + slices * (s_.columns * s_.tile_cols * 2));
    k_.loop(0u, here, 1u, [&](U32 i) {
      U32 tile = (b.first + i) * s_.slices + step * s_.slices_per_stage();
      bulk_load(stage(s) + i * row_bytes_, b.w + mul_wide(tile, tile_), bytes, full);
    });
  }
  void bring_x(U32 s, U32 band, U32 step) {
    const uint64_t group = uint64_t(s_.slices) * s_.tile_cols * s_.columns * 2;
    auto from = k_.arg(&MmaArgs::x) + (widen(band_at(band).group) * group + widen(step * x_bytes_));
    bulk_load((stage(s)).offset(weight_bytes_), from, slices_of(step) * (s_.columns * s_.tile_cols * 2),
              Mbarrier{full_[0].at + s});
  }
  // One group of copies by all threads: stage `index` of all bands, as far as there is one.
  void copy(U32 index, U32 slot) {
    k_.when(index < bands_ * s_.steps(), [&] {
      U32 number = index / s_.steps(), step = index - number * s_.steps(), slices = slices_of(step);
      const Band b = band_at(number);
      auto to = stage(slot);
      auto pieces = [&](uint32_t count, auto&& one) {  // of 16 bytes
        for (uint32_t i = 0; i < count; i += k_.threads()) {
          U32 piece = k_.thread() + i;
          i + k_.threads() <= count ? one(piece) : k_.when(piece < count, [&] { one(piece); });
        }
      };
      if (!s_.direct) {
        const uint32_t row_pieces = row_bytes_ / 16;
        U32 here = min(b.tiles, band_tiles_), in_row = slices * (tile_ / 16);
        auto w = b.w + mul_wide(b.first * s_.slices + step * s_.slices_per_stage(), tile_);
        pieces(band_tiles_ * row_pieces, [&](U32 piece) {
          U32 row = piece / row_pieces, in = piece - row * row_pieces;
          k_.when(row < here && in < in_row,
                  [&] { copy_async<16>(to + piece * 16u, w + (mul_wide(row, s_.slices * tile_) + widen(in * 16u))); });
        });
      }
      const uint64_t group = uint64_t(s_.slices) * s_.tile_cols * s_.columns * 2;
      auto x = k_.arg(&MmaArgs::x) + (widen(b.group) * group + widen(step * x_bytes_));
      U32 of_x = slices * (s_.columns * s_.tile_cols * 2 / 16);
      pieces(x_bytes_ / 16, [&](U32 piece) {
        k_.when(piece < of_x, [&] { copy_async<16>((to + piece * 16u).offset(weight_bytes_), x + piece * 16u); });
      });
    });
    copy_commit(k_);
  }

  void bring() {
    const uint32_t steps = s_.steps();
    U32 all = bands_ * steps;
    // the weights of the first stages are requested before the preceding kernel has ended
    for (uint32_t i = 0; i < s_.stages; ++i)
      k_.when(all > i, [&] { bring_weights(k_.constant(i), k_.constant(i / steps), k_.constant(i % steps)); });
    if (!s_.experts) chain_wait(k_, s_.chained);
    for (uint32_t i = 0; i < s_.stages; ++i)
      k_.when(all > i, [&] { bring_x(k_.constant(i), k_.constant(i / steps), k_.constant(i % steps)); });
    Place at = place();
    k_.loop(k_.constant(s_.stages), all, 1u, [&](U32 i) {
      U32 s = at.stage.get(), band = i / steps, step = i % steps;
      Mbarrier{empty_[0].at + s}.wait(k_, at.parity.get());
      bring_weights(s, band, step);
      bring_x(s, band, step);
      go_on(at);
    });
  }

  // Of the vectors of a band, and with next_apart their scales at the next norm, by the first warp. Without experts all
  // bands have the same.
  void bring_factors(const Band& band) {
    k_.when(k_.thread() < s_.columns, [&] {
      U32 vector = min(band.begin + k_.thread(), band.end - 1u);
      F32 factor = vector_factor(k_, s_.late_norm, vector, k_.block_id() == 0u);
      store(factors_ + k_.thread(), factor * (1 / TilePiece::half_factor(s_.weights())));
      if (s_.next_apart) store(next_scales() + k_.thread(), load_scale(k_.arg(&MmaArgs::next_squares) + vector));
    });
  }
  Shared<float> next_scales() { return factors_.offset(s_.columns); }

  void work() {
    if (!s_.experts && bulk()) chain_wait(k_, s_.chained);
    const uint32_t ahead = s_.stages - 1;
    for (uint32_t i = 0; !bulk() && i < ahead; ++i) copy(k_.constant(i), k_.constant(i));
    if (!s_.experts) bring_factors(band_at(k_.constant(0u)));
    const uint32_t tiles = s_.band / 16 / s_.teams, along = s_.columns / 8;  // tiles: 16 rows, every teams-th
    U32 part = k_.warp() & (team - 1), mine = k_.warp() / team;
    std::vector<Acc<float, 16, 8>> acc;
    for (uint32_t i = 0; i < tiles * along; ++i) acc.emplace_back(k_);
    // this warp's columns in a stage, and this lane's piece of them
    U32 group = k_.lane() >> 2u, in_slice = part * 128u % s_.tile_cols;
    U32 slice = part * 128u / s_.tile_cols, piece = in_slice / 32u + (k_.lane() & 3u);
    const uint32_t row_pieces = s_.tile_cols / 32;
    // rows g and g + 8 of 16; where a tile has fewer rows than that, the second is in another tile at the same place
    U32 row_in_tile = group % tile_rows_;
    std::vector<TilePiece> pieces;
    for (uint32_t half = 0; half < (tile_rows_ == 16 ? 2u : 1u); ++half)
      pieces.emplace_back(k_, s_.weights(), s_.tile_cols, (row_in_tile + half * 8u) * row_pieces + piece, book_);
    U32 tile_of_lane = (mine * 16u + group) / tile_rows_;
    // this lane's row of the core matrices of the first two of the warp's eight steps
    U32 x_at = ((part * 16u + (k_.lane() >> 3u)) * s_.columns + (k_.lane() & 7u)) * 16u + weight_bytes_;

    Place at = place();
    k_.loop(0u, bands_, 1u, [&](U32 number) {
      for (auto& a : acc)
        for (uint32_t i = 0; i < 4; ++i) a.set(i, 0.0f);
      const Band band = band_at(number);
      if (s_.experts) bring_factors(band);
      U32 here = band.tiles * tile_rows_;  // rows, may be more than the band
      U32 last = min(band.tiles, band_tiles_) - 1u;
      k_.loop(0u, s_.steps(), 1u, [&](U32 step) {
        U32 s = at.stage.get();
        if (bulk()) {
          Mbarrier{full_[0].at + s}.wait(k_, at.parity.get());
        } else {
          copy_wait(k_, ahead - 1);
          k_.barrier(1, compute_ * 32);  // the stage is there, and all are done with the one before it
          copy(number * s_.steps() + step + ahead, select(s == 0u, k_.constant(ahead), s - 1u));
        }
        auto from = stage(s);
        auto all_tiles = [&] {
          for (uint32_t t = 0; t < tiles; ++t) {
            // padding rows read the weights of other rows, and their sums are not used
            auto row = [&](uint32_t half) {
              return min(tile_of_lane + (t * s_.teams * 16 + half * 8) / tile_rows_, last);
            };
            auto weights = [&](uint32_t half) { return from + (row(half) * row_bytes_ + slice * tile_); };
            auto in_memory = [&](uint32_t half) {
              U32 number_of_tile = (band.first + row(half)) * s_.slices + step * s_.slices_per_stage() + slice;
              return band.w + mul_wide(number_of_tile, tile_);
            };
            auto one = [&] {
              s_.direct ? tile(acc, t, from, pieces, in_memory, x_at) : tile(acc, t, from, pieces, weights, x_at);
            };
            t == 0 && s_.teams == 1 ? one() : k_.when(here > (t * s_.teams + mine) * 16u, one);
          }
        };
        // the last step may have fewer slices
        if (s_.slices % s_.slices_per_stage())
          k_.when(slice < slices_of(step), all_tiles);
        else
          all_tiles();
        if (bulk()) {
          k_.warp_sync();
          k_.when(k_.lane() == 0u, [&] { Mbarrier{empty_[0].at + s}.arrive(); });
        }
        go_on(at);
      });
      add_up(acc);
      finish(band, here);
    });
  }

  // 16 rows times all vectors.
  void tile(std::vector<Acc<float, 16, 8>>& acc, uint32_t t, Shared<uint8_t> from, const std::vector<TilePiece>& pieces,
            auto&& weights, U32 x_at) {
    const auto upper = pieces[0].halves(pieces[0].raw(weights(0)));
    const auto lower = pieces.back().halves(pieces.back().raw(weights(tile_rows_ == 16 ? 0 : 1)));
    const uint32_t along = s_.columns / 8;
    for (uint32_t n = 0; n < along; ++n)
      for (uint32_t c = 0; c < 4; ++c) {
        const auto x = load_matrices<4>((from + x_at).offset((c * 4 * s_.columns + n * 8) * 16));
        for (uint32_t j : {0u, 2u}) {
          const uint32_t i = c * 4 + j;
          mma(acc[t * along + n], A{{upper[i], lower[i], upper[i + 1], lower[i + 1]}}, B{{x[j], x[j + 1]}});
        }
      }
  }

  // Adds the eight warps' sums: first those of warps i and i + 4, then these four.
  void add_up(const std::vector<Acc<float, 16, 8>>& acc) {
    const uint32_t along = s_.columns / 8;
    U32 part = k_.warp() & (team - 1);
    auto mine = sums_ + (k_.warp() & (kept - 1)) * (s_.columns * stride_) + k_.warp() / team * 16u + (k_.lane() >> 2u) +
                (k_.lane() & 3u) * (2 * stride_);
    auto each = [&](auto&& f) {
      for (uint32_t t = 0; t < s_.band / 16 / s_.teams; ++t)
        for (uint32_t n = 0; n < along; ++n)
          for (uint32_t i = 0; i < 4; ++i)
            f(mine.offset((n * 8 + i % 2) * stride_ + t * s_.teams * 16 + i / 2 * 8), acc[t * along + n].get(i));
    };
    k_.when(part >= kept, [&] { each([&](auto at, F32 v) { store(at, v); }); });
    k_.barrier(1, compute_ * 32);
    k_.when(part < kept, [&] { each([&](auto at, F32 v) { store(at, v + load(at)); }); });
    k_.barrier(1, compute_ * 32);
  }

  void finish(const Band& band, U32 here) {
    // a warp takes 32 rows of a vector at a time
    const uint32_t groups = (s_.band + 31) / 32, turns = s_.columns * groups;
    for (uint32_t c = 0; c < turns; c += compute_) {
      U32 turn = k_.warp() + c, column = turn / groups, vector = band.begin + column;
      k_.when(turn < turns && vector < band.end, [&] {
        ProductOut out(k_, out_, k_.arg(&MmaArgs::y), vector);
        out.set_next_scales(next_scales() + column);
        if (s_.experts && s_.bias) out.set_experts({{band.expert}});
        U32 in_band = k_.lane() + turn % groups * 32u;
        U32 row = k_.arg(&MmaArgs::first_rows) + band.first * tile_rows_ + in_band;
        Pred mine = in_band < min(here, s_.band) && row < k_.arg(&MmaArgs::rows);
        out.prepare(row, mine);
        auto sum = k_.var(0.0f);
        k_.when(mine, [&] {
          auto at = sums_ + column * stride_ + in_band;
          sum = load(at);
          for (uint32_t i = 1; i < kept; ++i) sum += load(at.offset(i * s_.columns * stride_));
        });
        out.write(0, sum.get() * load(factors_ + column));
      });
    }
    k_.barrier(1, compute_ * 32);
  }

  const MmaProduct& s_;
  const Product out_;
  const uint32_t compute_;  // warps
  Builder<MmaArgs> k_;
  const uint32_t tile_rows_, band_tiles_, tile_, row_bytes_, weight_bytes_, x_bytes_, stride_;
  Shared<uint8_t> ring_;
  Shared<float> sums_, factors_;
  std::vector<Mbarrier> full_, empty_;
  U32 first_, count_, bands_;   // of this block: tile rows, or with experts bands, and the number of bands
  U32 w_tiles_, matrix_bands_;  // tile rows and bands of a matrix
  Codebook book_;
};

}  // namespace

uint32_t MmaProduct::shared_bytes() const {
  const uint32_t weight_bytes =
      direct ? 0 : band / (tile_values / tile_cols) * slices_per_stage() * tile_bytes(weights());
  const uint32_t stage = weight_bytes + columns * stage_cols * 2;
  return codebook_bytes(weights()) + stages * (stage + 16) + kept * columns * (band + 4) * 4 + columns * 8 + 1024;
}

bool MmaProduct::fits(const GpuLimits& gpu) const {
  // Found by trial: with more than 32 sums per thread some formats spill. Registers are allocated to four warps at a
  // time.
  const uint32_t sums = band / 16 / teams * (columns / 8) * 4, registers = 64 + sums + (columns > 8 ? 8 : 0);
  const uint32_t warps = (team * teams + 1 + 3) / 4 * 4;
  return band / 16 % teams == 0 && shared_bytes() <= (gpu.shared_per_block - 1024) / resident && sums <= 32 &&
         warps * 32 * resident <= gpu.threads_per_sm && registers <= 65536 / (warps * 32 * resident) / 8 * 8;
}

Kernel MmaProduct::build() const {
  check_fields(*this);
  if (band / 16 % teams) throw Error("mma_product: {} teams share {} rows by sixteens", teams, band);
  if (band % (tile_values / tile_cols)) throw Error("mma_product: bands of {} rows are no whole tiles", band);
  check_ending(*this);
  if (direct && copies != copies_async) throw Error("mma_product: direct is for copies = async");
  if (stages < 2 && copies == copies_async) throw Error("mma_product: copies = async needs two stages");
  return MmaWriter(*this).write();
}

Grid MmaProduct::grid(const MmaArgs& args) const {
  check_fields(*this);
  check_matrix_args(*this, args);
  return {.x = args.blocks, .y = experts ? 1 : std::max((args.vectors + columns - 1) / columns, 1u)};
}

MmaProduct mma_product_choice(const MmaProduct& what, uint32_t rows, uint32_t cols, uint32_t vectors, uint32_t sms,
                              const GpuLimits& gpu) {
  MmaProduct s = what;
  s.tile_cols = tile_cols_for(cols);
  s.slices = (cols + s.tile_cols - 1) / s.tile_cols;
  const uint32_t tile_rows = tile_values / s.tile_cols;
  const uint32_t wide = vectors <= 8 ? 8 : vectors <= 16 ? 16 : 32;
  // An H200 was fastest with sixteen warps per SM: two blocks where they fit, which hide each other's waits, else one
  // block with two teams, so that x, the larger part of a stage by then, is stored once.
  struct Way {
    uint32_t teams, resident;
  };
  for (s.columns = wide; s.columns >= 8; s.columns /= 2)
    for (const Way way :
         s.columns == 8 ? std::array{Way{1, 2}, Way{2, 1}, Way{1, 1}} : std::array{Way{2, 1}, Way{1, 2}, Way{1, 1}}) {
      s.teams = way.teams;
      s.resident = way.resident;
      const uint32_t share = (rows + sms * s.resident - 1) / (sms * s.resident);  // rows of a block
      for (s.band = 64; s.band >= 16; s.band -= 16)
        for (s.stages = 4; s.stages >= 2; --s.stages)
          if (s.band % tile_rows == 0 && (s.band <= 16 * s.teams || s.band - 16 < share) && s.fits(gpu)) return s;
    }
  if (!what.direct) {  // weights need not fit
    s = what;
    s.copies = copies_async;
    s.direct = 1;
    return mma_product_choice(s, rows, cols, vectors, sms, gpu);
  }
  throw Error("mma_product: {} vectors of {} values do not fit", vectors, cols);
}

void add_mma_product_kernels(std::vector<Entry>& all) {
  all.push_back(entry<MmaProduct>());
  all.push_back(preset<MmaProduct>("async_mma_product", "the same without bulk copies",
                                   {.band = 16, .copies = copies_async}, "sm_75"));
}

}  // namespace heddle::kernels
