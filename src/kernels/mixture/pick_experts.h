// Which experts a row goes to, from its logits in a warp: what route and router share.
#pragma once
#include <vector>

#include "ptx/code.h"

namespace heddle::kernels {

// The `used` largest logits, largest first, equal ones by the lower expert, and their shares: softmax over all experts,
// or over those picked. NaN comes last. By one warp; expert lane + 32 i has logits[i], which counts if it is below
// `experts`. Needs sm_80.
struct PickedExperts {
  ptx::U32 id;  // lane j has the j-th
  ptx::F32 weight;
};
PickedExperts pick_experts(ptx::Code& k, const std::vector<ptx::F32>& logits, ptx::U32 experts, ptx::U32 used,
                           bool sum_to_one);

}  // namespace heddle::kernels
