// What a rank computes of a model on the CPU.
#pragma once
#include <memory>
#include <optional>

#include "cpu/cpu.h"
#include "model/shard.h"
#include "model/stages.h"
#include "ranks/rendezvous.h"
#include "ranks/stage.h"

namespace heddle::test {

struct RankPart {
  std::optional<model::Model> stage, shard;
  std::unique_ptr<model::Backend> backend;

  const model::Model& own() const { return shard ? *shard : *stage; }
  RankPart(const model::Model& model, const model::Limits& limits, ranks::Joined& joined) {
    const uint32_t stages = joined.group->options().stages, each = joined.group->ranks() / stages,
                   rank = joined.group->rank();
    if (stages > 1) stage = model::stage_of(model, model::stages_of(model, stages)[rank / each]);
    if (each > 1) shard = model::shard_of(stage ? *stage : model, rank % each, each);
    model::Collective& of_stage = joined.of_stage ? *joined.of_stage : *joined.collective;
    backend = cpu::make_cpu(own(), limits, {.threads = 1, .exact = true, .ranks = shard ? &of_stage : nullptr});
    if (stages > 1)
      backend = ranks::make_stage(own(), std::move(backend), *joined.collective, {.stages = stages, .min_rows = 2});
  }
};

}  // namespace heddle::test
