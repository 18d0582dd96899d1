// The catalog's lines for what runs at the memory limit, and the limit itself.
#include "kernels/entry.h"
#include "kernels/product.h"
#include "kernels/stream_read.h"

namespace heddle::kernels {

void add_ring_kernels(std::vector<Entry>& all) {
  all.push_back(entry<Product>());
  all.push_back(entry<StreamRead>());
}

}  // namespace heddle::kernels
