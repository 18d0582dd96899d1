// Timing of the product kernels.
#include "proof/bench.h"

namespace heddle::proof {

void add_product_benches(std::vector<Bench>&) {}

}  // namespace heddle::proof
