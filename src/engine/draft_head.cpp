// The first row of a call is the last known token, behind the model's result of the token before it; the next ones are
// the proposals, each behind the head's own result.
#include "engine/draft_head.h"

#include <algorithm>

#include "engine/sequence.h"

namespace heddle::engine {

HeadDraft::HeadDraft(const model::Model& model, model::Backend& backend, const model::Limits& limits,
                     uint32_t max_proposals, const uint64_t& batch, std::function<void()> settle,
                     std::function<double()> now)
    : Draft(model, backend, limits, max_proposals, std::move(now)), batch_number_(batch), settle_(std::move(settle)) {
  batch_.predicts = true;
}

bool HeadDraft::can_propose(const Sequence& s) const {
  return backend_.usable() && s.result.batch == batch_number_ && s.generated > 0;
}

// The caller has allocated blocks for all proposals.
bool HeadDraft::prepare(Sequence& s, uint32_t& count) {
  const uint32_t capacity = uint32_t(s.blocks.size()) * limits_.block_tokens;
  if (!can_propose(s) || capacity < s.known()) return false;
  count = std::min(count, capacity - s.known() + 1);
  return true;
}

void HeadDraft::plan_rows(double) {
  if (active_.size() > limits_.rows) active_.erase(active_.begin() + ptrdiff_t(limits_.rows), active_.end());
  load_ = {};
  for (Active& a : active_) {
    a.rows = 1;
    load_ = load_.with(1, fed(*a.sequence));
  }
}

void HeadDraft::add_rows(Active& a, uint32_t sequence) {
  const Sequence& s = *a.sequence;
  batch_.after.push_back(s.proposed.empty() ? s.result.row : a.first_row);
  add_row(s.proposed.empty() ? s.tokens.back() : s.proposed.back(), fed(s), sequence);
  pick_after_last_row(a);
}

uint32_t HeadDraft::fed(const Sequence& s) const { return s.known() - 1 + uint32_t(s.proposed.size()); }

std::vector<uint32_t>& HeadDraft::table(Sequence& s) const { return s.blocks; }

}  // namespace heddle::engine
