// The known GPUs. Versions and sizes are those of the PTX manual and the CUDA programming guide.
#include "ptx/target.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::ptx {

const std::vector<Target>& targets() {
  constexpr uint32_t KB = 1024;
  static const std::vector<Target> all{
      {"sm_75", 75, false, 63, 64 * KB},    {"sm_80", 80, false, 70, 163 * KB},   {"sm_86", 86, false, 71, 99 * KB},
      {"sm_89", 89, false, 78, 99 * KB},    {"sm_90", 90, false, 78, 227 * KB},   {"sm_90a", 90, true, 80, 227 * KB},
      {"sm_100", 100, false, 86, 227 * KB}, {"sm_100a", 100, true, 86, 227 * KB}, {"sm_120", 120, false, 87, 99 * KB},
      {"sm_120a", 120, true, 87, 99 * KB},
  };
  return all;
}

const Target& target(std::string_view name) {
  std::string known;
  for (const Target& t : targets()) {
    if (t.name == name) return t;
    known += (known.empty() ? "" : ", ") + t.name;
  }
  throw Error("unknown target {}; known are {}", name, known);
}

bool has(const Target& t, const Need& n) {
  if (n.only.empty()) return t.sm >= n.sm;
  return std::find(n.only.begin(), n.only.end(), t.name) != n.only.end();
}

}  // namespace heddle::ptx
