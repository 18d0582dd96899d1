// A stage of a pipeline: it computes some layers of a batch, of which the residual stream comes from the stage before
// and goes to the one after. The batch is cut into micro-batches, so that all stages compute at the same time.
#pragma once
#include <memory>

#include "model/backend.h"
#include "model/collective.h"

namespace heddle::ranks {

struct StageOptions {
  uint32_t stages = 2;
  // Fewer rows are not a micro-batch of their own: a CPU reads its weights once for each, and with fewer rows that
  // takes longer than the products.
  uint32_t min_rows = 32;
};

// `part`: the layers of this rank's stage (stages.h), perhaps cut for the ranks of the stage (shard.h), which `own`
// computes. `all`: the ranks of all stages; the first of the ranks have the first stage, and so on. Every rank is told
// every batch. Rank 0 has the results, of which all are logits: it picks no tokens, and no batch follows another. The
// model and the collective must outlive it.
std::unique_ptr<model::Backend> make_stage(const model::Model& part, std::unique_ptr<model::Backend> own,
                                           model::Collective& all, const StageOptions& options);

// The batch in `count` neighbouring ranges of rows, as batches of their own.
std::vector<model::Batch> cut_into_micro_batches(const model::Batch& batch, uint32_t count);

}  // namespace heddle::ranks
