// Random weights of any format, as a file would have them.
#pragma once
#include "proof/case.h"

namespace heddle::proof {

struct Weights {
  std::string format;
  uint32_t rows, cols;
  std::vector<uint8_t> bytes;
  void decode_row(uint32_t row, float* out) const;
};
// Sane scales (about 1 / sqrt(cols) for the values), all else random.
Weights random_weights(Random& random, const std::string& format, uint32_t rows, uint32_t cols);

}  // namespace heddle::proof
