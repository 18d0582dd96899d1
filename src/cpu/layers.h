// What is done to single rows: norms, rotation.
#pragma once
#include <vector>

#include "model/backend.h"

namespace heddle::cpu {

// out = norm of x; the two may be the same. A norm of no kind copies.
void normalise(const model::Norm& norm, const float* x, uint64_t size, float* out);
// Over each head, or over all of them where the weight is that long.
void normalise_heads(const model::Norm& norm, float* x, uint64_t size, uint32_t head);

// The rotations of a step: cosines and sines are computed once for all attentions that rotate alike.
class Rotations {
 public:
  explicit Rotations(const model::Model& model);
  void begin(const std::vector<uint32_t>& positions);
  // Rotates x (count, head) of row `row`; `attention` is its index as each_attention() counts.
  void turn(uint32_t attention, uint32_t row, float* x, uint32_t count, uint32_t head) const;

 private:
  std::vector<const model::Rope*> ropes_;   // different ones
  std::vector<uint32_t> of_attention_;      // index in ropes_
  std::vector<std::vector<float>> tables_;  // of each: (rows, pairs, cosine and sine)
};

}  // namespace heddle::cpu
