// What a new token changes, and when it is the last one; and the results of prompts. Their sums are f64 and in the
// order of rows, so they do not depend on how the prompt was cut into batches.
#include "engine/sequence.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/sampling/sampler.h"
#include "model/pooled.h"

namespace heddle::engine {

Sequence::Sequence(Task& of, uint32_t number, Sampler with) : task(of), index(number), sampler(std::move(with)) {
  if (task.request.trace) steps = std::make_shared<std::vector<StepTime>>();
  picking = device_picking(sampler);
}

void Sequence::index_prompt() {
  if (speculates && generated == 0) lookup.accept(tokens);
}

void Sequence::share_prompt(const Sequence& first) {
  tokens = first.tokens;
  lookup = first.lookup;
  cached_tokens = first.known();
  timing = first.timing;
  step = first.step;
  in_step = first.in_step;
  if (steps) *steps = *first.steps;
}

void Sequence::accept(uint32_t token) {
  if (constraint && !constraint->take(token)) throw Error("token {} was picked, which the constraint forbids", token);
  tokens.push_back(token);
  sampler.accept(token);
  if (speculates) lookup.accept(token);
  ++generated;
}

namespace {

constexpr uint32_t tokens_before = 8;  // what is forced: the tokenizer may join it with the word before

// Where a constraint fails, for lack of memory perhaps, nothing is guessed: the next pick fails too, and says why.
template <class Guess>
void guess(Guess&& make) {
  try {
    make();
  } catch (const Error&) {
  }
}

}  // namespace

const std::vector<uint32_t>& Sequence::forced_tokens() {
  if (!constraint || !task.request.constraint->tokenize || forced_known == known()) return forced;
  forced_known = known();
  forced.clear();
  std::string before;
  for (uint32_t i = std::min(tokens_before, generated); i > 0; --i)
    before += task.request.constraint->masks->vocabulary()[tokens[known() - i]];
  guess([&] { forced = constraint->forced_tokens(task.request.constraint->tokenize, before); });
  return forced;
}

bool Sequence::lookup_proposes() const {
  const std::vector<uint32_t> next = lookup.propose(1);
  if (next.empty() || !constraint) return !next.empty();
  bool allowed = false;
  guess([&] {
    grammar::Constraint at = *constraint;
    allowed = at.take(next[0]) && !at.must_end();
  });
  return allowed;
}

void Sequence::cut_proposals() {
  if (!constraint) return;
  size_t kept = 0;
  guess([&] {
    grammar::Constraint at = *constraint;
    while (kept < proposed.size() && at.take(proposed[kept]) && !at.must_end()) ++kept;
  });
  proposed.resize(kept);
}

model::Picking Sequence::picking_after(uint32_t proposals) const {
  model::Picking after = *picking;
  after.picks = sampler.picks() + proposals;
  if (!after.has_penalties()) return after;
  after.text.reserve(tokens.size() + proposals);
  after.text = tokens;
  after.text.insert(after.text.end(), proposed.begin(), proposed.begin() + proposals);
  after.prompt = task.prompt_tokens();
  return after;
}

std::optional<FinishReason> Sequence::finish_reason(uint32_t context) const {
  const auto ends_with = [&](const std::vector<uint32_t>& stop) {
    return stop.size() <= generated && std::equal(stop.rbegin(), stop.rend(), tokens.rbegin());
  };
  const Request& request = task.request;
  if (std::any_of(request.stops.begin(), request.stops.end(), ends_with)) return FinishReason::stop;
  if (constraint && constraint->must_end()) return FinishReason::stop;
  if (generated == request.max_tokens) return FinishReason::length;
  if (known() > context) return FinishReason::context;
  return std::nullopt;
}

Timing Sequence::timing_at(double end) const {
  Timing all = timing;
  const double started = task.started.value_or(end), first = generated > 0 ? first_token_at : end;
  all.queue = started - task.arrival;
  all.prompt = first - started;
  all.generating = end - first;
  return all;
}

PromptResults::PromptResults(const Request& request, const model::Model& model)
    : model_(&model), embeds_(request.embed), pools_(request.pool), ranks_(request.rank) {
  const auto rows = uint32_t(request.prompt.size());
  if (request.prompt_logprobs) {
    scores_ = std::make_shared<std::vector<Pick>>();
    scores_->reserve(rows);
    scores_->push_back({.id = request.prompt[0]});
    logits_ = {0, rows - 1};
  }
  if (request.on_prompt_logits) logits_ = {request.logits_from, rows};
  if (!embeds_ && !ranks_) return;
  sum_.resize(model.width);
  const model::Pooling pooling = pools_ ? model::pooling_of(model, ranks_) : model::Pooling::none;
  const bool last = pooling == model::Pooling::last, first = pooling == model::Pooling::cls;
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
  if (pools_)
    for (size_t i = 0; i < state.size(); ++i) sum_[i] += double(state[i]);
  else
    states_.insert(states_.end(), state.begin(), state.end());
  ++pooled_.from;
  ++added_;
}

std::vector<float> PromptResults::mean() const {
  std::vector<float> mean;
  for (const double value : sum_) mean.push_back(float(value / std::max(1u, added_)));
  return mean;
}

std::vector<float> PromptResults::embedding() const {
  if (!embeds_ || !pools_) return states_;
  // The sum has the direction of the mean: the length is normalised away.
  if (model_->dense.empty()) return model::with_length_1(sum_);
  const std::vector<float> values = model::embedding_of(*model_, mean());
  return model::with_length_1(std::vector<double>(values.begin(), values.end()));
}

std::vector<float> PromptResults::labels() const {
  return ranks_ ? model::label_logits(*model_, mean()) : std::vector<float>();
}

}  // namespace heddle::engine
