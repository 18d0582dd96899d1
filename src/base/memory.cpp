// Read from /proc and from the control groups.
#include "base/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<uint64_t> number_in(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// What the control groups of this process leave: any of them, from the innermost outwards, may have a limit.
uint64_t left_by_groups() {
  uint64_t left = UINT64_MAX;
  const std::string groups = text_of("/proc/self/cgroup");
  const size_t at = groups.find("0::/");
  if (at == std::string::npos) return left;
  std::string path = groups.substr(at + 3, groups.find('\n', at) - at - 3);
  while (true) {
    const std::string folder = "/sys/fs/cgroup" + path;
    const auto limit = number_in(text_of(folder + "/memory.max")),
               used = number_in(text_of(folder + "/memory.current"));
    if (limit && used) left = std::min(left, *limit > *used ? *limit - *used : 0);
    if (path.empty() || path == "/") return left;
    path.resize(path.rfind('/'));
  }
}

}  // namespace

uint64_t kilobytes_at(std::string_view text, std::string_view key) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(key) || line.substr(key.size(), 1) != ":") continue;
    line.remove_prefix(key.size() + 1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return number_in(line).value_or(0) * 1024;
  }
  return 0;
}

uint64_t available_memory() {
  return std::min(kilobytes_at(text_of("/proc/meminfo"), "MemAvailable"), left_by_groups());
}

uint64_t peak_memory() { return kilobytes_at(text_of("/proc/self/status"), "VmHWM"); }

void forget_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

std::string bytes_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} KB", bytes / 1e3);
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6) : fmt::format("{:.2f} GB", bytes / 1e9);
}

uint64_t bytes_named(const std::string& text, const std::string& what) {
  static constexpr std::pair<std::string_view, double> units[] = {
      {"", 1},      {"B", 1},         {"KB", 1e3},      {"MB", 1e6},         {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1ull << 30}, {"TiB", 1ull << 40}};
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  std::string_view unit(read.ptr, size_t(text.data() + text.size() - read.ptr));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, bytes] : units)
    if (read.ec == std::errc() && name == unit && number > 0 && number * bytes < 1e18) return uint64_t(number * bytes);
  throw Error("{}: expected a size such as 8GB, 1.5GiB or 500MB, found {}", what, in_quotes(text));
}

}  // namespace heddle
