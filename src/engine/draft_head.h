// Speculative decoding with the model's own head for multi-token prediction (model::NextHead). Every batch of the model
// computes the head's layer too, and with it the head's part of the KV cache, in the same blocks: there is nothing to
// catch up with, and what is reused, copied or preempted takes the head's part along.
#pragma once
#include "engine/draft.h"

namespace heddle::engine {

class HeadDraft : public Draft {
 public:
  // Of the model, backend and limits of the engine; they must outlive it, and so must `batch`, the number of the last
  // batch that was launched. settle() reads what was evicted from the cache and makes the copies that wait: the head
  // writes to blocks that the sequences have just been given.
  HeadDraft(const model::Model& model, model::Backend& backend, const model::Limits& limits, uint32_t max_proposals,
            const uint64_t& batch, std::function<void()> settle, std::function<double()> now);

  bool is_behind(const Sequence&) const override { return false; }
  // Only right after a batch of the sequence: the head begins with its result.
  bool can_propose(const Sequence& s) const override;

 private:
  bool prepare(Sequence& s, uint32_t& count) override;
  void plan_rows(double catch_up) override;
  void add_rows(Active& a, uint32_t sequence) override;
  uint32_t fed(const Sequence& s) const override;
  std::vector<uint32_t>& table(Sequence& s) const override;
  void settle_cache() override { settle_(); }

  const uint64_t& batch_number_;
  const std::function<void()> settle_;
};

}  // namespace heddle::engine
