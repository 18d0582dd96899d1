// The distance between two lists of logits.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace heddle::test {

// The largest difference relative to the range of the expected values; infinite if any value is a NaN.
inline double worst(const std::vector<float>& expected, const std::vector<float>& found) {
  if (expected.size() != found.size() || expected.empty()) return std::numeric_limits<double>::infinity();
  const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
  double max = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(double(expected[i]) - found[i]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    max = std::max(max, difference);
  }
  return max / (double(*high) - *low);
}

// The root of the mean square difference, relative to the same range.
inline double root_mean_square(const std::vector<float>& expected, const std::vector<float>& found) {
  if (expected.size() != found.size() || expected.empty()) return std::numeric_limits<double>::infinity();
  const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) sum += std::pow(double(expected[i]) - found[i], 2);
  if (std::isnan(sum)) return std::numeric_limits<double>::infinity();
  return std::sqrt(sum / double(expected.size())) / (double(*high) - *low);
}

// The cosines between rows of `size` values; -2 where a cosine is undefined.
inline std::vector<double> cosines(const std::vector<float>& expected, const std::vector<float>& found, size_t size) {
  if (expected.size() != found.size() || expected.empty()) return {-2};
  std::vector<double> all;
  for (size_t at = 0; at < expected.size(); at += size) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = at; i < at + size; ++i) {
      ab += double(expected[i]) * found[i];
      aa += double(expected[i]) * expected[i];
      bb += double(found[i]) * found[i];
    }
    const double cosine = ab / std::sqrt(aa * bb);
    all.push_back(std::isnan(cosine) ? -2 : cosine);
  }
  return all;
}
inline double least_cosine(const std::vector<float>& expected, const std::vector<float>& found, size_t size) {
  const std::vector<double> all = cosines(expected, found, size);
  return *std::min_element(all.begin(), all.end());
}

}  // namespace heddle::test
