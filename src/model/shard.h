// One model cut for several ranks that compute it together: each has a part of the heads, of the inner values of
// feed-forwards, of the experts and of the vocabulary, and all have the residual stream.
//
// A rank's part is a Model of its own. Where the result of a sublayer is a part of a sum (`partial`), the backend sums
// it across ranks (collective.h) before its norms and before it is added to the residual stream. What cannot be cut is
// computed whole by every rank, and not summed.
#pragma once
#include <string>
#include <vector>

#include "model/model.h"

namespace heddle::model {

struct ShardOptions {
  // Whole experts by rank, where there are as many as ranks. Otherwise a part of every expert, unless it cannot be cut
  // evenly: one rank would have more than 5/4 of its share.
  bool expert_parallel = false;
};

// What `rank` computes of a model that `ranks` ranks compute. The model must outlive it: rows that lie together are
// those of the model, columns are copied. `ranks` is at least 2. No rank has more than rank 0: what fits there fits
// everywhere.
Model shard_of(const Model& model, uint32_t rank, uint32_t ranks, const ShardOptions& options = {});

// Whether a backend needs a Collective to compute the model: it is the part of one of several ranks.
bool is_shard(const Model& model);

// How many sublayers of each kind a shard has of which every rank computes all, and how many are cut; and the output
// matrix, as "output".
struct CutCount {
  std::string kind;  // "attention"
  uint32_t cut = 0, whole = 0;
};
std::vector<CutCount> count_cuts(const Model& shard);

}  // namespace heddle::model
