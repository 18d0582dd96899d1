// All cases, family by family.
#include <set>

#include "base/error.h"
#include "tests/ptx/cases/case.h"

namespace heddle::ptx::cases {

const std::vector<Case>& all_cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> v;
    add_arithmetic(v);
    add_bits(v);
    add_conversions(v);
    add_warp(v);
    add_memory(v);
    add_async(v);
    add_matrix(v);
    std::set<std::string> names;
    for (auto& c : v)
      if (!names.insert(c.family + " " + c.name).second) throw Error("two cases are called {} {}", c.family, c.name);
    return v;
  }();
  return all;
}

}  // namespace heddle::ptx::cases
