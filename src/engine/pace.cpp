// Least squares: four coefficients from a few dozen measurements. None can be negative, so every subset of them is
// tried with the others at 0.
#include "engine/pace.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

namespace heddle::engine {
namespace {

constexpr uint64_t first_rows = 16, first_context = 1 << 16;  // limits of a batch before anything was measured
constexpr double half_life = 512;                             // of a measurement, in batches
constexpr double max_excess = 2, excess_decay = 0.93;
constexpr double max_surprise = 4;  // times what was expected: a longer time is not the batch's own

constexpr int costs = 4;
using Row = std::array<double, costs>;

// The sums that a least squares fit needs.
struct Sums {
  std::array<Row, costs> xx{};
  Row xy{};
  double yy = 0;
};

// The coefficients that fit best if those that are not in `used` are 0. False: the measurements do not determine them.
bool solve(const Sums& sums, unsigned used, Row& x) {
  std::array<std::array<double, costs + 1>, costs> m{};
  for (int i = 0; i < costs; ++i) {
    const bool on = used >> i & 1;
    for (int j = 0; j < costs; ++j) m[i][j] = on && (used >> j & 1) ? sums.xx[i][j] : i == j ? 1 : 0;
    m[i][costs] = on ? sums.xy[i] : 0;
  }
  for (int i = 0; i < costs; ++i) {
    const double whole = used >> i & 1 ? sums.xx[i][i] : 1;
    if (!(m[i][i] > 1e-6 * whole)) return false;  // the others explain all of it
    for (int j = 0; j < costs; ++j) {
      if (j == i) continue;
      const double factor = m[j][i] / m[i][i];
      for (int k = i; k <= costs; ++k) m[j][k] -= factor * m[i][k];
    }
  }
  for (int i = 0; i < costs; ++i) x[i] = m[i][costs] / m[i][i];
  return true;
}

double error_of(const Sums& sums, const Row& x) {
  double error = sums.yy;
  for (int i = 0; i < costs; ++i) {
    error -= 2 * x[i] * sums.xy[i];
    for (int j = 0; j < costs; ++j) error += x[i] * sums.xx[i][j] * x[j];
  }
  return error;
}

}  // namespace

void Pace::fit() {
  Row scale{1, 1, 1, 1};  // so that all numbers are of the same magnitude
  for (const Sample& s : samples_) {
    scale[1] = std::max(scale[1], s.rows);
    scale[2] = std::max(scale[2], s.context);
    scale[3] = std::max(scale[3], s.depth);
  }
  Sums sums;
  for (const Sample& s : samples_) {
    const Row x{1, s.rows / scale[1], s.context / scale[2], s.depth / scale[3]};
    const double age = std::exp2(-double(learnt_ - s.learnt) / half_life);
    const double weight = age / (s.seconds * s.seconds);
    for (int i = 0; i < costs; ++i) {
      for (int j = 0; j < costs; ++j) sums.xx[i][j] += weight * x[i] * x[j];
      sums.xy[i] += weight * x[i] * s.seconds;
    }
    sums.yy += age;
  }
  // By rows alone first: if the measurements do not determine more, that errs on the safe side.
  double best = INFINITY;
  for (const unsigned used : {0b0010u, 0b0001u, 0b0100u, 0b1000u, 0b0011u, 0b0110u, 0b1010u, 0b0101u, 0b1001u, 0b1100u,
                              0b0111u, 0b1011u, 0b1110u, 0b1101u, 0b1111u}) {
    Row x;
    if (!solve(sums, used, x) || std::any_of(x.begin(), x.end(), [](double factor) { return factor < 0; })) continue;
    const double error = error_of(sums, x);
    if (error > best - 1e-6 * sums.yy) continue;
    best = error;
    for (int i = 0; i < costs; ++i) by_[i] = x[i] / scale[i];
  }
  fit_rows();
}

// The mean time around each power of two of rows, less what context and depth cost.
void Pace::fit_rows() {
  struct Mean {
    double weight = 0, rows = 0, seconds = 0;
  };
  std::map<uint32_t, Mean> means;
  for (const Sample& s : samples_) {
    const double age = std::exp2(-double(learnt_ - s.learnt) / half_life);
    Mean& mean = means[s.size >> 16];
    mean.weight += age;
    mean.rows += age * s.rows;
    mean.seconds += age * (s.seconds - by_[2] * s.context - by_[3] * s.depth);
  }
  knots_.clear();
  for (const auto& [size, mean] : means) {
    const double least = knots_.empty() ? 0 : knots_.back().seconds;  // more rows never take less time
    knots_.push_back({mean.rows / mean.weight, std::max(least, mean.seconds / mean.weight)});
  }
}

double Pace::of_rows(double rows) const {
  const auto above = std::find_if(knots_.begin(), knots_.end(), [&](const Knot& k) { return k.rows >= rows; });
  if (above != knots_.begin() && above != knots_.end()) {
    const Knot& below = above[-1];
    return below.seconds + (above->seconds - below.seconds) * (rows - below.rows) / (above->rows - below.rows);
  }
  const Knot& end = above == knots_.end() ? knots_.back() : *above;
  return std::max(0., end.seconds + by_[1] * (rows - end.rows));
}

void Pace::learn(const Load& load, double seconds) {
  if (load.rows == 0 || !(seconds > 0)) return;
  ++learnt_;
  if (const double expected = expect(load); expected > 0) {
    seconds = std::min(seconds, max_surprise * expected);
    const double before = excess(load.rows);
    excess_[size_t(std::bit_width(load.rows))] =
        std::clamp(before * seconds / expected, 1 + (before - 1) * excess_decay, max_excess);
  }
  largest_rows_ = std::max(largest_rows_, load.rows);
  largest_context_ = std::max(largest_context_, load.context);
  const auto size = uint32_t(std::bit_width(load.rows) << 16 | std::bit_width(load.context / load.rows) << 8 |
                             std::bit_width(load.context / std::max<uint64_t>(load.depth, 1)));
  auto it = std::find_if(samples_.begin(), samples_.end(), [&](const Sample& s) { return s.size == size; });
  if (it == samples_.end())
    it = samples_.insert(it, {size, double(load.rows), double(load.context), double(load.depth), seconds, 0});
  it->learnt = learnt_;
  for (auto [mean, value] : {std::pair(&it->rows, double(load.rows)), std::pair(&it->context, double(load.context)),
                             std::pair(&it->depth, double(load.depth)), std::pair(&it->seconds, seconds)})
    *mean += 0.25 * (value - *mean);
  fit();
}

double Pace::usual(const Load& load) const {
  if (knots_.empty()) return 0;
  return of_rows(double(load.rows)) + by_[2] * double(load.context) + by_[3] * double(load.depth);
}
double Pace::expect(const Load& load) const { return usual(load) * excess(load.rows); }

double Pace::excess(uint64_t rows) const {
  for (size_t size = size_t(std::bit_width(rows)); size > 0; --size)
    if (excess_[size] > 0) return excess_[size];
  return 1;
}

uint32_t Pace::rows_within(double seconds, const Load& load, uint64_t position, uint32_t limit) const {
  if (std::isinf(seconds)) return limit;
  const uint64_t rows = std::max(first_rows, 2 * largest_rows_);
  const uint64_t context = std::max(first_context, 4 * largest_context_);
  const auto fits = [&](uint32_t count) {
    const Load all = load.with(count, position);
    return all.rows <= rows && all.context <= context && expect(all) <= seconds;
  };
  uint32_t within = 0, beyond = limit + 1;
  while (beyond - within > 1) {
    const uint32_t middle = within + (beyond - within) / 2;
    (fits(middle) ? within : beyond) = middle;
  }
  return within;
}

}  // namespace heddle::engine
