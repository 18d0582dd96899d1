// Percentiles are of every value, not of a histogram.
#include "main/bench/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

namespace heddle {

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  const auto at = values.begin() + long(std::max(1., std::ceil(q * double(values.size()))) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

nlohmann::ordered_json spread_of(std::vector<double>& seconds) {
  return {{"p50", quantile(seconds, 0.5)},
          {"p90", quantile(seconds, 0.9)},
          {"p99", quantile(seconds, 0.99)},
          {"max", quantile(seconds, 1)}};
}

std::string spread_text(const nlohmann::ordered_json& spread) {
  std::string text;
  for (const auto& [name, seconds] : spread.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, ms_text(seconds.get<double>()));
  return text;
}

std::string ms_text(double seconds) { return fmt::format("{:.1f} ms", 1000 * seconds); }

void print_figure(std::ostream& out, const char* name, const std::string& text) {
  out << fmt::format("{:<15} {}\n", name, text);
}

}  // namespace heddle
