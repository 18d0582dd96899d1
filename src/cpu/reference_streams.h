// The residual streams of AltUp beside the one that all sublayers have, of the reference backend.
#pragma once
#include <vector>

#include "model/backend.h"

namespace heddle::cpu {

class ReferenceStreams {
 public:
  // A step; x: the residual stream of all rows.
  void update(const model::Altup& a, std::vector<model::Vector>& x);
  // To the other streams of a row.
  void add(size_t row, const model::Vector& result);

 private:
  void predict(const model::Altup& a, size_t row, model::Vector& x);
  void correct(const model::Altup& a, size_t row, model::Vector& x);

  std::vector<std::vector<model::Vector>> others_;  // of each stream, by row
  std::vector<model::Vector> predicted_;            // by row: the residual after the last Altup::predict
};

}  // namespace heddle::cpu
