// Rotary frequencies: base^(-2 i / dim), stretched.
#include "base/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace heddle {
namespace {

using Kind = RopeScaling::Kind;
constexpr double two_pi = 2 * std::numbers::pi;

void check_scaling(uint32_t dim, double base, const RopeScaling& s) {
  if (dim == 0 || dim % 2) throw Error("rope: a rotary dimension of {}; it must be even and not 0", dim);
  if (!(base > 0)) throw Error("rope: a base of {}; it must be above 0", base);
  if (!(s.factor > 0)) throw Error("rope: a scaling factor of {}; it must be above 0", s.factor);
  if ((s.kind == Kind::yarn || s.kind == Kind::llama3) && s.original_length == 0)
    throw Error("rope: this scaling needs the original context length, found 0");
  if (s.kind == Kind::ntk && dim == 2) throw Error("rope: NTK scaling needs a rotary dimension above 2, found 2");
  if (s.kind == Kind::yarn && (!(s.fast > 0) || !(s.slow > 0) || base == 1))
    throw Error("rope: YaRN with {} and {} turns and base {}; turns above 0 and a base other than 1 expected", s.fast,
                s.slow, base);
  if (s.kind == Kind::llama3 && !(s.high_factor > s.low_factor && s.low_factor > 0))
    throw Error("rope: factors {} (low) and {} (high); 0 < low < high expected", s.low_factor, s.high_factor);
  if (s.kind == Kind::factors) {
    if (s.factors.size() != dim / 2)
      throw Error("rope: {} factors for a rotary dimension of {}, {} expected", s.factors.size(), dim, dim / 2);
    for (double f : s.factors)
      if (!(f > 0)) throw Error("rope: a factor of {} in the table; all must be above 0", f);
  }
}

// 0: keep the frequency of pair i; 1: divide it by the factor.
double yarn_ramp(uint32_t i, uint32_t dim, double base, const RopeScaling& s) {
  // the pair that turns `turns` times over the original length
  auto pair = [&](double turns) { return dim * std::log(s.original_length / (turns * two_pi)) / (2 * std::log(base)); };
  double low = pair(s.fast), high = pair(s.slow);
  if (s.whole) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  return std::clamp((i - low) / std::max(high - low, 0.001), 0.0, 1.0);
}

// 1: keep the frequency; 0: divide it by the factor.
double llama3_keep(double radians, const RopeScaling& s) {
  const double turns = s.original_length * radians / two_pi;  // over the original length
  return std::clamp((turns - s.low_factor) / (s.high_factor - s.low_factor), 0.0, 1.0);
}

double magnitude(const RopeScaling& s) {
  if (s.attention_factor != 0) return s.attention_factor;
  if (s.kind != Kind::yarn || s.factor <= 1) return 1;
  auto scale = [&](double m) { return 0.1 * m * std::log(s.factor) + 1; };
  return scale(s.mscale) / scale(s.mscale_all);
}

}  // namespace

RopeFrequencies rope_frequencies(uint32_t rotary_dim, double base, const RopeScaling& s) {
  check_scaling(rotary_dim, base, s);
  const double dim = rotary_dim;
  if (s.kind == Kind::ntk) base *= std::pow(s.factor, dim / (dim - 2));
  RopeFrequencies result{.radians = {}, .magnitude = magnitude(s)};
  for (uint32_t i = 0; i < rotary_dim / 2; ++i) {
    double f = std::pow(base, -2.0 * i / dim);
    auto between = [&](double keep) { return f * keep + f / s.factor * (1 - keep); };
    if (s.kind == Kind::linear) f /= s.factor;
    if (s.kind == Kind::yarn) f = between(1 - yarn_ramp(i, rotary_dim, base, s));
    if (s.kind == Kind::llama3) f = between(llama3_keep(f, s));
    if (s.kind == Kind::factors) f /= s.factors[i];
    if (!std::isfinite(f)) throw Error("rope: a frequency of {} for pair {}; base and factors must be finite", f, i);
    result.radians.push_back(f);
  }
  return result;
}

std::vector<uint64_t> RopeFrequencies::turns() const {
  std::vector<uint64_t> table;
  for (double f : radians) {
    const double turns = f / two_pi, fraction = turns - std::floor(turns);
    // 53 bits: 2^64 times a fraction below 1 fits
    table.push_back(fraction < 1 ? uint64_t(fraction * 0x1p64) : 0);
  }
  return table;
}

}  // namespace heddle
