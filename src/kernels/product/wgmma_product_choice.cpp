// Which shape of wgmma_product is fast for a matrix and a number of vectors.
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "kernels/product/tile.h"
#include "kernels/product/wgmma_product.h"

namespace heddle::kernels {

namespace {

// A way to cut a product up; the rest of the shape follows from it.
struct Cut {
  uint32_t columns, row_groups, col_groups, shares;
};

// With as many columns of x and of weights in flight as fit; none if that is not even two stages and two runs of each
// group. The copy engine takes about 60 cycles for a copy however short it is: with few vectors runs of two strips.
std::optional<WgmmaProduct> cut_up(WgmmaProduct s, const Cut& cut) {
  s.columns = cut.columns;
  s.row_groups = cut.row_groups;
  s.col_groups = cut.col_groups;
  s.shares = cut.shares;
  s.stage_cols = cut.columns == 256 ? 64 : 128;
  s.early = s.columns == 128;
  s.stages = s.runs = 2 * s.col_groups;
  s.run = s.columns <= 64 && s.col_groups == 1 ? 2 : 1;
  if (!s.fits()) s.run = 1;
  if (!s.fits()) s.early = 0;
  std::optional<WgmmaProduct> best;
  uint32_t most = 0;
  for (; s.runs <= 16; s.runs += s.col_groups)
    for (s.stages = 2 * s.col_groups; s.stages <= 24; s.stages += s.col_groups) {
      if (!s.fits()) break;
      const uint32_t columns = std::min(s.runs * s.run_cols(), s.stages * s.stage_cols);
      if (columns > most) {
        best = s;
        most = columns;
      }
    }
  return best;
}

WgmmaProduct in_slices(WgmmaProduct s, uint32_t cols) {
  s.tile_cols = tile_cols_for(cols);
  s.slices = (cols + s.tile_cols - 1) / s.tile_cols;
  return s;
}

// The tiles of an expert, on average, if each of many vectors takes any of many experts: their number has a Poisson
// distribution around its mean.
double tiles_of_expert(uint32_t columns, double mean) {
  const auto end = uint32_t(mean + 8 * std::sqrt(mean) + 8);
  double tiles = 0;
  for (uint32_t n = 1; n < end; ++n)
    tiles += std::exp(n * std::log(mean) - mean - std::lgamma(n + 1.0)) * ((n + columns - 1) / columns);
  return tiles;
}

// Cycles of an SM that a product takes, from what was seen on an H200. Only their order matters. `columns`: tiles along
// the vectors. Experts: of one of them, on average.
double cycles(const WgmmaProduct& s, uint32_t rows, double columns, uint32_t sms) {
  const double bits = double(tile_bytes(s.weights())) * 8 / tile_values;  // of a weight
  const uint32_t groups = s.row_groups * s.col_groups;
  const double row_tiles = std::ceil(double(rows) / s.tile_rows());
  const double waves = s.experts ? row_tiles * columns : std::ceil(row_tiles * columns * s.shares / sms);
  // of 64 rows and 128 columns
  const double multiply = 4.0 * std::max(s.columns, 16u), unpack = 200;
  const double read = 1024 * bits / (columns > 1.5 ? 40 : 19);
  const double beside = groups == 1 ? 1 : groups == 2 ? 0.3 : 0.15;  // what does not overlap
  const double busy = std::max(multiply, unpack), rest = std::min(multiply, unpack) * beside;
  const double units = double(s.row_groups);
  const double x = s.columns * 8.0;
  const double step = std::max({units * (busy + rest), units * read, x});
  const double tile = step * s.filled_cols() / WgmmaProduct::step_cols / s.shares + 2500 +
                      0.08 * s.tile_rows() * s.columns + (s.shares > 1 ? 1500 : 0) + (s.col_groups > 1 ? 500 : 0);
  return waves * tile;
}

}  // namespace

namespace {

// The ways that were fastest on an H200 for up to 128 vectors, in the order of preference. Where there are enough rows,
// four groups share them, so that each stage of x serves 256; else groups and clusters share the columns. Clusters of
// more than two never paid.
std::vector<Cut> for_few_vectors(uint32_t rows, uint32_t vectors, uint32_t sms) {
  const uint32_t columns = std::clamp(std::bit_ceil(vectors), 8u, 64u), tiles = (rows + 63) / 64;
  if (tiles >= 2 * sms) {
    if (vectors > 64) return {{128, 2, 1, 1}};
    return {{columns, 4, 1, 1}, {columns, 2, 2, 1}};
  }
  const uint32_t all = tiles * ((vectors + columns - 1) / columns);
  if (all > sms) return {{columns, 2, 2, 1}, {columns, 2, 1, 1}};
  std::vector<Cut> ways;
  if (vectors > 64 && 2 * tiles <= sms) ways = {{128, 1, 2, 2}};
  if (2 * all <= sms) ways = {{columns, 1, 4, 2}, {columns, 1, 2, 2}};
  ways.push_back({columns, 1, 4, 1});
  ways.push_back({columns, 1, 2, 1});
  return ways;
}

}  // namespace

WgmmaProduct wgmma_product_choice(const WgmmaProduct& what, uint32_t rows, uint32_t cols, uint32_t vectors,
                                  uint32_t sms) {
  const std::vector<WgmmaProduct> all = wgmma_product_candidates(what, rows, cols, vectors, sms);
  if (all.empty()) throw Error("wgmma_product: {} vectors of {} values do not fit", vectors, cols);
  return all[0];
}

std::vector<WgmmaProduct> wgmma_product_candidates(const WgmmaProduct& what, uint32_t rows, uint32_t cols,
                                                   uint32_t vectors, uint32_t sms) {
  constexpr uint32_t few = 128;
  const WgmmaProduct base = in_slices(what, cols);
  std::vector<WgmmaProduct> sorted;
  if (vectors <= few && !what.experts)
    for (const Cut& cut : for_few_vectors(rows, std::max(vectors, 1u), sms))
      if (auto s = cut_up(base, cut)) sorted.push_back(*s);
  std::vector<std::pair<double, WgmmaProduct>> all;
  for (uint32_t columns : {256u, 128u, 64u, 32u, 16u, 8u}) {
    // a few more vectors than expected are better than two tiles for many an expert
    if (columns / (what.experts ? 4 : 2) >= vectors && columns > 8) continue;
    const double tiles = what.experts ? tiles_of_expert(columns, vectors) : std::ceil(double(vectors) / columns);
    for (const Cut& cut : {Cut{columns, 2, 1, 1},
                           {columns, 3, 1, 1},
                           {columns, 4, 1, 1},
                           {columns, 2, 2, 1},
                           {columns, 1, 2, 1},
                           {columns, 1, 4, 1},
                           {columns, 1, 2, 2},
                           {columns, 1, 4, 2},
                           {columns, 1, 1, 1}})
      if (auto s = cut_up(base, cut);
          s && (!what.experts || s->shares == 1) && std::ranges::find(sorted, *s) == sorted.end())
        all.emplace_back(cycles(*s, rows, tiles, sms), *s);
  }
  std::ranges::stable_sort(all, {}, &std::pair<double, WgmmaProduct>::first);
  for (const auto& one : all) sorted.push_back(one.second);
  return sorted;
}

}  // namespace heddle::kernels
