// Cases of the stream kernels.
#include "proof/case.h"

namespace heddle::proof {

void add_stream_cases(Sweep, std::vector<Case>&) {}

}  // namespace heddle::proof
