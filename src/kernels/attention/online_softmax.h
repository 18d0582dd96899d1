// Softmax over positions in one pass: the weighted sum of their values, with the weights relative to the largest score
// so far. Scores are in base 2 (log2(e) is folded into the scale), so that a weight is one ex2.
#pragma once
#include <limits>
#include <numbers>

#include "kernels/spec/functions.h"
#include "ptx/warp.h"

namespace heddle::kernels {

// From the product of q and k to the score of a position in base 2: scale, soft-cap, and log2(e).
struct Score {
  ptx::F32 q_factor;  // factor of q, applied before the product
  ptx::F32 cap{};     // of the result, in base 2; empty: no cap
  Score(ptx::F32 scale) : q_factor(scale * float(std::numbers::log2e)) {}
  Score(ptx::F32 scale, ptx::F32 soft_cap) : q_factor(scale / soft_cap), cap(soft_cap * float(std::numbers::log2e)) {}

  // The score, from the product of k with q * q_factor.
  ptx::F32 of(ptx::F32 product) const { return cap.rec ? tanh(product) * cap : product; }
};

// ALiBi: what a score in base 2 loses for each position of distance.
inline ptx::F32 slope_of(ptx::F32 slope) { return slope * float(std::numbers::log2e); }
inline ptx::F32 sloped(ptx::F32 score, ptx::F32 slope, ptx::F32 distance) {
  return fma(-slope, ptx::abs(distance), score);
}

struct OnlineSoftmax {
  // The maximum over no positions. Finite, so that the difference of two of them is not NaN.
  static constexpr float none = std::numeric_limits<float>::lowest();
  // The score of a masked position: its weight is 0 even if all positions are masked.
  static constexpr float masked = -std::numeric_limits<float>::infinity();

  ptx::Var<float> max, sum;
  std::vector<ptx::Var<float>> acc;  // sum of weight * value

  OnlineSoftmax(ptx::Code& k, uint32_t values) : max(k.var(none)), sum(k.var(0.0f)) {
    for (uint32_t i = 0; i < values; ++i) acc.push_back(k.var(0.0f));
  }

  // Begins with a score that has no value (a sink). `weight`: of a position with the largest score, in all lanes that
  // are summed up.
  void begin_with(ptx::F32 sink, ptx::F32 weight) {
    max = sink * float(std::numbers::log2e);
    sum = weight;
  }
  // Raises the maximum to `top`, which is not below it, and returns the factor for the accumulator; the sum of weights
  // is rescaled here.
  ptx::F32 raise(ptx::F32 top) {
    const ptx::F32 shrink = ex2_approx_ftz(max.get() - top);
    sum *= shrink;
    max = top;
    return shrink;
  }
  // Raises the maximum to these scores, rescales the sums so far, and returns each score's weight.
  std::vector<ptx::F32> weigh(const std::vector<ptx::F32>& scores) {
    ptx::F32 top = max.get();
    for (ptx::F32 s : scores) top = ptx::max(top, s);
    const ptx::F32 shrink = raise(top);
    for (auto& a : acc) a *= shrink;
    std::vector<ptx::F32> weights;
    for (ptx::F32 s : scores) weights.push_back(ex2_approx_ftz(s - top));
    return weights;
  }
  // Adds a position with this weight.
  void add(ptx::F32 weight, const std::vector<ptx::F32>& values) {
    sum += weight;
    for (size_t i = 0; i < acc.size(); ++i) acc[i].add_product(weight, values[i]);
  }
  // Merges a softmax over other positions; one over no positions changes nothing.
  void merge(ptx::F32 other_max, ptx::F32 other_sum, const std::vector<ptx::F32>& values) {
    const ptx::F32 weight = weigh({other_max})[0];
    sum.add_product(other_sum, weight);
    for (size_t i = 0; i < acc.size(); ++i) acc[i].add_product(values[i], weight);
  }
  // Merges with the lane `distance` away (xor). Both lanes end with the same state.
  void merge_lane(uint32_t distance) {
    auto over_there = [&](const ptx::Var<float>& v) { return shuffle_xor(v.get(), distance); };
    std::vector<ptx::F32> values;
    for (auto& a : acc) values.push_back(over_there(a));
    merge(over_there(max), over_there(sum), values);
  }
  // The final factor of the values: no positions give zeros, never NaN.
  ptx::F32 inverse_sum() const {
    const ptx::F32 s = sum.get();
    return select(s == 0.0f, s, rcp(s));
  }
};

}  // namespace heddle::kernels
