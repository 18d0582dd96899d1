// Which shape of a product to choose. Measured on an H200; what matters most is how blocks are placed on the SMs.
#include <algorithm>
#include <cmath>

#include "kernels/product/product.h"
#include "kernels/product/tile.h"

namespace heddle::kernels {

namespace {

// Registers of a thread, found by trial: each vector's share of a slice is kept in 12 registers.
uint32_t registers(const Product& s) {
  if (s.exact) return 72 + 32 * s.columns;
  const uint32_t base = s.weights() == quant::Format::q4_k && !s.mixed ? 50 : 60;
  return base + 14 * (s.columns * s.per_warp - 1) + 4 * (s.columns - 1);
}

// All shared memory of a block, known at build time.
uint32_t shared_bytes(const Product& s) {
  const uint32_t compute = s.warps() - 1;
  const uint32_t books = codebook_bytes(s.weights()) + (s.mixed ? codebook_bytes(s.second_weights()) : 0);
  return books + s.ring_bytes() + compute * 4 * 8 + s.x_bytes() + 2 * s.columns * s.slices / s.per_warp * s.unit * 4 +
         1024;
}

constexpr uint32_t small_room = 76, large_room = 114;  // KB

// Whether blocks of consecutive products find room on one SM.
bool chains(const Product& s, const GpuLimits& gpu) {
  return s.copies == copies_bulk && gpu.shared_per_sm >= (small_room + large_room + 4) * 1024;
}

bool fits(const Product& s, const GpuLimits& gpu) {
  const uint32_t all_shared = gpu.shared_per_block - 1024;  // of the blocks of an SM
  const uint32_t threads = s.warps() * 32, shared = std::max(shared_bytes(s), s.room * 1024);
  if (s.warps() > 32 || registers(s) > 255 || threads * s.resident * registers(s) > 65536) return false;
  if (threads * s.resident > gpu.threads_per_sm) return false;
  // next to a block of the other size, or `resident` blocks of the same
  return shared <= (s.room == large_room   ? all_shared - small_room * 1024
                    : s.room == small_room ? all_shared - large_room * 1024
                                           : all_shared / s.resident);
}

// The shape with the most computing warps, up to max_warps, that leaves registers for `resident` blocks.
bool settle(Product& s, const GpuLimits& gpu, uint32_t max_warps, uint32_t resident, uint32_t least_resident = 1) {
  for (uint32_t warps = max_warps; warps > 0; --warps)
    for (uint32_t unit : {16u, 32u}) {
      const uint32_t max_groups = std::min(8u, unit / (tile_values / s.tile_cols));
      // with many slices, two per warp halve the sums to merge; else one per warp takes the fewest registers
      for (uint32_t i = 1; i <= max_groups; i *= 2) {
        const uint32_t groups = s.slices > 8 ? max_groups / i : i;
        if (warps % groups || s.slices % (warps / groups)) continue;
        s.unit = unit;
        s.groups = groups;
        s.per_warp = s.slices / (warps / groups);
        set_second_groups(s);
        for (s.resident = resident; s.resident >= least_resident; --s.resident)
          if (fits(s, gpu)) return true;
      }
    }
  return false;
}

bool settle_any(Product& s, const GpuLimits& gpu) { return settle(s, gpu, 16, 2) || settle(s, gpu, 31, 1); }

// A block by itself on an SM: the most warps with two tiles in flight each, then the most tiles. A warp that waits for
// each tile has one, and more warps make up for it.
bool settle_alone(Product& s, const GpuLimits& gpu) {
  uint32_t most = 0;
  Product best;
  for (s.depth = gpu.cp_async ? 4 : 1; s.depth > 0; --s.depth)
    if (Product t = s; (gpu.cp_async && settle(t, gpu, 16, 1)) || settle(t, gpu, 31, 1))
      if (const uint32_t score = t.warps() * std::min(t.depth, 2u); score > most) {
        most = score;
        best = t;
      }
  if (most) s = best;
  return most != 0;
}

// As many tiles in flight as keep the memory busy, and no more.
void set_depth(Product& s, const GpuLimits& gpu) {
  constexpr uint32_t wanted = 64 * 1024;  // bytes per SM
  const uint32_t tile = std::max(tile_bytes(s.weights()), s.mixed ? tile_bytes(s.second_weights()) : 0);
  for (s.depth = 2; s.depth < 8 && (s.warps() - 1) * s.depth * tile < wanted;) {
    ++s.depth;
    if (!fits(s, gpu)) {
      --s.depth;
      return;
    }
  }
}

Product with_tiles(Product s, uint32_t cols) {
  s.tile_cols = tile_cols_for(cols);
  s.slices = (cols + s.tile_cols - 1) / s.tile_cols * std::max(s.summed, 1u);
  return s;
}

}  // namespace

ProductChoice product_choice(const Product& what, uint32_t rows, uint32_t cols, bool large, const GpuLimits& gpu) {
  Product s = with_tiles(what, cols);
  s.room = s.late = 0;
  if (!chains(s, gpu) && settle_alone(s, gpu)) return {s, 1};
  // not for the output head, which runs too long for alternating sizes to matter
  if (chains(s, gpu) && s.columns == 1 && rows < 65536) {
    s.room = large ? large_room : small_room;
    s.depth = 2;
    if (settle(s, gpu, 18, 2, 2) && s.warps() > 4) {
      if (!s.mixed) set_depth(s, gpu);
      // The first loads of the next kernel would delay x. In a short product they are needed at once anyway, and in a
      // long one they fill the gaps at its end.
      const uint64_t weights = uint64_t(rows) * cols;
      s.late = !s.experts && weights >= 24'000'000 && weights < 48'000'000;
      return {s, 1};
    }
    s.room = 0;
  }
  s.late = 0;
  for (s.depth = 3; s.depth > 0; --s.depth)
    if (settle_any(s, gpu)) return {s, 1};
  throw Error("product: {} vectors of {} values do not fit; {} do", s.columns, cols,
              s.columns > 1 ? product_max_columns(what, cols, gpu) : 0);
}

uint32_t Product::second_depth() const {
  const uint32_t first = groups * depth * tile_bytes(weights()), each = second_groups * tile_bytes(second_weights());
  return std::clamp(first / each, 2u, 8u);
}
uint32_t Product::ring_bytes() const {
  const uint32_t first = groups * depth * tile_bytes(weights());
  const uint32_t other = mixed ? second_groups * second_depth() * tile_bytes(second_weights()) : 0;
  return slices / per_warp * std::max(first, other);
}

uint32_t mixed_blocks(const Product& s, uint32_t first_rows, uint32_t second_rows, uint32_t blocks) {
  const uint32_t tile_rows = tile_values / s.tile_cols;
  // fewer warps take a little longer over the same bytes
  const double cost = tile_bytes(s.weights()),
               second_cost = tile_bytes(s.second_weights()) * (s.second_groups < s.groups ? 1.2 : 1.0);
  auto rows_each = [&](uint32_t rows, uint32_t n) { return ((rows + tile_rows - 1) / tile_rows + n - 1) / n; };
  uint32_t best = 1;
  double least = INFINITY;
  for (uint32_t n = 1; n < blocks; ++n) {
    const double longest = std::max(rows_each(first_rows, blocks - n) * cost, rows_each(second_rows, n) * second_cost);
    if (longest < least) {
      least = longest;
      best = n;
    }
  }
  return best;
}

void set_second_groups(Product& s) {
  s.second_groups = s.groups;
  while (s.mixed && s.second_groups > 1 &&
         s.second_groups * 2 * tile_bytes(s.second_weights()) > s.groups * s.depth * tile_bytes(s.weights()))
    s.second_groups /= 2;
}

bool product_fits(const Product& s, const GpuLimits& gpu) {
  if (s.unit != 16 && s.unit != 32) return false;
  const uint32_t unit_tiles = s.unit / (tile_values / s.tile_cols);
  return s.per_warp && s.groups && s.slices % s.per_warp == 0 && unit_tiles % s.groups == 0 && s.resident &&
         s.resident <= 4 && s.depth && s.depth <= 8 && fits(s, gpu);
}

std::vector<ProductChoice> product_candidates(const Product& what, uint32_t rows, uint32_t cols, bool large,
                                              const GpuLimits& gpu) {
  std::vector<ProductChoice> all{product_choice(what, rows, cols, large, gpu)};
  auto add = [&](const Product& s, uint32_t per_sm) {
    if (std::none_of(all.begin(), all.end(),
                     [&](const ProductChoice& c) { return c.spec == s && c.blocks_per_sm == per_sm; }))
      all.push_back({s, per_sm});
  };
  Product s = with_tiles(what, cols);
  for (uint32_t depth : {2u, 3u, 4u})
    for (uint32_t max_warps : {8u, 12u, 16u, 20u}) {
      if (!chains(s, gpu)) {
        s.depth = depth;
        if (settle(s, gpu, max_warps, 1)) add(s, 1);
        continue;
      }
      s.room = large ? large_room : small_room;
      s.depth = depth;
      for (uint32_t late : {0u, 1u})
        if (s.late = late; settle(s, gpu, max_warps, 2, 2)) add(s, 1);
    }
  s.room = 0;
  s.late = 0;
  for (uint32_t per_sm : {2u, 4u}) {
    // leave room for the next kernel's blocks
    const uint32_t resident = chains(s, gpu) ? std::min(4u, per_sm + 1) : per_sm;
    for (uint32_t max_warps : {4u, 8u})
      for (uint32_t depth : {2u, 4u})
        if (s.depth = depth; settle(s, gpu, max_warps, 4, resident)) add(s, per_sm);
  }
  return all;
}

uint32_t product_max_columns(const Product& what, uint32_t cols, const GpuLimits& gpu) {
  Product s = with_tiles(what, cols);
  s.room = 0;
  s.depth = 1;
  for (s.columns = s.exact ? 2 : 8; s.columns > 0; --s.columns)
    if (settle_any(s, gpu)) break;
  return s.columns;
}

}  // namespace heddle::kernels
