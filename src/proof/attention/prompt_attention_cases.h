// The parts of the other lists that belong to the work on a prompt, each in its own file.
#pragma once
#include "proof/case.h"

namespace heddle::proof {

void add_gemm_cases(Sweep sweep, std::vector<Case>& cases);              // with the products
void add_half_rows_cases(Sweep sweep, std::vector<Case>& cases);         // with the layers
void add_prompt_attention_cases(Sweep sweep, std::vector<Case>& cases);  // with attention

}  // namespace heddle::proof
