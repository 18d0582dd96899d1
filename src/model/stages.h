// A model cut by layers, for a pipeline: each stage computes some neighbouring layers, and the residual stream goes
// from one to the next (Backend::residual, set_residual).
#pragma once
#include <vector>

#include "model/model.h"

namespace heddle::model {

struct Stage {
  uint32_t first = 0, count = 0;  // layers
  bool operator==(const Stage&) const = default;
};

// `count` stages such that the largest is as small as can be, by the bytes of the weights; the output matrix is with
// the last layer. An Error if there are fewer layers, or if a layer reads more of those before it than the residual
// stream.
std::vector<Stage> stages_of(const Model& model, uint32_t count);

// What a stage computes: its layers, numbered from 0; the first has the embedding, the last the final norm and the
// output. The model must outlive it. A stage may be cut for ranks in turn (shard.h).
Model stage_of(const Model& model, const Stage& stage);

}  // namespace heddle::model
