// The catalog's lines for what runs at the memory limit, and the limit itself.
#include "kernels/product/product.h"
#include "kernels/product/stream_read.h"
#include "kernels/spec/entry.h"

namespace heddle::kernels {

void add_ring_kernels(std::vector<Entry>& all) {
  all.push_back(entry<Product>());
  all.push_back(entry<StreamRead>());
}

}  // namespace heddle::kernels
