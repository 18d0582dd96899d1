// The cases of products with what surrounds them, in a file of their own.
#pragma once
#include "proof/case.h"

namespace heddle::proof {

void add_phase_cases(Sweep sweep, std::vector<Case>& cases);

}  // namespace heddle::proof
