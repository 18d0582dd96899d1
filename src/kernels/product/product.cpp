// Each block takes an even share of the tile rows, in units of up to 16 or 32 rows. Each computing warp has its own
// ring of tiles, filled before the kernel waits for its predecessor, so that no warp waits for another; partial sums go
// to the finishing warp through two alternating buffers.
#include "kernels/product/product.h"

#include <algorithm>
#include <optional>

#include "kernels/attention/kv_cache.h"
#include "kernels/product/product_io.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/async.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using Args = Product::Args;

class ProductWriter {
 public:
  explicit ProductWriter(const Product& s)
      : s_(s),
        k_(std::string(Product::name), Launch{.threads = s.warps() * 32, .min_blocks = s.resident}),
        tile_rows_(tile_values / s.tile_cols),
        unit_rows_(s.unit),
        unit_tiles_(unit_rows_ / tile_rows_),
        across_(s.slices / s.per_warp),
        compute_(across_ * s.groups),
        each_(s.experts && !s.summed) {
    segments_.push_back({s.weights(), tile_bytes(s.weights()), s.groups, s.depth});
    if (s.mixed)
      segments_.push_back({s.second_weights(), tile_bytes(s.second_weights()), s.second_groups, s.second_depth()});
  }

  Kernel write() {
    ring_ = k_.shared<uint8_t>(s_.ring_bytes(), 128);
    sums_ = k_.shared<float>(2 * s_.columns * across_ * unit_rows_);  // two units: (vector, warp across, row)
    uint32_t stages = 0;
    for (const Segment& segment : segments_) stages = std::max(stages, across_ * segment.groups * segment.depth);
    if (bulk()) {
      arrived_ = k_.shared<uint64_t>(stages, 8);
      full_ = mbarriers(k_, 2);
      empty_ = mbarriers(k_, 2);
    }
    ProductX x(k_, s_);
    if (const uint32_t taken = k_.kernel.shared_bytes; taken < s_.room * 1024)
      k_.shared<uint8_t>(s_.room * 1024 - taken);

    if (!s_.late && !each_) chain_start(k_, s_.chained);
    share_out();
    if (!each_) of_segment([&](const Segment& segment) { start_rings(segment); });
    x.before_wait();
    for (Segment& segment : segments_) segment.book = TilePiece::codebook(k_, segment.format);
    if (!each_) k_.barrier();
    chain_wait(k_, s_.chained);
    auto from = k_.arg(&Args::x);
    if (s_.experts)
      from =
          from + mul_wide(s_.summed ? k_.block_y() * k_.arg(&Args::x_share) : k_.block_y(), k_.arg(&Args::x_stride)) *
                     uint64_t(s_.x == Product::x_bf16 ? 2 : 4);
    x.request(from);
    if (each_) {  // the choice of the matrices comes from an earlier kernel
      if (!s_.late) chain_start(k_, s_.chained);
      ids_ = of_lane(k_.arg(&Args::experts));
      start_rings(segments_[0]);
    }
    x.bring(from);
    if (s_.late) chain_start(k_, s_.chained);
    k_.when_else(
        k_.warp() < compute_, [&] { of_segment([&](const Segment& segment) { compute(x, segment); }); },
        [&] { finish(x); });
    return k_.finish();
  }

 private:
  const Product& s_;
  Builder<Args> k_;
  const uint32_t tile_rows_, unit_rows_, unit_tiles_, across_, compute_;
  const bool each_;  // experts with a result each: the tile rows of a row's experts follow each other
  struct Segment {   // rows of one format
    quant::Format format;
    uint32_t tile, groups, depth;  // tile: bytes
    Codebook book{};
  };
  std::vector<Segment> segments_;
  Shared<uint8_t> ring_;
  Shared<float> sums_;
  Shared<uint64_t> arrived_;
  std::vector<Mbarrier> full_, empty_;
  U32 rows_, first_, count_, units_;  // tile rows of this block, and its units
  U32 row_offset_;                    // of the rows that come before this format's
  Pred second_;                       // this block has rows of the second format
  U32 column_, group_;                // of this warp
  U64 policy_;
  U32 ids_;                         // experts of the row: lane i has the i-th
  U32 expert_tiles_;                // each_: tile rows of an expert
  std::optional<Divider> experts_;  // each_: divides by that
  std::vector<U64> starts_;         // summed: where each slice of this warp begins

  bool bulk() const { return s_.copies == copies_bulk; }

  // f(segment) for the format of this block's rows.
  void of_segment(auto&& f) {
    if (!s_.mixed) return f(segments_[0]);
    k_.when_else(
        second_, [&] { f(segments_[1]); }, [&] { f(segments_[0]); });
  }

  // All blocks have nearly the same work and end together: one that ended early would leave room for two blocks of the
  // next kernel, and that SM would be slow.
  void share_out() {
    rows_ = k_.arg(&Args::rows);
    U32 tile_rows = (rows_ + (tile_rows_ - 1)) / tile_rows_;
    if (each_) {
      expert_tiles_ = tile_rows;
      experts_.emplace(k_, max(tile_rows, 1u));
      tile_rows = tile_rows * k_.arg(&Args::x_share);
    }
    U32 block = k_.block_id(), blocks = k_.grid_x();
    if (s_.mixed) {
      U32 first_blocks = blocks - k_.arg(&Args::second_blocks), of_first = k_.arg(&Args::first_rows) / tile_rows_;
      second_ = block >= first_blocks;
      row_offset_ = select(second_, k_.arg(&Args::first_rows), 0u);
      tile_rows = select(second_, tile_rows - of_first, of_first);
      block = select(second_, block - first_blocks, block);
      blocks = select(second_, blocks - first_blocks, first_blocks);
    }
    U32 each = tile_rows / blocks, more = tile_rows % blocks;
    first_ = block * each + min(block, more);
    count_ = each + select(block < more, k_.constant(1u), 0u);
    units_ = (count_ + (unit_tiles_ - 1)) / unit_tiles_;
    column_ = k_.warp() % across_;
    group_ = k_.warp() / across_;
    if (s_.summed) {
      ids_ = of_lane(k_.arg(&Args::experts));
      for (uint32_t i = 0; i < s_.per_warp; ++i) {
        U32 slice = column_ * s_.per_warp + i, expert = slice / s_.expert_slices();
        starts_.push_back(widen(shuffle(ids_, expert)) * k_.arg(&Args::expert_bytes) +
                          mul_wide(slice - expert * s_.expert_slices(), segments_[0].tile));
      }
    }
    // Weights are read once and need not stay in L2, unless two tiles share a cache line.
    if (bulk() && segments_[0].tile % 128 == 0 && !s_.mixed && !s_.experts) policy_ = k_.cache_policy(L2::evict_first);
  }

  // The number of this warp's tiles: those of tile rows group, group + groups, ...
  U32 tiles(const Segment& segment) { return (count_ + (segment.groups - 1) - group_) / segment.groups * s_.per_warp; }
  Shared<uint8_t> my_ring(const Segment& segment) { return ring_ + k_.warp() * (segment.depth * segment.tile); }
  Shared<uint64_t> my_arrived(const Segment& segment) { return arrived_ + k_.warp() * segment.depth; }

  // Lane i gets what the list has for vector i of this block's row. Around L1, which may hold what the list was: the
  // wait that makes it visible may be another kernel's.
  template <class T>
  Val<T> of_lane(Global<T> list) {
    auto mine = k_.var(T(0));
    U32 share = k_.arg(&Args::x_share);
    k_.when(s_.summed ? k_.lane() < s_.summed : k_.lane() < share,
            [&] { mine = load_relaxed(list + (mul_wide(k_.block_y(), share) + widen(k_.lane()))); });
    return mine.get();
  }

  // Where this warp's tile t lies, which has slice i of its own. By all lanes.
  Global<uint8_t> place(const Segment& segment, U32 t, uint32_t i) {
    U32 row = first_ + group_ + t / s_.per_warp * segment.groups, slice = column_ * s_.per_warp + i;
    auto w = k_.arg(&segment == &segments_[0] ? &Args::w : &Args::w2);
    if (s_.summed) return w + (starts_[i] + mul_wide(row * s_.expert_slices(), segment.tile));
    if (!each_) return w + mul_wide(row * s_.slices + slice, segment.tile);
    U32 expert = experts_->divide(row);
    return w + (widen(shuffle(ids_, expert)) * k_.arg(&Args::expert_bytes) +
                mul_wide((row - expert * expert_tiles_) * s_.slices + slice, segment.tile));
  }
  void fetch(const Segment& segment, Mbarrier done, Shared<uint8_t> to, Global<uint8_t> from) {
    done.arrive_expect_bytes(segment.tile);
    bulk_load(to, from, segment.tile, done, policy_);
  }
  // The same by all lanes of the warp, which wait for it by themselves.
  void copy(const Segment& segment, Shared<uint8_t> to, Global<uint8_t> from) {
    const uint32_t pieces = segment.tile / 16;
    auto source = from + k_.lane() * 16u;
    auto place = to + k_.lane() * 16u;
    for (uint32_t i = 0; i < pieces; i += 32) {
      auto one = [&] { copy_async<16>(place.offset(i * 16), source.offset(i * 16)); };
      i + 32 <= pieces ? one() : k_.when(k_.lane() < pieces - i, one);
    }
  }

  // The units of sums between the computing warps and the one that finishes them. With bulk copies mbarriers count
  // those that have been computed and those that have been read; else barriers 1 and 2, 3 and 4 of the block do.
  static constexpr uint32_t full_id = 1, empty_id = 3;
  void meet(const Segment& segment, uint32_t id, U32 slot, bool waits) {
    const uint32_t threads = (across_ * segment.groups + 1) * 32;
    auto at = [&](uint32_t n) { waits ? k_.barrier(n, threads) : k_.barrier_arrive(n, threads); };
    k_.when_else(
        slot == 0u, [&] { at(id); }, [&] { at(id + 1); });
  }

  void start_rings(const Segment& segment) {
    const uint32_t compute = across_ * segment.groups;
    if (!bulk()) {
      k_.when(k_.warp() < compute, [&] {
        auto ring = my_ring(segment);
        U32 all = tiles(segment);
        for (uint32_t i = 0; i < segment.depth; ++i) {
          auto from = place(segment, k_.constant(i), i % s_.per_warp);
          k_.when(all > i, [&] { copy(segment, ring.offset(i * segment.tile), from); });
          copy_commit(k_);
        }
      });
      return;
    }
    k_.when(k_.thread() == compute_ * 32, [&] {
      // every lane that accesses the sums arrives itself
      for (auto& b : full_) b.init(compute * tile_rows_);
      for (auto& b : empty_) b.init(32u);
      fence_mbarrier_init(k_);
    });
    k_.when(k_.warp() < compute, [&] {
      auto ring = my_ring(segment);
      auto arrived = my_arrived(segment);
      U32 all = tiles(segment);
      std::vector<Global<uint8_t>> from;
      for (uint32_t i = 0; i < segment.depth; ++i) from.push_back(place(segment, k_.constant(i), i % s_.per_warp));
      k_.when(k_.lane() == 0u, [&] {
        for (uint32_t i = 0; i < segment.depth; ++i) Mbarrier{arrived.offset(i)}.init(1u);
        fence_mbarrier_init(k_);
        for (uint32_t i = 0; i < segment.depth; ++i)
          k_.when(all > i, [&] { fetch(segment, {arrived.offset(i)}, ring.offset(i * segment.tile), from[i]); });
      });
    });
  }

  // The sums of a tile's four steps over the lanes of each row. Each of the first two steps halves what a lane keeps;
  // the lanes that then hold a row's sum are those with (lane & (lanes / 4 - 1)) == 0.
  F32 add_lanes(const std::vector<F32>& step) {
    const uint32_t lanes = s_.tile_cols / 32;
    Pred upper = (k_.lane() & (lanes / 2)) != 0u, odd = (k_.lane() & (lanes / 4)) != 0u;
    F32 a = select(upper, step[2], step[0]) + shuffle_xor(select(upper, step[0], step[2]), lanes / 2);
    F32 b = select(upper, step[3], step[1]) + shuffle_xor(select(upper, step[1], step[3]), lanes / 2);
    return warp_sum(select(odd, b, a) + shuffle_xor(select(odd, a, b), lanes / 4), lanes / 4);
  }
  Pred holds_sum() { return (k_.lane() & (s_.tile_cols / 128 - 1)) == 0u; }
  U32 row_of_sum() {
    const uint32_t lanes = s_.tile_cols / 32;
    U32 step = select((k_.lane() & (lanes / 2)) != 0u, k_.constant(2u), 0u) +
               select((k_.lane() & (lanes / 4)) != 0u, k_.constant(1u), 0u);
    return step * (1024 / s_.tile_cols) + k_.lane() / lanes;
  }

  void compute(ProductX& x, const Segment& segment) {
    if (segment.groups == s_.groups) return work(x, segment);
    k_.when(k_.warp() < across_ * segment.groups, [&] { work(x, segment); });
  }

  void work(ProductX& x, const Segment& segment) {
    const TilePiece piece(k_, segment.format, s_.tile_cols, k_.lane(), segment.book);
    std::vector<std::vector<TilePiece::Q8>> mine;  // of each slice
    for (uint32_t i = 0; !s_.exact && i < s_.per_warp; ++i)
      mine.push_back(x.integers(piece, column_ * s_.per_warp + i));
    auto ring = my_ring(segment);
    Shared<uint64_t> arrived;
    if (bulk()) arrived = my_arrived(segment);
    U32 all = tiles(segment);
    auto stage = k_.var(0u), parity = k_.var(0u), t = k_.var(0u);
    std::vector<Var<float>> dots;  // (step, vector)
    for (uint32_t i = 0; i < 4 * s_.columns; ++i) dots.push_back(k_.var(0.0f));

    auto slice = [&](uint32_t i, Shared<uint8_t> w) {
      std::vector<TilePiece::Floats> floats;
      if (s_.exact) floats = x.floats(piece, column_ * s_.per_warp + i);
      for (uint32_t step = 0; step < 4; ++step) {
        const std::vector<F32> d = s_.exact ? piece.dot(w, step, floats) : piece.dot(w, step, mine[i]);
        for (uint32_t v = 0; v < s_.columns; ++v)
          if (i == 0)
            dots[step * s_.columns + v] = d[v];
          else
            dots[step * s_.columns + v] += d[v];
      }
    };
    auto tile_row = [&](Shared<float> to) {
      for (uint32_t i = 0; i < s_.per_warp; ++i) {
        U32 s = stage.get();
        auto w = ring + s * segment.tile;
        if (bulk()) {
          Mbarrier{arrived + s}.wait(k_, parity.get());
        } else {
          copy_wait(k_, segment.depth - 1);
          k_.warp_sync();  // the other lanes' pieces are there too
        }
        slice(i, w);
        k_.warp_sync();
        U32 next = t.get() + segment.depth;
        auto from = place(segment, next, (i + segment.depth) % s_.per_warp);
        if (bulk()) {
          k_.when(next < all && k_.lane() == 0u, [&] { fetch(segment, {arrived + s}, w, from); });
        } else {
          k_.when(next < all, [&] { copy(segment, w, from); });
          copy_commit(k_);
        }
        t += 1u;
        Pred wrap = s == segment.depth - 1;
        stage = select(wrap, k_.constant(0u), s + 1u);
        parity = parity.get() ^ select(wrap, k_.constant(1u), 0u);
      }
      for (uint32_t v = 0; v < s_.columns; ++v) {
        std::vector<F32> steps;
        for (uint32_t step = 0; step < 4; ++step) steps.push_back(dots[step * s_.columns + v].get());
        F32 sum = add_lanes(steps);
        k_.when(holds_sum(), [&] { store((to + row_of_sum()).offset(v * across_ * unit_rows_), sum); });
      }
    };
    k_.loop(0u, units_, 1u, [&](U32 u) {
      U32 slot = u & 1u;
      auto buffer = sums_ + slot * (s_.columns * across_ * unit_rows_) + column_ * unit_rows_;
      k_.when(u >= 2u, [&] {
        if (bulk()) return Mbarrier{empty_[0].at + slot}.wait(k_, (u >> 1u & 1u) ^ 1u);
        meet(segment, empty_id, slot, true);
      });
      for (uint32_t c = 0; c < unit_tiles_ / segment.groups; ++c) {
        U32 of_block = u * unit_tiles_ + c * segment.groups + group_;
        k_.when(of_block < count_, [&] { tile_row(buffer + (group_ + c * segment.groups) * tile_rows_); });
      }
      if (bulk())
        k_.when(holds_sum(), [&] { Mbarrier{full_[0].at + slot}.arrive(); });
      else
        meet(segment, full_id, slot, false);
    });
  }

  void finish(const ProductX& x) {
    ProductOut out(k_, s_, k_.arg(&Args::y), s_.experts ? k_.block_y() : U32{});
    F32 weights;  // lane i has that of vector i
    if (s_.weighted) weights = of_lane(k_.arg(&Args::scales));
    if (s_.summed && s_.bias) {
      std::vector<ProductOut::ExpertBias> all;
      for (uint32_t i = 0; i < s_.summed; ++i)
        all.push_back({shuffle(ids_, i), s_.weighted ? shuffle(weights, i) : F32{}});
      out.set_experts(std::move(all));
    }
    const std::vector<F32> factors = x.factors();
    // with 16 rows each half of the warp adds every other partial sum
    const bool halves = unit_rows_ == 16;
    U32 in_unit = k_.lane() & (unit_rows_ - 1), half = k_.lane() >> 4u;
    k_.loop(0u, units_, 1u, [&](U32 u) {
      U32 slot = u & 1u, row = (first_ + u * unit_tiles_) * tile_rows_ + in_unit;
      if (s_.mixed) row = row + row_offset_;
      Pred there = in_unit < (count_ - u * unit_tiles_) * tile_rows_;
      if (each_) {
        U32 tile_row = first_ + u * unit_tiles_ + in_unit / tile_rows_, expert = experts_->divide(tile_row);
        row = (tile_row - expert * expert_tiles_) * tile_rows_ + in_unit % tile_rows_;
        out.set_vector(k_.block_y() * k_.arg(&Args::x_share) + expert, s_.weighted ? shuffle(weights, expert) : F32{});
        if (s_.bias) out.set_experts({{shuffle(ids_, expert)}});
      }
      Pred mine = there && row < rows_;
      out.prepare(row, halves ? mine && k_.lane() < 16u : mine);
      if (bulk())
        Mbarrier{full_[0].at + slot}.wait(k_, u >> 1u & 1u);
      else
        of_segment([&](const Segment& segment) { meet(segment, full_id, slot, true); });
      std::vector<F32> total;
      for (uint32_t v = 0; v < s_.columns; ++v) {
        auto buffer = (sums_ + slot * (s_.columns * across_ * unit_rows_) + in_unit).offset(v * across_ * unit_rows_);
        auto sum = k_.var(0.0f);
        const uint32_t paired = halves ? across_ / 2 * 2 : across_;
        k_.when(there, [&] {
          for (uint32_t i = 0; i < paired; i += halves ? 2 : 1)
            sum += load(halves ? buffer + (half * unit_rows_ + i * unit_rows_) : buffer.offset(i * unit_rows_));
        });
        if (paired < across_) k_.when(there && half == 0u, [&] { sum += load(buffer.offset(paired * unit_rows_)); });
        total.push_back(halves ? sum.get() + shuffle_xor(sum.get(), 16u) : sum.get());
      }
      if (bulk())
        Mbarrier{empty_[0].at + slot}.arrive();
      else  // no warp waits for the last two
        k_.when(u + 2u < units_,
                [&] { of_segment([&](const Segment& segment) { meet(segment, empty_id, slot, false); }); });
      for (uint32_t v = 0; v < s_.columns; ++v) out.write(v, factors.empty() ? total[v] : total[v] * factors[v]);
    });
  }
};

void check_together(const Product& s) {
  auto refuse = [&](std::string_view why) { throw Error("product: {} ({})", why, field_text(s)); };
  if (s.slices % s.per_warp) refuse("slices must be a multiple of per_warp");
  if (s.mixed && s.second_groups > s.groups) refuse("more groups of the second format than of the first");
  if (s.warps() > 32) refuse("more than 31 computing warps");
  if (s.unit % (tile_values / s.tile_cols * s.groups)) refuse("a unit has no such groups of tiles");
  if (s.experts && (s.columns > 1 || s.mixed || s.out == Product::qkv))
    refuse("experts have one vector, one format and no rotation");
  if ((s.summed || s.weighted) && !s.experts) refuse("summed and weighted are for experts");
  if (s.summed && (s.weighted == Product::weighted_input || (s.weighted && !s.bias) || s.norm || s.slices % s.summed ||
                   (s.out != Product::store && s.out != Product::add)))
    refuse("the sum of experts has whole slices of each, weights of its biases alone, no norm, and is stored or added");
  if (s.experts && !s.summed && s.out == Product::add) refuse("results of experts are added when summed");
  if (!s.exact &&
      !(TilePiece::has_integer_dot(s.weights()) && (!s.mixed || TilePiece::has_integer_dot(s.second_weights()))))
    refuse("this format has no integer products: exact = yes");
  if (s.y_bf16 && s.out != Product::gate && s.out != Product::act) refuse("y_bf16 is for act and gate");
}

}  // namespace

Kernel Product::build() const {
  check_fields(*this);
  check_together(*this);
  return ProductWriter(*this).write();
}

Grid Product::grid(const Args& args) const {
  check_fields(*this);
  check_together(*this);
  if (const uint32_t filled = expert_slices() * tile_cols; args.cols == 0 || args.cols > filled)
    throw Error("product: {} columns, but {} slices of {} are {}", args.cols, expert_slices(), tile_cols, filled);
  for (uint64_t address : {args.w.address, args.x.address, mixed ? args.w2.address : 0})
    if (address % 16) throw Error("product: x and w must be 16-byte aligned, found {:#x}", address);
  if ((columns > 1 || experts) && args.x_stride % 8)
    throw Error("product: vectors {} values apart, expected a multiple of 8", args.x_stride);
  if (mixed && args.first_rows % (tile_values / tile_cols))
    throw Error("product: {} rows of the first format are no whole tiles of {}", args.first_rows,
                tile_values / tile_cols);
  if (mixed && (args.second_blocks == 0 || args.second_blocks >= args.blocks))
    throw Error("product: {} of {} blocks for the second format", args.second_blocks, args.blocks);
  if (out == gate && args.rows % 4) throw Error("product: {} rows of gate and up, expected a multiple of 4", args.rows);
  if (out == qkv) {
    if (args.head % 4 || args.value_head % 4 || args.rotary % 4 || args.rotary > args.head || args.head == 0 ||
        args.value_head == 0)
      throw Error("product: heads of {} and {} with {} turned, expected multiples of 4", args.head, args.value_head,
                  args.rotary);
    if (args.page_size == 0) throw Error("product: pages of 0 positions");
  }
  if (args.blocks == 0) throw Error("product: a grid of 0 blocks");
  if (!experts) return {.x = args.blocks};
  if (args.x_share == 0 || args.x_share > 32 || args.vectors == 0 || args.vectors % args.x_share ||
      args.vectors / args.x_share > 65535)
    throw Error("product: {} vectors, {} for each row; 1 to 32 for each of 1 to 65535 rows expected", args.vectors,
                args.x_share);
  if (summed > args.x_share) throw Error("product: a sum of {} experts, but a row has {}", summed, args.x_share);
  return {.x = args.blocks, .y = args.vectors / args.x_share};
}

void add_product_kernels(std::vector<Entry>& all) {
  all.push_back(entry<Product>());
  all.push_back(
      preset<Product>("async_product", "the same without bulk copies", {.groups = 2, .copies = copies_async}, "sm_75"));
}

}  // namespace heddle::kernels
