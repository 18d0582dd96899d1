// Sums are f64 and in the order of rows, so the result does not depend on how the prompt was cut into batches.
#include "engine/prompt_results.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace heddle::engine {

PromptResults::PromptResults(const Request& request, const model::Model& model) {
  const auto rows = uint32_t(request.prompt.size());
  if (request.prompt_logprobs) {
    scores_ = std::make_shared<std::vector<Pick>>();
    scores_->reserve(rows);
    scores_->push_back({.id = request.prompt[0]});
    logits_ = {0, rows - 1};
  }
  if (request.on_prompt_logits) logits_ = {request.logits_from, rows};
  if (!request.embed) return;
  sum_.resize(model.width);
  const bool last = model.pooling == model::Pooling::last, first = model.pooling == model::Pooling::cls;
  pooled_ = {last ? rows - 1 : 0, first ? 1 : rows};
}

uint32_t PromptResults::next() const {
  const Range both[] = {logits(), states()};
  uint32_t next = UINT32_MAX;
  for (const Range& range : both)
    if (!range.empty()) next = std::min(next, range.from);
  return next;
}

void PromptResults::add_logits(const Request& request, std::span<const float> logits) {
  check(!logits_.empty(), "the logits of a wanted row");
  const uint32_t row = logits_.from++;
  if (scores_)
    scores_->push_back(score(logits, request.prompt[row + 1], *request.prompt_logprobs));
  else
    request.on_prompt_logits(row, logits);
}

void PromptResults::add_state(std::span<const float> state) {
  check(!pooled_.empty() && state.size() == sum_.size(), "the state of a wanted row");
  for (size_t i = 0; i < state.size(); ++i) sum_[i] += double(state[i]);
  ++pooled_.from;
}

std::vector<float> PromptResults::embedding() const {
  double square = 0;  // of the sum, which has the direction of the mean: the length is normalised away
  for (const double value : sum_) square += value * value;
  const double length = square > 0 ? std::sqrt(square) : 1;
  std::vector<float> embedding;
  for (const double value : sum_) embedding.push_back(float(value / length));
  return embedding;
}

}  // namespace heddle::engine
