// Tokens picked on the device from the logits that lie there: ids and log-probabilities are all that comes back.
#include <algorithm>

#include "gpu/backend.h"
#include "kernels/sample/sample.h"

namespace heddle::gpu {

std::optional<Gpu::PickKind> Gpu::kind_of(std::span<const model::Picking> pickings) const {
  if (model_.vocabulary > 1u << 18) return {};
  PickKind kind;
  for (const model::Picking& p : pickings) {
    if (p.biases.size() > most_biases || p.text.size() > sizes_.context) return {};
    const bool penalties = p.repetition != 1 || p.presence != 0 || p.frequency != 0;
    kind.penalties |= penalties;
    kind.changing |= penalties || !p.biases.empty();
    kind.logprob |= p.logprob;
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

std::span<const model::Picked> Gpu::pick(std::span<const model::Picking> pickings) {
  check(pickings.size() == outputs_.size(), "a picking for every output");
  const std::optional<PickKind> kind = kind_of(pickings);
  if (!kind || pickings.empty()) return {};
  for (const model::Picking& p : pickings)
    if (p.text.empty() && (p.repetition != 1 || p.presence != 0 || p.frequency != 0)) return {};
  // rows that change have scratch memory each
  const size_t at_once = kind->changing ? few_rows : sizes_.picked_at_once();
  each_part([&](const Part& part) {
    for (size_t i = 0; i < part.count; i += at_once) {
      const size_t count = std::min(at_once, part.count - i), first = part.first + i;
      staging_->wait();
      send_picking(pickings.subspan(first, count), kind->penalties);
      staging_->sent(stream_);
      phases_->begin(rows_);
      record_pick(uint32_t(count), work_->logits.address() + i * model_.vocabulary * 4ull,
                  work_->picked.address() + first * sizeof(kernels::Sampled), *kind, kind->penalties);
      run();
      phases_->begin(rows_);
    }
  });
  cuda::read_device(stream_, picked_.data(), work_->picked.address(), pickings.size() * sizeof(kernels::Sampled));
  stream_.synchronize();
  picks_.clear();
  const auto* picked = reinterpret_cast<const kernels::Sampled*>(picked_.data());
  for (size_t i = 0; i < pickings.size(); ++i) picks_.push_back({picked[i].id, picked[i].log_probability});
  return picks_;
}

}  // namespace heddle::gpu
