// Tokens picked on the device from the logits that lie there: ids and log-probabilities are all that comes back.
#include <algorithm>

#include "gpu/backend.h"
#include "kernels/sample/sample.h"
#include "kernels/sample/step_advance.h"

namespace heddle::gpu {

bool Gpu::can_pick(const model::Picking& p) const {
  return model_.vocabulary <= 1u << 18 && p.biases.size() <= most_biases && p.text.size() <= sizes_.context;
}

Gpu::PickKind Gpu::kind_of(std::span<const std::optional<model::Picking>> pickings) const {
  PickKind kind;
  for (const auto& p : pickings) {
    if (!p) continue;
    kind.penalties |= p->has_penalties();
    kind.changing |= p->has_penalties() || !p->biases.empty();
    kind.logprob |= p->logprob;
  }
  return kind;
}

void Gpu::record_pick(uint32_t rows, uint64_t logits, uint64_t picked, const PickKind& kind, bool texts) {
  phases_->name("pick");
  const Work& w = *work_;
  const kernels::Sample sample{.splits = kernels::sample_splits(rows, context_.info().sms),
                               .vec = model_.vocabulary % 4 ? 1u : 4u,
                               .logprob = kind.logprob,
                               .chained = 1};
  phases_->launch(sample, {.out = {picked},
                           .logits = {logits},
                           .params = {w.params.address()},
                           .biases = {kind.changing ? w.biases.address() : 0},
                           .texts = {texts ? w.texts.address() : 0},
                           .changed = {kind.changing ? w.changed.address() : 0},
                           .rows = rows,
                           .vocab = model_.vocabulary,
                           .capacity = texts ? sizes_.context : 0});
}

void Gpu::record_advance(uint32_t rows) {
  const Work& w = *work_;
  phases_->launch(kernels::StepAdvance{.chained = 1}, {.picked = {w.picked.address()},
                                                       .tokens = {w.tokens.address()},
                                                       .positions = {w.positions.address()},
                                                       .lengths = {w.lengths.address()},
                                                       .params = {w.params.address()},
                                                       .history = {w.history.address()},
                                                       .step = {w.step.address()},
                                                       .rows = rows,
                                                       .ring = kept_steps});
}

// Rows whose logits go to the host are picked from as well where they stand between others: one launch does them all.
void Gpu::pick(const Part& part) {
  // rows that change have scratch memory each
  const size_t at_once = kind_.changing ? few_rows : sizes_.picked_at_once();
  for (size_t i = 0; i < part.count; i += at_once) {
    const size_t count = std::min(at_once, part.count - i), first = part.first + i;
    bool any = false;
    for (size_t output = first; output < first + count; ++output) any |= picks(output);
    if (!any) continue;
    staging_->wait();
    send_picking(std::span(batch_->picking).subspan(first, count), kind_.penalties);
    staging_->sent(stream_);
    record_pick(uint32_t(count), work_->logits.address() + i * model_.vocabulary * 4ull,
                work_->picked.address() + first * sizeof(kernels::Sampled), kind_, kind_.penalties);
    run();
    phases_->begin(rows_);
  }
}

}  // namespace heddle::gpu
