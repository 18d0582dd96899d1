// The catalog's lines for the products of a matrix with few columns.
#include "kernels/entry.h"
#include "kernels/gemv.h"

namespace heddle::kernels {

void add_products(std::vector<Entry>& all) { all.push_back(entry<Q4KGemv>()); }

}  // namespace heddle::kernels
