// Sublayers with a recurrent state in the reference backend: the formulas, row by row, with the states of all slots.
#pragma once
#include <map>
#include <span>
#include <vector>

#include "cpu/ranks.h"
#include "model/backend.h"

namespace heddle::cpu {

class ReferenceStates {
 public:
  ReferenceStates(const model::Model& model, const model::Limits& limits, Ranks& ranks);

  // Checks that each sequence has a slot of its own, whose state is that after the position before its first row.
  void begin(const model::Batch& batch);
  // What the output matrix reads of all rows; h: the rows behind the norm of the input.
  std::vector<model::Vector> recur(const model::Recurrence& r, const std::vector<model::Vector>& h);
  std::vector<model::Vector> convolve(const model::ShortConvolution& c, const std::vector<model::Vector>& h);
  // Of each row, the one before it in its sequence; h: the rows after which those of the next batch come.
  std::vector<model::Vector> before(const model::NextHead& head, const std::vector<model::Vector>& h);
  void copy(uint32_t from, uint32_t to);

  // A slot as bytes: its state, and the position that comes next. 0: the model has none.
  uint64_t slot_bytes() const;
  void read(uint32_t slot, std::span<uint8_t> to) const;
  void write(uint32_t slot, std::span<const uint8_t> from);

 private:
  // The state of a sublayer before a row; that of a first position is empty.
  float* state_of(const void* sublayer, size_t row);

  struct Slot {
    model::Vector state;    // of all sublayers
    uint32_t position = 0;  // of the token that comes next
  };
  struct Place {
    uint64_t first, size;  // values of a slot
  };
  Ranks& ranks_;
  std::vector<Slot> slots_;
  std::map<const void*, Place> places_;  // of each sublayer
  const model::Batch* batch_ = nullptr;
};

}  // namespace heddle::cpu
