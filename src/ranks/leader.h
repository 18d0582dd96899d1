// The backend of rank 0: it computes its own part of a model, and has the other ranks compute theirs.
#pragma once
#include <memory>

#include "model/backend.h"
#include "ranks/group.h"
#include "ranks/kv_parts.h"

namespace heddle::ranks {

// `own` computes this rank's part. Both verbs and results are those of `own`; every batch is sent to the other ranks
// first. After a fault of any rank nothing can be computed: verbs throw an Error that names it. The group must outlive
// it.
//
// With `numbers`, its KV cache can be kept in a store of rank 0: what is read into a buffer there, every rank reads of
// its own part, under the number of the buffer. The store drops the number of a buffer that it frees. Others have
// buffers then.
std::unique_ptr<model::Backend> make_leader(std::unique_ptr<model::Backend> own, Group& group,
                                            PartNumbers* numbers = nullptr);

// What another rank does until the leader ends the work: what the leader's backend is told, on its own part of the
// model. Throws an Error after a fault of any rank, which is told to all others.
void follow(const model::Model& shard, model::Backend& own, const model::Limits& limits, Group& group,
            PartBuffers* buffers = nullptr);

}  // namespace heddle::ranks
