#include "base/duration.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace heddle {
namespace {

constexpr std::pair<std::string_view, double> units[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};

// The number and the unit that a text begins with, which are taken off it.
std::optional<double> take_part(std::string_view& text, bool alone) {
  double number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (end.ec != std::errc() || !std::isfinite(number) || number < 0 || text.front() == '-') return std::nullopt;
  text.remove_prefix(size_t(end.ptr - text.data()));
  if (text.empty() && alone) return number;
  for (const auto& [name, seconds] : units)
    if (text.starts_with(name)) {
      text.remove_prefix(name.size());
      return number * seconds;
    }
  return std::nullopt;
}

}  // namespace

std::optional<double> read_duration(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  double all = 0;
  bool first = true;
  do {
    const auto part = take_part(text, first);
    if (!part) return std::nullopt;
    all += *part;
    first = false;
  } while (!text.empty());
  return negative ? -all : all;
}

}  // namespace heddle
