// Steps that go on by themselves: one graph from the token to the next, launched before the last one was read.
#include <algorithm>

#include "gpu/backend.h"
#include "kernels/sample/sample.h"
#include "kernels/sample/step_advance.h"

namespace heddle::gpu {

using model::Batch;

std::unique_ptr<model::Steps> Gpu::steps(const Batch& batch, std::span<const model::Picking> picking) {
  const size_t rows = batch.tokens.size();
  check(picking.size() == rows && rows > 0, "a picking for every row");
  check_batch(batch);
  if (rows > few_rows || options_.trace) return nullptr;
  const std::optional<PickKind> kind = kind_of(picking);
  if (!kind) return nullptr;
  rows_ = send(batch, picking);
  if (!rows_.each_own) return nullptr;
  const uint64_t zero = 0;
  work_->step.write(stream_, &zero, sizeof zero);
  stream_.synchronize();
  uint32_t most = ~0u;
  for (size_t i = 0; i < rows; ++i) {
    const auto room = uint32_t(batch.blocks[batch.sequences[i]].size() * limits_.block_tokens);
    most = std::min(most, room - batch.positions[i]);
  }
  return std::make_unique<GpuSteps>(*this, uint32_t(rows), rows_.longest, most, *kind);
}

void Gpu::record_step(uint32_t rows, uint32_t longest, const PickKind& kind) {
  Phases& p = *phases_;
  p.begin({.count = rows,
           .each_own = true,
           .row_tables = true,
           .longest = phases_->attention_class(longest)});  // no tiles: they would not advance
  p.embed();
  model::run_layers(model_, p);
  p.logits(0, rows, 0);
  const Work& w = *work_;
  record_pick(rows, w.logits.address(), w.picked.address(), kind, true);
  p.launch(kernels::StepAdvance{.chained = 1}, {.picked = {w.picked.address()},
                                                .tokens = {w.tokens.address()},
                                                .positions = {w.positions.address()},
                                                .lengths = {w.lengths.address()},
                                                .params = {w.params.address()},
                                                .history = {w.history.address()},
                                                .step = {w.step.address()},
                                                .rows = rows,
                                                .ring = kept_steps});
}

cuda::Graph& Gpu::step_graph(uint32_t rows, uint32_t longest, const PickKind& kind) {
  const Key key{rows, phases_->attention_class(longest), 1u + (kind.changing ? 2u : 0u) + (kind.logprob ? 4u : 0u)};
  if (auto found = graphs_.find(key); found != graphs_.end()) return found->second;
  record_step(rows, longest, kind);
  cuda::Graph& graph = graphs_.emplace(key, phases_->plan.graph(context_)).first->second;
  graph.upload(stream_);
  return graph;
}

GpuSteps::GpuSteps(Gpu& gpu, uint32_t rows, uint32_t longest, uint32_t most, const Gpu::PickKind& kind)
    : gpu_(gpu), rows_(rows), longest_(longest), most_(most), kind_(kind) {}

GpuSteps::~GpuSteps() {
  try {
    gpu_.stream_.synchronize();
  } catch (const std::exception&) {  // a lost context says so to whoever asks next
  }
}

void GpuSteps::launch() {
  check(launched_ - taken_ < kept_steps, "steps are taken before so many more are launched");
  check(launched_ < most_, "a block for every position to come");
  if (gpu_.options_.graphs) {
    gpu_.step_graph(rows_, longest_, kind_).launch(gpu_.stream_);
  } else {
    gpu_.record_step(rows_, longest_, kind_);
    gpu_.phases_->plan.run(gpu_.stream_);
  }
  const size_t slot = launched_ % kept_steps, bytes = rows_ * sizeof(kernels::Sampled);
  cuda::read_device(gpu_.stream_, gpu_.picked_.data() + slot * few_rows * sizeof(kernels::Sampled),
                    gpu_.work_->history.address() + slot * bytes, bytes);
  gpu_.arrived_[slot].record(gpu_.stream_);
  ++launched_, ++longest_;
}

std::span<const model::Picked> GpuSteps::take() {
  check(taken_ < launched_, "a step to take");
  const size_t slot = taken_++ % kept_steps;
  gpu_.arrived_[slot].synchronize();
  const auto* picked = reinterpret_cast<const kernels::Sampled*>(gpu_.picked_.data()) + slot * few_rows;
  last_.clear();
  for (uint32_t i = 0; i < rows_; ++i) last_.push_back({picked[i].id, picked[i].log_probability});
  return last_;
}

}  // namespace heddle::gpu
