// What is done to single rows: norms, rotation, the choice of experts.
#pragma once
#include <vector>

#include "cpu/rows.h"
#include "model/backend.h"

namespace heddle::cpu {

// out = norm of x; the two may be the same row. Norm::Kind::none copies.
void normalise(const model::Norm& norm, const float* x, uint64_t size, float* out);
// Over each head, or over all of them where the weight is that long.
void normalise_heads(const model::Norm& norm, float* x, uint64_t size, uint32_t head);

// The rotations of a step: cosines and sines are computed once for all attentions that rotate alike.
class Rotations {
 public:
  explicit Rotations(const model::Model& model);
  void begin(const model::Batch& batch);
  // Rotates x (count, head) of row `row`; `attention` is its index as each_attention() counts.
  void rotate(uint32_t attention, uint32_t row, float* x, uint32_t count, uint32_t head) const;

 private:
  std::vector<const model::Rope*> ropes_;   // those that differ
  std::vector<uint32_t> of_attention_;      // index in ropes_
  std::vector<std::vector<float>> tables_;  // of each: (rows, pairs, cosine and sine)
};

// The experts that the router picked for each row. Slot row * used + j is the j-th best expert of the row.
struct ExpertChoice {
  uint32_t used = 0;
  std::vector<uint32_t> experts;                // of each slot
  std::vector<float> weights;                   // of each slot
  std::vector<std::vector<uint32_t>> slots_of;  // of each expert: where it was picked
  std::vector<float> shared;  // of each row: the weight of the shared expert; empty where there is none

  // From the router's scores (rows, experts).
  void pick(const model::Mixture& mixture, const std::vector<float>& scores, const Rows& x, uint32_t rows);
};

}  // namespace heddle::cpu
