// Cases of the product kernels.
#include "proof/case.h"

namespace heddle::proof {

void add_product_cases(Sweep, std::vector<Case>&) {}

}  // namespace heddle::proof
