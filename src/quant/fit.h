// The scale (and min) that a group of values is encoded with, found by search: for each of some candidates the values
// are rounded to quants, and the best scale for those quants follows by least squares; the candidate that leaves the
// smallest error wins. Sums are of integers, for which the values are put on a grid of 2^20 steps: integer sums may be
// reordered, so that the compiler vectorises them, and they are the same on every machine.
#pragma once
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "quant/half.h"

namespace heddle::quant {

// The nearest integer, ties to even, and then the nearest in the range. The sum has no room for a fraction; where v is
// beyond 2^22 it is no longer that integer, but on the same side of it: a negative sum has the bits of a negative int,
// for which 0 stands, the least that has no sign.
inline int nearest(float v) { return std::max(std::bit_cast<int>(v + 0x1.8p23f), 0) - 0x4b400000; }
inline int nearest_in(float v, int lo, int hi) { return std::clamp(nearest(v), lo, hi); }

// The bits of floats of one sign are ordered as integers; the compiler vectorises an integer maximum only.
template <int n>
float largest_magnitude(const float* x) {
  int max = 0;
  for (int i = 0; i < n; ++i) max = std::max(max, std::bit_cast<int>(x[i]) & 0x7fffffff);
  return std::bit_cast<float>(max);
}

// The f16 nearest to a scale, as f32: never infinite, and 0 only for 0.
inline float f16_scale(float scale) {
  const float magnitude = std::clamp(std::abs(scale), 0x1p-24f, 65504.0f);
  return scale == 0 ? 0.0f : std::copysign(f32_of_f16(f16_of_f32(magnitude)), scale);
}
inline float inverse(float scale) { return scale == 0 ? 0.0f : 1 / scale; }

// Below this no f16 scale reaches the values: they are zeros.
inline constexpr float negligible = 0x1p-40f;

// A group on a grid of integers.
template <int n, int steps = 1 << 20>
struct OnGrid {
  int v[n];
  float unit;  // x = v * unit

  OnGrid(const float* x, float largest) : unit(largest * (1.0f / steps)) {
    const float per_unit = steps / largest;
    for (int i = 0; i < n; ++i) v[i] = nearest(x[i] * per_unit);
  }
};

// x ~ scale * q, q from lo to hi. Candidates: the value of largest magnitude becomes lo, or something near it.
template <int n, int lo, int hi>
float fit_scale(const float* x) {
  const float largest = largest_magnitude<n>(x);
  if (largest < negligible) return 0;
  const OnGrid<n> grid(x, largest);
  int top = 0, bottom = 0;
  for (int i = 0; i < n; ++i) {
    top = std::max(top, grid.v[i]);
    bottom = std::min(bottom, grid.v[i]);
  }
  const float per_extreme = (top > -bottom ? 1 : -1) / largest;
  constexpr float step = lo < -8 ? 0.5f : 0.3f;  // 19 steps of 0.1 leave 0.1 % less error (more, from 32 quants on)

  int best_qq = 1, best_qv = 0;
  for (int candidate = -2; candidate <= 4; ++candidate) {
    const float per_quant = (float(lo) + step * float(candidate)) * per_extreme;
    int qq = 0, qv = 0;
    for (int i = 0; i < n; ++i) {
      const int q = nearest_in(x[i] * per_quant, lo, hi);
      qq += q * q;
      qv += q * grid.v[i];
    }
    // the error left is v * v - qv * qv / qq; no branch: it could not be predicted
    const bool better = double(qv) * qv * best_qq > double(best_qv) * best_qv * qq;
    best_qq = better ? qq : best_qq;
    best_qv = better ? qv : best_qv;
  }
  return float(double(best_qv) / best_qq) * grid.unit;
}

// x ~ scale * q + offset.
struct Line {
  float scale = 0, mean_x = 0, mean_q = 0;

  // The best offset for a scale near the fitted one, with the quants as they are. Never infinite.
  float offset(float with_scale) const { return std::clamp(mean_x - with_scale * mean_q, -FLT_MAX, FLT_MAX); }
};
// The line for q from 0 to hi. Candidates: the smallest value is at 0 or `reach` of a step to either side of it, the
// largest the same at hi; 25 candidates would leave 1 % less error. `below`: the offset must not be above 0.
template <int n, int hi, bool below>
Line fit_line(const float* x) {
  const float largest = largest_magnitude<n>(x);
  if (largest < negligible) return {};
  const OnGrid<n> grid(x, largest);
  int top = grid.v[0], bottom = grid.v[0], sum = 0;
  for (int i = 0; i < n; ++i) {
    top = std::max(top, grid.v[i]);
    bottom = std::min(bottom, grid.v[i]);
    sum += grid.v[i];
  }
  const bool through_zero = below && bottom > 0;  // the offset is 0
  if (below) bottom = std::min(bottom, 0);
  const float mean = float(sum) * (1.0f / n) * grid.unit;
  if (top == bottom) return {0, mean, 0};
  const float base = float(bottom) * grid.unit, per_range = 1 / float(top - bottom) / grid.unit;
  constexpr float reach = hi > 15 ? 0.7f : 0.45f;

  int best_q1 = 0, best_qq = 1, best_qv = 0;
  double best_slope = 0, best_spread = 1;
  for (int candidate = 0; candidate < 9; ++candidate) {
    const float start = reach * float(candidate % 3 - 1), end = float(hi) + reach * float(candidate / 3 - 1);
    const float per_quant = (end - start) * per_range, at_zero = start - base * per_quant;
    int q1 = 0, qq = 0, qv = 0;
    for (int i = 0; i < n; ++i) {
      const int q = nearest_in(x[i] * per_quant + at_zero, 0, hi);
      q1 += q;
      qq += q * q;
      qv += q * grid.v[i];
    }
    // the error left is (n * v * v - sum * sum - slope * slope / spread) / n
    const double spread = through_zero ? qq : n * qq - q1 * q1;
    const double slope = through_zero ? qv : double(n) * qv - double(q1) * sum;
    const bool better = slope * slope * best_spread > best_slope * best_slope * spread;
    best_q1 = better ? q1 : best_q1;
    best_qq = better ? qq : best_qq;
    best_qv = better ? qv : best_qv;
    best_slope = better ? slope : best_slope;
    best_spread = better ? spread : best_spread;
  }
  const double scale = best_slope / best_spread;
  if (through_zero) return {float(scale) * grid.unit, 0, 0};
  if (below && scale * best_q1 < sum) return {float(double(best_qv) / best_qq) * grid.unit, 0, 0};
  return {float(scale) * grid.unit, mean, float(best_q1) * (1.0f / n)};
}

// The unit, an f16, of integer multiples up to `max_multiple` of either sign that are near to all of `values`: the
// largest magnitude is `max_multiple` units or somewhat less, whichever leaves the least square error.
template <int count, int max_multiple>
float fit_unit(const float* values) {
  float largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  const float per_largest = inverse(largest);  // squares of huge values would be infinite
  float best = 0, least = INFINITY;
  for (int candidate = 0; candidate < 8; ++candidate) {
    const float unit = f16_scale(largest / (float(max_multiple) - 0.5f * float(candidate))), per_unit = inverse(unit);
    float error = 0;
    for (int i = 0; i < count; ++i) {
      const float rest =
          (values[i] - unit * float(nearest_in(values[i] * per_unit, -max_multiple, max_multiple))) * per_largest;
      error += rest * rest;
    }
    best = error < least ? unit : best;
    least = error < least ? error : least;
  }
  return best;
}

// The same for multiples from -max_multiple to max_multiple - 1: the sign is such that the value of largest magnitude
// is below 0.
template <int count, int max_multiple>
float fit_signed_unit(const float* values) {
  float extreme = 0;
  for (int i = 0; i < count; ++i) extreme = std::abs(values[i]) > std::abs(extreme) ? values[i] : extreme;
  return std::copysign(fit_unit<count, max_multiple>(values), -extreme);
}

}  // namespace heddle::quant
