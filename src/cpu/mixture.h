// A mixture of experts: which rows go to which expert, and how their results come together.
#pragma once
#include <vector>

#include "cpu/rows.h"
#include "model/backend.h"

namespace heddle::cpu {

// The experts of each row. Slot row * used + j is that of the j-th best expert.
struct Picks {
  uint32_t used = 0;
  std::vector<uint32_t> experts;                // of each slot
  std::vector<float> shares;                    // of each slot
  std::vector<std::vector<uint32_t>> slots_of;  // of each expert
  std::vector<float> shared;  // of each row: the weight of the shared expert; empty where there is none

  // From the router's scores (rows, experts).
  void pick(const model::Mixture& mixture, const std::vector<float>& scores, const Rows& x, uint32_t rows);
};

}  // namespace heddle::cpu
