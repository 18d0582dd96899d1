// Cases of mma_product, mma_tiles and wgmma_product with experts.
#pragma once
#include "proof/product/product_problem.h"

namespace heddle::proof {

// Tiles of the experts, as many rows of each as `rows_of_expert` says, written by the vectors' slots.
Case expert_tiles(const MatrixSpec& units, uint32_t rows, uint32_t cols, const std::vector<uint32_t>& rows_of_expert,
                  const char* file = __builtin_FILE());

}  // namespace heddle::proof
