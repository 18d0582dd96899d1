// One block per SM takes an even share of the units of 16 rows. Each computing warp has its own ring of tiles, filled
// before the kernel waits for its predecessor, so no warp waits for another; partial sums go to the finishing warp
// through two buffers in turn.
#include "kernels/ring_gemv.h"

#include "kernels/chain.h"
#include "kernels/ring_piece.h"
#include "ptx/async.h"

namespace heddle::kernels {

using namespace ptx;

Kernel RingGemv::build() const {
  check_fields(*this);
  const uint32_t compute = slices * groups, per_unit = 4 / groups;
  if (compute > 31) throw Error("ring_gemv: {} slices x {} groups are more than 31 warps", slices, groups);
  const uint32_t tile = ring_formats()[format].tile_bytes();
  Builder<Args> k(std::string(name), Launch{.threads = (compute + 1) * 32, .min_blocks = resident});

  auto ring = k.shared<uint8_t>(compute * depth * tile, 128);
  auto sums = k.shared<float>(2 * slices * 16);  // two units: (slice, row)
  auto arrived = k.shared<uint64_t>(compute * depth, 8);
  auto full = mbarriers(k, 2), empty = mbarriers(k, 2);

  chain_start(k, chained);
  U32 warp = k.warp(), lane = k.lane();
  U32 rows = k.arg(&Args::rows);
  U32 units = (rows + (ring_unit_rows - 1)) / ring_unit_rows;
  U32 each = units / k.grid_x(), more = units % k.grid_x();
  U32 first = k.block_id() * each + min(k.block_id(), more);
  U32 count = each + select(k.block_id() < more, k.constant(1u), 0u);

  k.when(k.thread() == compute * 32, [&] {
    for (auto& b : full) b.init(compute);
    for (auto& b : empty) b.init(1u);
    fence_mbarrier_init(k);
  });
  U32 slice = warp % slices, group = warp / slices;
  U32 tiles = count * per_unit;  // of this warp
  const uint32_t stride = groups * slices * tile;
  auto from = k.arg(&Args::w) + mul_wide((first * 4u + group) * slices + slice, tile);
  auto my_ring = ring + warp * (depth * tile);
  auto my_arrived = arrived + warp * depth;
  auto fetch = [&](Mbarrier done, Shared<uint8_t> to, U32 t) {
    done.arrive_expect_bytes(tile);
    bulk_load(to, from + mul_wide(t, stride), tile, done);
  };
  k.when(warp < compute && lane == 0u, [&] {
    for (uint32_t i = 0; i < depth; ++i) Mbarrier{my_arrived.offset(i)}.init(1u);
    fence_mbarrier_init(k);
    for (uint32_t i = 0; i < depth; ++i)
      k.when(tiles > i, [&] { fetch({my_arrived.offset(i)}, my_ring.offset(i * tile), k.constant(i)); });
  });
  k.barrier();
  chain_wait(k, chained);

  k.when_else(
      warp < compute,
      [&] {
        RingPiece piece(format, lane);
        auto x = piece.activations(k.arg(&Args::x), slice, k.arg(&Args::cols));
        auto stage = k.var(0u), parity = k.var(0u), t = k.var(0u);
        k.loop(0u, count, 1u, [&](U32 u) {
          U32 slot = u & 1u;
          auto buffer = sums + slot * (slices * 16) + slice * 16u;
          k.when(u >= 2u, [&] { Mbarrier{empty[0].at + slot}.wait(k, (u >> 1u & 1u) ^ 1u); });
          for (uint32_t c = 0; c < per_unit; ++c) {
            U32 s = stage.get();
            Mbarrier here{my_arrived + s};
            auto w = my_ring + s * tile;
            here.wait(k, parity.get());
            std::vector<F32> dot;
            for (uint32_t r = 0; r < 4; ++r) dot.push_back(piece.dot(w, r, x));
            k.warp_sync();
            U32 next = t.get() + depth;
            k.when(lane == 0u && next < tiles, [&] { fetch(here, w, next); });
            t += 1u;
            Pred wrap = s == depth - 1;
            stage = select(wrap, k.constant(0u), s + 1u);
            parity = parity.get() ^ select(wrap, k.constant(1u), 0u);
            // four sums at once: each step halves the rows a lane keeps, so 6 shuffles do for all
            Pred upper = (lane & 16u) != 0u;
            F32 a = select(upper, dot[2], dot[0]) + shuffle_xor(select(upper, dot[0], dot[2]), 16u);
            F32 b = select(upper, dot[3], dot[1]) + shuffle_xor(select(upper, dot[1], dot[3]), 16u);
            upper = (lane & 8u) != 0u;
            F32 sum = select(upper, b, a) + shuffle_xor(select(upper, a, b), 8u);
            sum = warp_sum(sum, 8);
            k.when((lane & 7u) == 0u,
                   [&] { store(buffer + (group * 4u + lane / 8u + c * groups * 4), sum); });
          }
          k.warp_sync();
          k.when(lane == 0u, [&] { Mbarrier{full[0].at + slot}.arrive(); });
        });
      },
      [&] {
        U32 row16 = lane & 15u, half = lane >> 4u;
        k.loop(0u, count, 1u, [&](U32 u) {
          U32 slot = u & 1u, row = (first + u) * ring_unit_rows + row16;
          Pred mine = lane < 16u && row < rows;
          auto before = k.var(0.0f);
          if (add) k.when(mine, [&] { before = load(k.arg(&Args::residual) + row); });
          Mbarrier{full[0].at + slot}.wait(k, u >> 1u & 1u);
          auto buffer = sums + slot * (slices * 16) + row16;
          // the two halves of the warp take every other slice
          auto sum = k.var(0.0f);
          for (uint32_t s = 0; s + 1 < slices; s += 2) sum += load(buffer + (half * 16u + s * 16));
          if (slices % 2) k.when(half == 0u, [&] { sum += load(buffer.offset((slices - 1) * 16)); });
          F32 total = sum.get() + shuffle_xor(sum.get(), 16u);
          k.warp_sync();
          k.when(lane == 0u, [&] { Mbarrier{empty[0].at + slot}.arrive(); });
          k.when(mine, [&] { store(k.arg(&Args::y) + row, before.get() + total); });
        });
      });
  return k.finish();
}

Grid RingGemv::grid(const Args& args) const {
  if (args.cols != slices * ring_tile_cols)
    throw Error("ring_gemv: {} columns, but {} slices are {}", args.cols, slices, slices * ring_tile_cols);
  if (args.w.address % 16 || args.x.address % 16) throw Error("ring_gemv: x and w must be 16-byte aligned");
  if (args.blocks == 0) throw Error("ring_gemv: a grid of 0 blocks");
  return {.x = args.blocks};
}

}  // namespace heddle::kernels
