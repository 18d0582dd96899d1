// The list of kernels, family by family.
#include "kernels/spec/catalog.h"

#include "kernels/spec/entry.h"

namespace heddle::kernels {

const std::vector<Entry>& catalog() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> list;
    add_products(list);
    add_ring_kernels(list);
    add_attention(list);
    add_layer_kernels(list);
    return list;
  }();
  return all;
}

bool runs_on(const std::string& lowest_target, const ptx::Target& here) {
  const ptx::Target& lowest = ptx::target(lowest_target);
  return lowest.specific ? here.name == lowest.name : here.sm >= lowest.sm;
}

}  // namespace heddle::kernels
