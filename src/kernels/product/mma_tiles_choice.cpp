// Which shape of mma_tiles is fast for a matrix and a number of vectors.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "kernels/product/mma_tiles.h"
#include "kernels/product/tile.h"

namespace heddle::kernels {

namespace {

// With as much of x in flight as fits; none if that is not even two stages.
std::optional<MmaTiles> with_stages(MmaTiles s, uint32_t shared_limit) {
  constexpr uint32_t max_stages = 4;
  s.stage_cols = s.col_warps > 1 || s.columns < 64 ? 128 : 64;
  for (s.stages = s.async ? max_stages : 2; s.stages >= 2; --s.stages)
    if (s.fits(shared_limit)) return s;
  return {};
}

// Cycles of an SM that a product takes, from the instructions in the text and the rates of an H200. Only their order
// matters. `columns`: tiles along the vectors. Experts: of one of them, on average.
double tile_cycles(const MmaTiles& s, uint32_t rows, double columns, uint32_t sms) {
  const double bits = double(tile_bytes(s.weights())) * 8 / tile_values;  // of a weight
  const double tiles = std::ceil(double(rows) / s.tile_rows()) * columns;
  const double of_sm = s.experts ? std::max(tiles / sms, 1.0) : std::ceil(tiles / sms);
  const double together = std::min(double(s.resident), of_sm);  // blocks of an SM
  // of 16 rows and 128 columns
  const double multiply = 2.0 * s.columns, read_x = multiply / s.row_tiles;
  const double issue = (165 + s.columns + (0.5 * s.columns + 116) / s.row_tiles) / 4;
  const double warps = s.warps() * together, beside = warps >= 16 ? 0.15 : warps >= 8 ? 0.3 : 0.6;
  const double busy = std::max(multiply, issue) + beside * (std::min(multiply, issue) + read_x);
  const double read = 16 * 128 * bits / 8 / 24;
  const double sixteens = s.row_warps * s.row_tiles * s.col_warps, x = s.columns * s.col_warps * 256.0 / 40;
  const double step = std::max({sixteens * busy, sixteens * read, x});  // of all warps of a block
  const double latency = 700;                                           // from a request for weights to the words
  const double steps = double(s.filled_cols()) / MmaTiles::step_cols / s.col_warps;
  const double ending = 2000 + 0.08 * s.tile_rows() * s.columns + (s.col_warps > 1 ? 500 : 0);
  return of_sm * (steps * std::max(step, latency / together) + ending);
}

}  // namespace

std::vector<MmaTiles> mma_tiles_candidates(const MmaTiles& what, uint32_t rows, uint32_t cols, uint32_t vectors,
                                           uint32_t sms, uint32_t shared_limit) {
  MmaTiles base = what;
  base.tile_cols = tile_cols_for(cols);
  base.slices = (cols + base.tile_cols - 1) / base.tile_cols;
  std::vector<std::pair<double, MmaTiles>> all;
  for (uint32_t columns : {128u, 64u, 32u, 16u}) {
    if (columns / 2 >= vectors && columns > 16) continue;
    // the last tile of an expert is half empty, on average
    const double tiles =
        what.experts ? std::max(double(vectors) / columns + 0.5, 1.0) : std::ceil(double(vectors) / columns);
    for (uint32_t row_tiles : {2u, 1u})
      for (uint32_t row_warps : {8u, 4u, 2u, 1u})
        for (uint32_t col_warps : {1u, 2u, 4u, 8u})
          for (uint32_t resident : {2u, 1u}) {
            MmaTiles s = base;
            s.columns = columns;
            s.row_tiles = row_tiles;
            s.row_warps = row_warps;
            s.col_warps = col_warps;
            s.resident = resident;
            if (s.warps() < 4) continue;
            if (const auto fit = with_stages(s, shared_limit))
              all.emplace_back(tile_cycles(*fit, rows, tiles, sms), *fit);
          }
  }
  std::ranges::stable_sort(all, {}, &std::pair<double, MmaTiles>::first);
  std::vector<MmaTiles> sorted;
  for (const auto& one : all) sorted.push_back(one.second);
  return sorted;
}

MmaTiles mma_tiles_choice(const MmaTiles& what, uint32_t rows, uint32_t cols, uint32_t vectors, uint32_t sms,
                          uint32_t shared_limit) {
  const std::vector<MmaTiles> all = mma_tiles_candidates(what, rows, cols, vectors, sms, shared_limit);
  if (all.empty()) throw Error("mma_tiles: {} vectors of {} values do not fit", vectors, cols);
  return all[0];
}

}  // namespace heddle::kernels
