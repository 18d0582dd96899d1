// The bounds of histograms, and quantiles between them.
#include "engine/metrics.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/error.h"

namespace heddle::engine {
namespace {

constexpr std::array seconds{1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.015, 0.02, 0.025,
                             0.03, 0.04, 0.05, 0.06, 0.08, 0.1,  0.15, 0.2,   0.3,  0.5,
                             0.7,  1.0,  2.0,  5.0,  10.0, 20.0, 60.0, 120.0, 300.0};
constexpr std::array counts{1.,   2.,    4.,    8.,    16.,   32.,    64.,    128.,  256.,
                            512., 1024., 2048., 4096., 8192., 16384., 32768., 65536.};

}  // namespace

std::span<const double> bounds_of_seconds() { return seconds; }
std::span<const double> bounds_of_counts() { return counts; }

std::string_view name_of(FinishReason finish_reason) {
  switch (finish_reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::context:
      return "context";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::failed:
      return "failed";
  }
  throw std::logic_error("a finish reason without a name");
}

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds) {
  check(bounds.size() <= max_bounds && std::is_sorted(bounds.begin(), bounds.end()), "few and ascending bounds");
}

void Histogram::add(double value) {
  check(std::isfinite(value), "a number to count");
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[size_t(bound - bounds_.begin())];
  largest_ = count_ ? std::max(largest_, value) : value;
  sum_ += value;
  ++count_;
}

double Histogram::quantile(double q) const {
  const double wanted = std::clamp(q, 0., 1.) * double(count_);
  double below = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    const double here = double(counts_[i]);
    if (here == 0 || below + here < wanted) {
      below += here;
      continue;
    }
    const double from = i ? bounds_[i - 1] : std::min(0., largest_);
    const double to = i < bounds_.size() ? std::min(bounds_[i], largest_) : largest_;
    return from + (to - from) * (wanted - below) / here;
  }
  return largest_;
}

}  // namespace heddle::engine
