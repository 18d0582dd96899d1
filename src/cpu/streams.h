// The residual streams beside the first, of models with alternating updates (model::Altup).
#pragma once
#include <vector>

#include "cpu/rows.h"
#include "model/backend.h"

namespace heddle::cpu {

class Streams {
 public:
  Streams() = default;
  Streams(uint32_t rows, uint32_t width, uint64_t others, const RowForms& forms);

  // Of one row. x is its residual stream.
  void predict(const model::Altup& step, uint64_t row, float* x);
  void correct(const model::Altup& step, uint64_t row, float* x);
  void add(uint64_t row, const float* what);  // to all streams but x
  // begin: this stream becomes `projected`, made as long as x.
  void begin(uint32_t stream, uint64_t row, const float* x, const float* projected);
  // end: of each stream its projection; then x becomes the mean.
  void add_to_mean(uint32_t stream, uint64_t row, const float* x, const float* projected);
  void finish_mean(uint64_t row, float* x) const;

  // As the products take them, after finish() of each row.
  void finish(uint64_t row, const Isa& isa);
  RowsView view(uint32_t stream, uint32_t count) const { return others_[stream].view(count); }

 private:
  void find_coefficients(const model::Altup& step, const float* x, std::vector<float>& out) const;
  uint32_t width_ = 0;
  std::vector<Rows> others_;  // (rows, width) each
  Rows kept_;                 // x after predict; the sum of the mean
};

}  // namespace heddle::cpu
