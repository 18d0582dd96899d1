// All blocks of a cluster read x, normalise it and keep it in shared memory; each warp multiplies its tiles with it and
// sends the sums of their rows to the first block, one for each slice of columns.
#include "kernels/mixture/router.h"

#include <algorithm>

#include "kernels/mixture/pick_experts.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/async.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using RouterArgs = Router::Args;

constexpr auto router_format = quant::Format::f32;
constexpr uint32_t max_router_x = 64;  // values of x in the registers of a thread

uint32_t router_rounds(const Router& s) {
  const uint32_t threads = s.warps * 32;
  return (s.slices * s.tile_cols / 4 + threads - 1) / threads;
}

// What write() allocates, and room for its alignment.
uint32_t router_shared_bytes(const Router& s) {
  const uint32_t ring = s.warps * s.depth * (tile_bytes(router_format) + 8), x = s.slices * s.tile_cols / 32 * 36 * 4;
  return ring + x + s.slices * (s.largest + tile_values / s.tile_cols) * 4 + 1024;
}
constexpr uint32_t max_router_shared = 226 * 1024;

class RouterWriter {
 public:
  explicit RouterWriter(const Router& s)
      : s_(s),
        k_(std::string(Router::name), {.threads = s.warps * 32, .min_blocks = 1, .cluster = s.splits}),
        tile_(tile_bytes(router_format)),
        tile_rows_(tile_values / s.tile_cols),
        sum_rows_(s.largest + tile_rows_),
        rounds_(router_rounds(s)) {}

  Kernel write() {
    ring_ = k_.shared<uint8_t>(s_.warps * s_.depth * tile_, 128);
    x_ = k_.shared<float>(s_.slices * s_.tile_cols / 32 * 36, 16);
    sums_ = k_.shared<float>(s_.slices * sum_rows_);
    arrived_ = k_.shared<uint64_t>(s_.warps * s_.depth, 8);
    chain_start(k_, s_.chained);
    k_.cluster_arrive();  // until all blocks run, none may write to another
    row_ = k_.special(Special::clusterid_y);
    rank_ = k_.cluster_rank();
    start_ring();
    std::vector<std::vector<F32>> weight = norm_weights(&RouterArgs::norm, s_.norm != Router::none);
    std::vector<std::vector<F32>> shift = norm_weights(&RouterArgs::shift, s_.norm == Router::layer);
    chain_wait(k_, s_.chained);
    bring_x(weight, shift);
    k_.cluster_wait();
    multiply();
    k_.cluster_barrier();
    k_.when(rank_ == 0u && k_.warp() == 0u, [&] { pick(); });
    return k_.finish();
  }

 private:
  U32 item(uint32_t round) { return k_.thread() + round * k_.threads(); }
  // Where value v of x lies: each 32 are followed by 4 of padding, against bank conflicts.
  static U32 spread(U32 v) { return v + (v >> 5u) * 4u; }

  // --- tiles: every (splits * warps)-th is this warp's
  U32 tile_of(U32 t) { return (t * s_.warps + k_.warp()) * s_.splits + rank_; }
  U32 tiles() {
    U32 rows = (k_.arg(&RouterArgs::router_rows) + (tile_rows_ - 1)) / tile_rows_;
    return rows * s_.slices;
  }
  Shared<uint8_t> buffer(U32 stage) { return ring_ + (k_.warp() * s_.depth + stage) * tile_; }
  Mbarrier arrived(U32 stage) { return {arrived_ + (k_.warp() * s_.depth + stage)}; }
  void fetch(U32 stage, U32 tile) {
    arrived(stage).arrive_expect_bytes(tile_);
    bulk_load(buffer(stage), k_.arg(&RouterArgs::w) + mul_wide(tile, tile_), tile_, arrived(stage));
  }
  void start_ring() {
    k_.when(k_.lane() == 0u, [&] {
      for (uint32_t i = 0; i < s_.depth; ++i) arrived(k_.constant(i)).init(1u);
      fence_mbarrier_init(k_);
      for (uint32_t i = 0; i < s_.depth; ++i) {
        U32 tile = tile_of(k_.constant(i));
        k_.when(tile < tiles(), [&] { fetch(k_.constant(i), tile); });
      }
    });
    k_.warp_sync();
  }

  // --- x
  // This thread's values of each round; zeros past the last column.
  std::vector<F32> four(Global<float> from, U32 at, Access how) {
    const Pred inside = at < k_.arg(&RouterArgs::cols);
    std::vector<F32> values;
    for (F32 v : load_vec<4>(from + select(inside, at, k_.constant(0u)), how))
      values.push_back(select(inside, v, 0.0f));
    return values;
  }
  std::vector<std::vector<F32>> norm_weights(DevicePtr<float> RouterArgs::*from, bool wanted) {
    std::vector<std::vector<F32>> all;
    for (uint32_t r = 0; wanted && r < rounds_; ++r) all.push_back(four(k_.arg(from), item(r) * 4u, {.nc = true}));
    return all;
  }
  void bring_x(const std::vector<std::vector<F32>>& weight, const std::vector<std::vector<F32>>& shift) {
    const auto from = k_.arg(&RouterArgs::x) + mul_wide(row_, k_.arg(&RouterArgs::x_stride));
    std::vector<std::vector<F32>> x;
    for (uint32_t r = 0; r < rounds_; ++r) x.push_back(four(from, item(r) * 4u, {}));
    const F32 cols = to_f32(k_.arg(&RouterArgs::cols));
    F32 mean, factor;
    if (s_.norm == Router::layer) {
      auto sum = k_.var(0.0f);
      for (auto& round : x)
        for (F32 v : round) sum += v;
      mean = block_sum(k_, sum.get()) / cols;
    }
    if (s_.norm) {
      auto squares = k_.var(0.0f);
      for (uint32_t r = 0; r < rounds_; ++r)
        for (uint32_t i = 0; i < 4; ++i) {
          F32& v = x[r][i];
          if (s_.norm == Router::layer) v = select(item(r) * 4u + i < k_.arg(&RouterArgs::cols), v - mean, 0.0f);
          squares.add_product(v, v);
        }
      factor = rsqrt_approx(block_sum(k_, squares.get()) / cols + k_.arg(&RouterArgs::epsilon));
    }
    for (uint32_t r = 0; r < rounds_; ++r) {
      Vec<float, 4> v;
      for (uint32_t i = 0; i < 4; ++i) {
        v[i] = x[r][i];
        if (s_.norm) v[i] = v[i] * factor * weight[r][i];
        if (s_.norm == Router::layer) v[i] = v[i] + shift[r][i];
      }
      k_.when(item(r) < s_.slices * s_.tile_cols / 4, [&] { store_vec(x_ + spread(item(r) * 4u), v); });
    }
    k_.barrier();
  }

  // --- products
  void multiply() {
    const TilePiece piece(k_, router_format, s_.tile_cols, k_.lane());
    const uint32_t lanes = s_.tile_cols / 32;  // that share a row
    const auto to = in_block(sums_, 0u);
    auto t = k_.var(0u), stage = k_.var(0u), parity = k_.var(0u);
    U32 all = tiles();
    k_.loop_while([&] { return tile_of(t.get()) < all; },
                  [&] {
                    U32 tile = tile_of(t.get()), tile_row = tile / s_.slices, slice = tile - tile_row * s_.slices;
                    U32 s = stage.get();
                    std::vector<TilePiece::Floats> x(1);
                    for (uint32_t i = 0; i < 2; ++i)
                      for (uint32_t j = 0; j < 16; j += 4)
                        for (F32 v : load_vec<4>((x_ + spread(slice * s_.tile_cols + piece.run(i))).offset(j)))
                          x[0].v.push_back(v);
                    arrived(s).wait(k_, parity.get());
                    std::vector<F32> sum;
                    for (uint32_t step = 0; step < 4; ++step)
                      sum.push_back(warp_sum(piece.dot(buffer(s), step, x)[0], lanes));
                    k_.warp_sync();
                    U32 next = tile_of(t.get() + s_.depth);
                    k_.when(next < all && k_.lane() == 0u, [&] { fetch(s, next); });
                    U32 row = slice * sum_rows_ + tile_row * tile_rows_ + piece.row_in_step();
                    k_.when((k_.lane() & (lanes - 1)) == 0u, [&] {
                      for (uint32_t step = 0; step < 4; ++step)
                        store((to + row).offset(step * (1024 / s_.tile_cols)), sum[step]);
                    });
                    t += 1u;
                    Pred wrap = s == s_.depth - 1;
                    stage = select(wrap, k_.constant(0u), s + 1u);
                    parity = parity.get() ^ select(wrap, k_.constant(1u), 0u);
                  });
  }

  F32 total(U32 row) {
    F32 sum = load(sums_ + row);
    for (uint32_t i = 1; i < s_.slices; ++i) sum = sum + load((sums_ + row).offset(i * sum_rows_));
    return sum;
  }
  void pick() {
    const U32 experts = k_.arg(&RouterArgs::experts), used = k_.arg(&RouterArgs::used), lane = k_.lane();
    ExpertLogits of{.experts = experts, .used = used};
    for (uint32_t i = 0; i < s_.largest / 32; ++i) {
      auto logit = k_.var(0.0f);
      k_.when(lane + i * 32u < experts, [&] {
        logit = total(lane + i * 32u);
        if (s_.bias) logit += load(k_.arg(&RouterArgs::bias) + (lane + i * 32u), {.nc = true});
      });
      of.logits.push_back(logit.get());
    }
    set_choice(k_, s_, of);
    k_.when(experts + lane < k_.arg(&RouterArgs::router_rows), [&] {
      store(k_.arg(&RouterArgs::scores) + (mul_wide(row_, k_.arg(&RouterArgs::scores_stride)) + widen(lane)),
            total(experts + lane));
    });
    const PickedExperts picked = pick_experts(k_, choice_of(s_), of);
    k_.when(lane < used, [&] {
      const U64 at = mad_wide(row_, used, widen(lane));
      store(k_.arg(&RouterArgs::ids) + at, picked.id);
      store(k_.arg(&RouterArgs::weights) + at, picked.weight);
    });
  }

  const Router& s_;
  Builder<RouterArgs> k_;
  const uint32_t tile_, tile_rows_, sum_rows_, rounds_;
  Shared<uint8_t> ring_;      // (warps, depth) tiles
  Shared<float> x_;           // normalised
  Shared<float> sums_;        // (slices, sum_rows), of the first block
  Shared<uint64_t> arrived_;  // (warps, depth)
  U32 row_, rank_;
};

}  // namespace

Kernel Router::build() const {
  check_fields(*this);
  if (router_rounds(*this) * 4 > max_router_x)
    throw Error("{}: {} warps keep {} values each, but {} columns are more", name, warps, max_router_x * 32,
                slices * tile_cols);
  return RouterWriter(*this).write();
}

Grid Router::grid(const Args& args) const {
  if (args.experts == 0 || args.experts > largest)
    throw Error("{}: {} experts, 1 to {} expected", name, args.experts, largest);
  if (args.router_rows != args.experts && args.router_rows != args.experts + 1)
    throw Error("{}: {} rows for {} experts, expected as many or one more", name, args.router_rows, args.experts);
  if (args.used == 0 || args.used > args.experts || args.used > 32)
    throw Error("{}: {} of {} experts are used; 1 to 32, not above that, expected", name, args.used, args.experts);
  check_choice(*this, args);
  if (args.cols == 0 || args.cols > slices * tile_cols)
    throw Error("{}: {} columns, but {} slices of {} are {}", name, args.cols, slices, tile_cols, slices * tile_cols);
  if (args.x_stride % 4 || args.x.address % 16 || args.w.address % 16)
    throw Error("{}: rows of x {} values apart, at {:#x}, and w at {:#x}; expected 16-byte alignment", name,
                args.x_stride, args.x.address, args.w.address);
  if (args.rows == 0 || args.rows > 65535) throw Error("{}: {} rows, 1 to 65535 expected", name, args.rows);
  return {.x = splits, .y = args.rows};
}

// One tile for each warp of the cluster if they suffice: for 128 experts of 2048 columns 64 KB in each of 16 blocks,
// beside which a block of the product before, and of the one after it, fit on the SM.
std::optional<Router> router_choice(uint32_t experts, uint32_t router_rows, uint32_t cols, const GpuLimits& gpu) {
  const uint32_t max_shared = std::min(max_router_shared, gpu.shared_per_block - 1024);
  Router s;
  const kernels::TileShape shape{router_format, router_rows, cols, tile_cols_for(cols)};
  s.tile_cols = shape.tile_cols;
  s.slices = shape.slices();
  for (s.largest = 32; s.largest < experts && s.largest < 512;) s.largest *= 2;
  const uint32_t tiles = shape.row_tiles() * s.slices;
  for (s.splits = 16; s.splits > 2 && s.splits > tiles;) s.splits /= 2;
  for (s.warps = 4; s.warps < 8 && router_rounds(s) * 4 > max_router_x;) s.warps *= 2;
  s.depth = std::clamp((tiles + s.splits * s.warps - 1) / (s.splits * s.warps), 1u, 12 / s.warps);
  while (s.depth > 1 && router_shared_bytes(s) > max_shared) --s.depth;
  if (experts > s.largest || router_rounds(s) * 4 > max_router_x || router_shared_bytes(s) > max_shared) return {};
  return s;
}

void add_router_kernels(std::vector<Entry>& all) { all.push_back(entry<Router>()); }

}  // namespace heddle::kernels
