// The recurrent states of all slots, and the sublayers that have them, between their products.
//
// Rows of a sequence are taken one after the other, so that a row's result does not depend on how they were cut into
// batches; heads, and columns of heads, are divided among the threads.
#pragma once
#include <map>
#include <span>
#include <vector>

#include "cpu/layers.h"
#include "cpu/pages.h"
#include "cpu/ranks.h"
#include "cpu/team.h"

namespace heddle::cpu {

class RecurrentStates {
 public:
  RecurrentStates(const Isa& isa, Team& team, Ranks& ranks, const model::Model& model, const model::Limits& limits);

  void begin(const model::Batch& batch);
  // What the products left of all rows: mixed (queries, keys, values), gates, steps and behind them betas. `out` gets
  // what the output matrix reads.
  void recur(const model::Recurrence& r, Rows& mixed, const Rows& gates, const Rows& steps, Rows& out);
  void convolve(const model::ShortConvolution& c, Rows& mixed, Rows& out);
  // Of each row of `rows`, the one before it in its sequence, to `out`.
  void shift(const model::NextHead& head, const Rows& rows, Rows& out);
  void copy(uint32_t from, uint32_t to);
  std::span<uint8_t> slot(uint32_t index) const {  // as bytes; empty: the model has no states
    return {states_.data() + index * slot_bytes(), slot_bytes()};
  }
  uint64_t slot_bytes() const { return slots_ ? slot_values_ * sizeof(float) : 0; }

 private:
  struct Sequence {
    uint32_t slot;
    bool is_new;  // its state is empty
    std::vector<uint32_t> rows;
  };
  struct Place {
    uint64_t first = 0;            // value of a slot
    std::vector<float> weights{};  // of the convolution: (width, channels)
  };
  float* state(const Place& place, const Sequence& sequence) const;
  // What the convolution makes of the first channels of all rows, in place.
  void run_convolution(const model::Convolution& c, const Place& place, Rows& rows, bool silu);
  // Of all rows: queries and keys are divided by their lengths, steps become decays, and factors of u.
  void prepare(const model::Recurrence& r, Rows& mixed, const Rows& steps);
  void run_heads(const model::Recurrence& r, const Place& place, const Rows& mixed, Rows& out);

  const Isa& isa_;
  Team& team_;
  Ranks& ranks_;
  Squares squares_;
  uint64_t slot_values_ = 0;
  uint32_t slots_ = 0;
  Pages states_;                         // (slots, slot_values_)
  std::map<const void*, Place> places_;  // of each sublayer
  std::vector<Sequence> sequences_;      // of the batch
  const model::Batch* batch_ = nullptr;
  std::vector<float> decays_, factors_;  // (rows, heads)
  std::vector<std::vector<RecurRow>> of_thread_;
  std::vector<std::vector<float>> inputs_of_thread_;
};

}  // namespace heddle::cpu
