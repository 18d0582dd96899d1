// Sums in f64, so that they add nothing of their own.
#include "main/device/closeness.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace heddle {

void Closeness::add(std::span<const float> right, std::span<const float> found) {
  check(right.size() == found.size() && !right.empty(), "logits of one vocabulary");
  ++positions;
  double both = 0, of_right = 0, of_found = 0, most = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    const double a = right[i], b = found[i];
    both += a * b, of_right += a * a, of_found += b * b;
    most = std::max(most, std::abs(a - b));
  }
  if (!std::isfinite(both) || !std::isfinite(of_found)) {
    cosine = -2, difference = std::numeric_limits<double>::infinity();
    return;
  }
  const auto [low, high] = std::minmax_element(right.begin(), right.end());
  const double range = double(*high) - *low;
  if (most > 0) difference = std::max(difference, range > 0 ? most / range : std::numeric_limits<double>::infinity());
  if (of_right == 0 && of_found == 0) return;  // both say nothing
  cosine = std::min(cosine, of_right > 0 && of_found > 0 ? both / std::sqrt(of_right * of_found) : 0);
}

}  // namespace heddle
