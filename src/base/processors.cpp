// Read from /proc and /sys: control groups of both versions, and nodes.
#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace heddle {
namespace {

constexpr uint32_t max_processors = 1 << 16;

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::optional<double> number_at(const std::string& text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || !(value > 0)) return std::nullopt;  // "max", -1
  return value;
}

// What a group may use, in processors. Version 2: "max 100000" or "250000 100000", microseconds in each period.
std::optional<double> limit_of_group(const std::string& folder) {
  std::istringstream both(first_line(folder + "/cpu.max"));
  std::string quota, period;
  if (!(both >> quota >> period)) {
    quota = first_line(folder + "/cpu.cfs_quota_us");
    period = first_line(folder + "/cpu.cfs_period_us");
  }
  const std::optional<double> used = number_at(quota), of = number_at(period);
  if (!used || !of) return std::nullopt;
  return *used / *of;
}

// Lines of /proc/self/cgroup are number:controllers:path; version 2 has no controllers there.
bool has_controller(std::string_view controllers, std::string_view name) {
  while (!controllers.empty()) {
    const size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == name) return true;
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return false;
}

}  // namespace

std::vector<uint32_t> processors_in(const std::string& list) {
  std::vector<uint32_t> all;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    uint32_t first = 0, last = 0;
    const char* end = part.data() + part.size();
    auto read = std::from_chars(part.data(), end, first);
    if (read.ec != std::errc()) continue;
    last = first;
    if (read.ptr != end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || last >= max_processors) continue;
    for (uint32_t i = first; i <= last; ++i) all.push_back(i);
  }
  return all;
}

// Any of the groups, from the innermost outwards, may have a limit. In a container the path may be that of another
// namespace: then the group is where the file system begins.
uint32_t processors_by_groups(const std::string& root) {
  std::optional<double> least;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !has_controller(controllers, "cpu")) continue;
    std::string path = line.substr(second + 1);
    const std::string mount = root + "/sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers);
    while (true) {
      const std::optional<double> limit = limit_of_group(mount + path);
      if (limit) least = std::min(*limit, least.value_or(*limit));
      if (path.empty() || path == "/") break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  if (!least) return 0;
  const double whole = std::min(*least, 65536.0);
  return std::max(1u, uint32_t(whole) + (whole > uint32_t(whole) ? 1 : 0));
}

std::vector<Node> nodes_with(const std::vector<uint32_t>& allowed, const std::string& root) {
  const std::string folder = root + "/sys/devices/system/node/";
  std::vector<Node> nodes;
  for (const uint32_t node : processors_in(first_line(folder + "online"))) {
    std::vector<uint32_t> processors = processors_in(first_line(folder + "node" + std::to_string(node) + "/cpulist"));
    std::erase_if(processors,
                  [&](uint32_t one) { return std::find(allowed.begin(), allowed.end(), one) == allowed.end(); });
    if (!processors.empty()) nodes.push_back({node, std::move(processors)});
  }
  if (nodes.empty()) nodes.push_back({0, allowed});
  return nodes;
}

uint32_t node_of_thread(const std::vector<Node>& nodes, uint32_t thread, uint32_t threads) {
  uint64_t all = 0;
  for (const Node& node : nodes) all += node.processors.size();
  uint64_t place = thread * all / threads;  // in the processors of all nodes, one node after another
  uint32_t index = 0;
  for (; index + 1 < nodes.size() && place >= nodes[index].processors.size(); ++index)
    place -= nodes[index].processors.size();
  return index;
}

bool differ_in_speed(const std::vector<uint32_t>& processors, const std::string& root) {
  for (const char* file : {"/cpu_capacity", "/cpufreq/cpuinfo_max_freq"}) {
    double least = 0, most = 0;
    for (const uint32_t one : processors) {
      const auto speed = number_at(first_line(root + "/sys/devices/system/cpu/cpu" + std::to_string(one) + file));
      if (!speed) {
        most = 0;
        break;
      }
      least = most == 0 ? *speed : std::min(least, *speed);
      most = std::max(most, *speed);
    }
    if (most > 0) return least < 0.9 * most;
  }
  return false;
}

namespace {

// A set of the size that the system's own may have: more than cpu_set_t holds.
struct ProcessorSet {
  static constexpr size_t bytes = CPU_ALLOC_SIZE(max_processors);
  std::vector<uint64_t> words = std::vector<uint64_t>(bytes / sizeof(uint64_t));
  cpu_set_t* set() { return reinterpret_cast<cpu_set_t*>(words.data()); }
};

}  // namespace

std::vector<uint32_t> allowed_processors() {
  ProcessorSet all;
  std::vector<uint32_t> result;
  if (sched_getaffinity(0, ProcessorSet::bytes, all.set()) != 0) return result;
  for (size_t i = 0; i < all.words.size(); ++i)
    for (uint64_t rest = all.words[i]; rest; rest &= rest - 1)
      result.push_back(uint32_t(64 * i + size_t(std::countr_zero(rest))));
  return result;
}

bool run_on(const std::vector<uint32_t>& processors) {
  ProcessorSet all;
  for (const uint32_t one : processors)
    if (one < max_processors) all.words[one / 64] |= uint64_t(1) << (one % 64);
  return sched_setaffinity(0, ProcessorSet::bytes, all.set()) == 0;
}

}  // namespace heddle
