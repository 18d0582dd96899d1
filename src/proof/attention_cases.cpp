// Cases of the attention kernels.
#include "proof/case.h"

namespace heddle::proof {

void add_attention_cases(Sweep, std::vector<Case>&) {}

}  // namespace heddle::proof
