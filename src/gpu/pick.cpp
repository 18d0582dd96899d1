// Tokens are picked on the device, where the logits are: only ids and log-probabilities come back.
#include <algorithm>

#include "gpu/backend.h"
#include "kernels/sample/sample.h"

namespace heddle::gpu {

bool Gpu::can_pick(const model::Picking& p) const {
  return model_.vocabulary <= 1u << 18 && p.biases.size() <= max_biases && p.text.size() <= sizes_.context;
}

Gpu::PickKind Gpu::kind_of(std::span<const std::optional<model::Picking>> pickings) const {
  PickKind kind;
  for (const auto& p : pickings) {
    if (!p) continue;
    kind.penalties |= p->has_penalties();
    kind.changes_logits |= p->has_penalties() || !p->biases.empty();
    kind.logprob |= p->logprob;
  }
  return kind;
}

void Gpu::record_pick(uint32_t rows, uint64_t logits, uint64_t picked, const PickKind& kind, bool texts) {
  recorder_.set_phase("pick");
  const Work& w = *work_;
  const kernels::Sample sample{.splits = kernels::sample_splits(rows, recorder_.sms()),
                               .vec = model_.vocabulary % 4 ? 1u : 4u,
                               .logprob = kind.logprob};
  recorder_.launch(sample, {.out = {picked},
                            .logits = {logits},
                            .params = {w.params.address()},
                            .biases = {kind.changes_logits ? w.biases.address() : 0},
                            .texts = {texts ? w.texts.address() : 0},
                            .changed = {kind.changes_logits ? w.changed.address() : 0},
                            .rows = rows,
                            .vocab = model_.vocabulary,
                            .capacity = texts ? sizes_.context : 0});
}

void Gpu::record_advance(uint32_t rows) {
  const Work& w = *work_;
  recorder_.launch(kernels::StepAdvance{}, {.picked = {w.picked.address()},
                                            .tokens = {w.tokens.address()},
                                            .positions = {w.positions.address()},
                                            .lengths = {w.lengths.address()},
                                            .params = {w.params.address()},
                                            .history = {w.history.address()},
                                            .step = {w.step.address()},
                                            .rows = rows,
                                            .ring = max_steps_in_flight});
}

// One launch picks for all rows of a range, also for those in between whose logits go to the host.
void Gpu::pick(const OutputRange& range) {
  // rows whose logits change need scratch memory, which max_step_rows rows have
  const size_t at_once = kind_.changes_logits ? max_step_rows : sizes_.picked_at_once();
  for (size_t i = 0; i < range.count; i += at_once) {
    const size_t count = std::min(at_once, range.count - i), first = range.first + i;
    bool any = false;
    for (size_t output = first; output < first + count; ++output) any |= picks(output);
    if (!any) continue;
    staging_->begin();
    send_picking(std::span(batch_->picking).subspan(first, count), kind_.penalties);
    staging_->end(stream_);
    record_pick(uint32_t(count), work_->logits.address() + i * model_.vocabulary * 4ull,
                work_->picked.address() + first * sizeof(kernels::Sampled), kind_, kind_.penalties);
    run();
    forward_->begin(rows_);
  }
}

}  // namespace heddle::gpu
