// Tokens are picked on the device, where the logits are: only ids and log-probabilities come back.
#include <algorithm>

#include "gpu/backend.h"
#include "kernels/sample/sample.h"

namespace heddle::gpu {

bool Gpu::can_pick(const model::Picking& p) const {
  return sizes_.vocabulary != 0 && model_.vocabulary <= 1u << 18 && p.biases.size() <= max_biases &&
         p.text.size() <= sizes_.context && p.top <= max_top_tokens;
}

Gpu::PickKind Gpu::kind_of(std::span<const std::optional<model::Picking>> pickings) const {
  PickKind kind;
  for (const auto& p : pickings) {
    if (!p) continue;
    kind.changed += p->changes_logits();
    kind.logprob |= p->logprob;
    kind.tops |= p->top > 0;
    kind.masked += p->constrained;
  }
  return kind;
}

void Gpu::record_pick(uint32_t rows, uint64_t logits, size_t first, const PickKind& kind) {
  recorder_.set_phase("pick");
  const Work& w = *work_;
  const kernels::Sample sample{.splits = kernels::sample_splits(rows, recorder_.sms(), recorder_.limits().clusters),
                               .vec = model_.vocabulary % 4 ? 1u : 4u,
                               .logprob = kind.logprob,
                               .masked = kind.masked > 0};
  // before masks change the logits
  if (kind.tops)
    recorder_.launch(kernels::TopTokens{.splits = sample.splits},
                     {.out = {w.tops.address() + first * max_top_tokens * sizeof(kernels::Sampled)},
                      .logits = {logits},
                      .params = {w.params.address()},
                      .rows = rows,
                      .vocab = model_.vocabulary,
                      .most = max_top_tokens});
  recorder_.launch(sample, {.out = {w.picked.address() + first * sizeof(kernels::Sampled)},
                            .logits = {logits},
                            .params = {w.params.address()},
                            .biases = {kind.changed ? w.biases.address() : 0},
                            .texts = {kind.changed ? w.texts.address() : 0},
                            .changed = {kind.changed ? w.changed.address() : 0},
                            .masks = {kind.masked ? w.masks.address() : 0},
                            .rows = rows,
                            .vocab = model_.vocabulary,
                            .capacity = kind.changed ? sizes_.context : 0});
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

// One launch picks for all rows of a range, including the rows in between that the host picks for. A range ends early
// when more rows have biases or penalties than there are places.
void Gpu::pick(const OutputRange& range) {
  if (batch_->picking.empty()) return;
  const auto pickings = std::span(batch_->picking).subspan(range.first, range.count);
  for (size_t i = 0, count; i < pickings.size(); i += count) {
    uint32_t changed = 0;
    bool any = false;
    for (count = 0; i + count < pickings.size(); ++count) {
      const std::optional<model::Picking>& picking = pickings[i + count];
      if (picking && picking->changes_logits() && ++changed > sizes_.changed_at_once()) break;
      any |= picking.has_value();
    }
    if (!any) continue;
    const auto some = pickings.subspan(i, count);
    const PickKind kind = kind_of(some);
    staging_->begin();
    send_picking(some);
    if (kind.masked) send_masks(kind.masked);
    staging_->end(stream_);
    record_pick(uint32_t(count), work_->logits.address() + i * model_.vocabulary * 4ull, range.first + i, kind);
    run();
  }
}

}  // namespace heddle::gpu
