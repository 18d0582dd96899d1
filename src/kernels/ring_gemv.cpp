// Each block takes an even share of the tile rows, in units of up to four. Each computing warp has its own ring of
// tiles, filled before the kernel waits for its predecessor, so no warp waits for another; partial sums go to the
// finishing warp through two buffers in turn.
#include "kernels/ring_gemv.h"

#include <algorithm>

#include "kernels/chain.h"
#include "kernels/ring_piece.h"
#include "ptx/async.h"

namespace heddle::kernels {

using namespace ptx;

Kernel RingGemv::build() const {
  check_fields(*this);
  if (slices % per_warp) throw Error("ring_gemv: {} slices cannot be dealt {} to a warp", slices, per_warp);
  const uint32_t across = slices / per_warp, compute = across * groups;
  if (compute > 31) throw Error("ring_gemv: {} x {} computing warps are more than 31", across, groups);
  const uint32_t tile = ring_formats()[format].tile_bytes();
  Builder<Args> k(std::string(name), Launch{.threads = (compute + 1) * 32, .min_blocks = resident});

  auto ring = k.shared<uint8_t>(compute * depth * tile, 128);
  auto sums = k.shared<float>(2 * columns * across * 16);  // two units: (column, warp across, row)
  auto arrived = k.shared<uint64_t>(compute * depth, 8);
  auto full = mbarriers(k, 2), empty = mbarriers(k, 2);

  chain_start(k, chained);
  U32 warp = k.warp(), lane = k.lane();
  U32 rows = k.arg(&Args::rows);
  // All blocks have nearly the same to do and end together: one that ended early would leave its place to two blocks of
  // the next kernel, and that SM would be slow.
  U32 tile_rows = (rows + 3u) / 4u;
  U32 each = tile_rows / k.grid_x(), more = tile_rows % k.grid_x();
  U32 first = k.block_id() * each + min(k.block_id(), more);
  U32 count = each + select(k.block_id() < more, k.constant(1u), 0u), units = (count + 3u) / 4u;

  k.when(k.thread() == compute * 32, [&] {
    // every lane that touches the sums arrives for itself
    for (auto& b : full) b.init(compute * 4);
    for (auto& b : empty) b.init(32u);
    fence_mbarrier_init(k);
  });
  U32 column = warp % across, group = warp / across;
  // of this warp: those of tile rows group, group + groups, ...
  U32 tiles = (count + (groups - 1) - group) / groups * per_warp;
  // Weights are read once and need not stay in L2, unless two tiles share a line and both want it.
  U64 policy{};
  if (tile % 128 == 0) policy = k.cache_policy(L2::evict_first);
  auto from = k.arg(&Args::w) + mul_wide((first + group) * slices + column * per_warp, tile);
  auto my_ring = ring + warp * (depth * tile);
  auto my_arrived = arrived + warp * depth;
  auto fetch = [&](Mbarrier done, Shared<uint8_t> to, U32 t) {
    done.arrive_expect_bytes(tile);
    U64 at = mul_wide(t / per_warp, groups * slices * tile) + widen(t % per_warp * tile);
    bulk_load(to, from + at, tile, done, policy);
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
        RingPiece piece(k, format, lane);
        std::vector<std::vector<RingPiece::Both>> x(per_warp);  // of each slice, of each vector
        for (uint32_t i = 0; i < per_warp; ++i)
          for (uint32_t c = 0; c < columns; ++c) {
            auto vector = k.arg(&Args::x) + mul_wide(k.arg(&Args::cols) / 2u * 3u, c);
            x[i].push_back(piece.activations(vector, column * per_warp + i, k.arg(&Args::cols)));
          }
        auto next_first = ((k.block_id() * compute + warp) * (depth * 32) + lane) * 128u;
        auto stage = k.var(0u), parity = k.var(0u), t = k.var(0u);
        k.loop(0u, units, 1u, [&](U32 u) {
          U32 slot = u & 1u;
          auto buffer = sums + slot * (columns * across * 16) + column * 16u;
          k.when(u >= 2u, [&] { Mbarrier{empty[0].at + slot}.wait(k, (u >> 1u & 1u) ^ 1u); });
          auto tile_row = [&](uint32_t c) {
            std::vector<std::vector<F32>> dot(4);  // of each row, of each vector
            for (uint32_t i = 0; i < per_warp; ++i) {
              U32 s = stage.get();
              Mbarrier here{my_arrived + s};
              auto w = my_ring + s * tile;
              here.wait(k, parity.get());
              for (uint32_t r = 0; r < 4; ++r) {
                const std::vector<F32> d = piece.dot(w, r, x[i]);
                for (uint32_t v = 0; v < columns; ++v)
                  if (i == 0)
                    dot[r].push_back(d[v]);
                  else
                    dot[r][v] = dot[r][v] + d[v];
              }
              k.warp_sync();
              U32 next = t.get() + depth;
              k.when_else(
                  next < tiles, [&] { k.when(lane == 0u, [&] { fetch(here, w, next); }); },
                  [&] {
                    U32 at = next_first + (next - tiles) * 4096u;
                    k.when(at < k.arg(&Args::next_bytes), [&] { prefetch(k.arg(&Args::next) + at); });
                  });
              t += 1u;
              Pred wrap = s == depth - 1;
              stage = select(wrap, k.constant(0u), s + 1u);
              parity = parity.get() ^ select(wrap, k.constant(1u), 0u);
            }
            // four sums at once: each step halves the rows a lane keeps, so 6 shuffles do for all
            Pred upper = (lane & 16u) != 0u, odd = (lane & 8u) != 0u;
            for (uint32_t v = 0; v < columns; ++v) {
              F32 a = select(upper, dot[2][v], dot[0][v]) + shuffle_xor(select(upper, dot[0][v], dot[2][v]), 16u);
              F32 b = select(upper, dot[3][v], dot[1][v]) + shuffle_xor(select(upper, dot[1][v], dot[3][v]), 16u);
              F32 sum = warp_sum(select(odd, b, a) + shuffle_xor(select(odd, a, b), 8u), 8);
              k.when((lane & 7u) == 0u,
                     [&] { store(buffer + (group * 4u + lane / 8u + (c * groups * 4 + v * across * 16)), sum); });
            }
          };
          for (uint32_t c = 0; c < 4 / groups; ++c) k.when(u * 4u + (c * groups) + group < count, [&] { tile_row(c); });
          k.when((lane & 7u) == 0u, [&] { Mbarrier{full[0].at + slot}.arrive(); });
        });
      },
      [&] {
        U32 row16 = lane & 15u, half = lane >> 4u;
        k.loop(0u, units, 1u, [&](U32 u) {
          U32 slot = u & 1u, row = (first + u * 4u) * 4u + row16;
          Pred there = row16 < (count - u * 4u) * 4u, mine = there && lane < 16u && row < rows;
          std::vector<Var<float>> before;
          for (uint32_t v = 0; v < columns; ++v) {
            before.push_back(k.var(0.0f));
            if (add) k.when(mine, [&] { before[v] = load(k.arg(&Args::residual) + (mul_wide(rows, v) + widen(row))); });
          }
          Mbarrier{full[0].at + slot}.wait(k, u >> 1u & 1u);
          std::vector<F32> total;
          for (uint32_t v = 0; v < columns; ++v) {
            auto buffer = (sums + slot * (columns * across * 16) + row16).offset(v * across * 16);
            // the two halves of the warp take every other one
            auto sum = k.var(0.0f);
            k.when(there, [&] {
              for (uint32_t s = 0; s + 1 < across; s += 2) sum += load(buffer + (half * 16u + s * 16));
            });
            if (across % 2) k.when(there && half == 0u, [&] { sum += load(buffer.offset((across - 1) * 16)); });
            total.push_back(sum.get() + shuffle_xor(sum.get(), 16u));
          }
          Mbarrier{empty[0].at + slot}.arrive();
          k.when(mine, [&] {
            for (uint32_t v = 0; v < columns; ++v)
              store(k.arg(&Args::y) + (mul_wide(rows, v) + widen(row)), before[v].get() + total[v]);
          });
        });
      });
  return k.finish();
}

uint64_t RingGemv::in_rings(uint32_t rows, uint32_t blocks) const {
  const uint64_t warps = uint64_t(blocks) * (slices / per_warp) * groups;
  return std::min(warps * depth * ring_formats()[format].tile_bytes(),
                  ring_bytes(format, rows, slices * ring_tile_cols));
}

namespace {

// What the assembler wants for a thread, found by trying; each vector's part of a slice is kept in 12 registers.
uint32_t registers(const RingGemv& s) { return (s.format == 1 ? 58 : 50) + 14 * (s.columns * s.per_warp - 1); }

bool fits(const RingGemv& s) {
  const uint32_t threads = (s.slices / s.per_warp * s.groups + 1) * 32;
  return threads <= 1024 && registers(s) <= 255 && threads * s.resident * registers(s) <= 65536;
}

// The way with the most computing warps, but not more than `most`, that leaves `resident` blocks registers enough.
bool settle(RingGemv& s, uint32_t most, uint32_t resident) {
  for (uint32_t warps = most; warps > 0; --warps)
    for (uint32_t i : {0u, 1u, 2u, 3u})  // with many slices, two a warp mean half the sums to merge
      for (s.per_warp = s.slices > 8 ? (i ^ 1u) + 1 : i + 1, s.groups = 4; s.groups > 0; s.groups /= 2)
        if (s.slices % s.per_warp == 0 && s.slices / s.per_warp * s.groups == warps)
          for (s.resident = resident; s.resident > 0; --s.resident)
            if (fits(s)) return true;
  return false;
}

}  // namespace

RingChoice ring_choice(uint32_t format, uint32_t rows, uint32_t cols, uint32_t columns) {
  RingGemv s{.format = format, .slices = cols / ring_tile_cols, .columns = columns};
  // Two small blocks per SM, so that the next kernel's blocks come in one by one; not where that leaves an SM with a
  // block less than others, nor where a line of memory is shared by tiles, which then should be read by one block.
  if (columns == 1 && (s.slices > 7 || (format == 0 && (rows >= 16384 || rows <= 4224))))
    if (settle(s, 8, 4) && s.resident == 4) return {s, 2};
  if (!settle(s, 16, 2) && !settle(s, 31, 1))
    throw Error("ring_gemv: {} vectors of {} values do not fit in registers; {} do", columns, cols,
                columns > 1 ? ring_most_columns(format, cols) : 0);
  s.depth = format == 1 ? 3 : 2;
  return {s, 1};
}

uint32_t ring_most_columns(uint32_t format, uint32_t cols) {
  RingGemv s{.format = format, .slices = cols / ring_tile_cols};
  for (s.columns = 8; s.columns > 0; --s.columns)
    if (settle(s, 16, 2) || settle(s, 31, 1)) break;
  return s.columns;
}

Grid RingGemv::grid(const Args& args) const {
  if (args.cols != slices * ring_tile_cols)
    throw Error("ring_gemv: {} columns, but {} slices are {}", args.cols, slices, slices * ring_tile_cols);
  if (args.w.address % 16 || args.x.address % 16) throw Error("ring_gemv: x and w must be 16-byte aligned");
  if (args.blocks == 0) throw Error("ring_gemv: a grid of 0 blocks");
  return {.x = args.blocks};
}

}  // namespace heddle::kernels
