// A proposal is the row after an output, of the same sequence. Where the device picks, its pick is changed; where the
// host does, the logit of the proposal is made the largest, or impossible.
#include "main/bench/forced_acceptance.h"

#include <cmath>

#include "base/error.h"

namespace heddle {

void ForcedAcceptance::begin(const model::Batch& batch) {
  inner_.begin(batch);
  judged_.clear();
  if (batch.follows) return;
  const auto proposes = [&](size_t output) {  // whether a proposal follows it
    const uint32_t row = batch.outputs[output];
    return row + 1 < batch.tokens.size() && batch.sequences[row] == batch.sequences[row + 1];
  };
  for (size_t first = 0, end; first < batch.outputs.size(); first = end + 1) {
    for (end = first; end < batch.outputs.size() && proposes(end);) ++end;
    const double chance = double(random_() >> 11) * 0x1p-53;
    const auto accepted = size_t(share_ * double(end - first) + chance);
    for (size_t i = first; i < end; ++i)
      judged_.push_back({uint32_t(i), batch.tokens[batch.outputs[i] + 1], i - first < accepted});
  }
}

model::Result ForcedAcceptance::result() {
  model::Result result = inner_.result();
  if (judged_.empty()) return result;
  picked_.assign(result.picked.begin(), result.picked.end());
  logits_.assign(result.logits.begin(), result.logits.end());
  std::vector<uint32_t> rows;  // of the logits, by output
  uint32_t row = 0;
  for (size_t i = 0; i <= judged_.back().output; ++i) rows.push_back(i < picked_.size() && picked_[i] ? row : row++);
  for (const Judged& j : judged_) {
    if (j.output < picked_.size() && picked_[j.output]) {
      uint32_t& id = picked_[j.output]->id;
      id = j.right ? j.proposal : id == j.proposal ? (id + 1) % vocabulary_ : id;
      continue;
    }
    const auto at = size_t(rows[j.output]) * vocabulary_ + j.proposal;
    check(at < logits_.size(), "logits of every output that the device does not pick from");
    logits_[at] = j.right ? 1e30f : -INFINITY;
  }
  return {picked_, logits_, result.states};
}

}  // namespace heddle
