// What is done to single rows: norms, rotation, the choice of experts.
#pragma once
#include <vector>

#include "cpu/rows.h"
#include "model/backend.h"

namespace heddle::cpu {

// out = norm of x; the two may be the same row. Norm::Kind::none copies.
void normalise(const model::Norm& norm, const float* x, uint64_t size, float* out);
// Over each head, or over all of them where the weight is that long; `own`: over each head, with the weights of all.
void normalise_heads(const model::Norm& norm, float* x, uint64_t size, uint32_t head, bool own);
// The sum of the squares; and an rms norm of some of its values, with that sum of all of them (Norm::across).
double square_sum(const float* x, uint64_t size);
void normalise_across(const model::Norm& norm, float squares, float* x, uint64_t size);
// What the products of a gate have above a cutoff: see model::FeedForward::cutoff.
void cut(float* gates, uint64_t size, float cutoff);
// What queries at a position are multiplied by.
float factor_of(const model::Temperature& temperature, uint32_t position);

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

  // From the router's logits (rows, experts).
  void pick(const model::Mixture& mixture, const std::vector<float>& logits, const Rows& x, uint32_t rows);

 private:
  void pick_row(const model::Routing& routing, const float* logits, uint32_t row);
  void pick_row_by_sparsemixer(const model::Routing& routing, const float* logits, uint32_t row);
  void put(uint32_t row, uint32_t j, uint32_t expert, double weight);
  std::vector<double> scores_, ranks_;  // of each expert: what it weighs, and what it is picked by
  std::vector<uint32_t> order_, groups_;
};

}  // namespace heddle::cpu
