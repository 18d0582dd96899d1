// One batch: rows in, picks out.
#include <utility>

#include "engine/engine_state.h"
#include "model/forward.h"

namespace heddle::engine {
namespace {

// Lends the tables of a plan to a batch: they are long, and a step should not copy them.
class LentTables {
 public:
  LentTables(std::span<const Planned> plan, model::Batch& batch) : plan_(plan), batch_(batch) {
    batch_.blocks.resize(plan_.size());
    swap();
  }
  ~LentTables() { swap(); }

 private:
  void swap() {
    for (size_t i = 0; i < plan_.size(); ++i) batch_.blocks[i].swap(plan_[i].sequence->blocks);
  }
  std::span<const Planned> plan_;
  model::Batch& batch_;
};

}  // namespace

// False: a fault.
bool Engine::State::compute(std::span<const Planned> plan) {
  try {
    fill_batch(plan);
    {
      const LentTables lent(plan, batch_);
      const OnDevice timed(*this);
      model::forward(model_, backend_, batch_);
      picked_ = {};
      logits_ = states_ = {};
      // asked for where there is none as well: it waits, and the time measured is this batch's own
      if (batch_.outputs.empty() || !pick_on_device(plan)) logits_ = backend_.result();
      if (!batch_.states.empty()) states_ = backend_.states();
    }
    tokens_at_ = now();
    give_out(plan);
    return true;
  } catch (const std::exception& error) {
    fault(error.what());
    return false;
  }
}

void Engine::State::fill_batch(std::span<const Planned> plan) {
  in_batch_.clear();
  batch_.tokens.clear();
  batch_.positions.clear();
  batch_.sequences.clear();
  batch_.outputs.clear();
  batch_.states.clear();
  parts_.clear();
  for (size_t i = 0; i < plan.size(); ++i) {
    Sequence& s = *plan[i].sequence;
    in_batch_.push_back(&s);
    if (!s.task.begun) metrics_.queue_seconds.add(*(s.task.begun = now()) - s.task.arrival);
    const PromptResults::Range scored = s.task.results.logits(), pooled = s.task.results.states();
    Part& part = parts_.emplace_back(Part{.picks = plan[i].picks()});
    const uint32_t first = s.computed, all = plan[i].rows + uint32_t(s.proposed.size());
    for (uint32_t row = 0; row < all; ++row) {
      batch_.tokens.push_back(row < plan[i].rows ? s.tokens[first + row] : s.proposed[row - plan[i].rows]);
      batch_.positions.push_back(first + row);
      batch_.sequences.push_back(uint32_t(i));
      const uint32_t here = uint32_t(batch_.tokens.size() - 1);
      if (scored.contains(first + row) || (s.task.answers() && first + row + 1 >= s.known()))
        batch_.outputs.push_back(here), ++part.outputs;
      if (pooled.contains(first + row)) batch_.states.push_back(here), ++part.states;
    }
    join_step(s, all);
    if (first < s.task.prompt()) metrics_.prompt_computed += std::min(plan[i].rows, s.task.prompt() - first);
  }
  count_batch(batch_.tokens.size(), plan.size());
}

// All of a batch, or nothing. What is picked after a guess counts only if all guesses before it were right.
bool Engine::State::pick_on_device(std::span<const Planned> plan) {
  size_t count = 0;
  for (const Planned& p : plan) {
    const Sequence& s = *p.sequence;
    if (!s.task.results.logits().empty()) return false;
    if (!p.picks() || !s.task.answers()) continue;
    if (!s.picking || s.looks_back || (s.generated == 0 && s.task.request.n > 1)) return false;
    for (uint32_t i = 0; i <= s.proposed.size(); ++i, ++count) {
      if (pickings_.size() == count) pickings_.emplace_back();
      pickings_[count] = *s.picking;
      pickings_[count].picks = s.sampler.picks() + i;
    }
  }
  picked_ = backend_.pick(std::span(pickings_).first(count));
  return !picked_.empty();
}

// --- what was picked ------------------------------------------------------------------------------------------------
void Engine::State::give_out(std::span<const Planned> plan) {
  uint32_t next_output = 0, next_state = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    Sequence& s = *plan[i].sequence;
    uint32_t output = std::exchange(next_output, next_output + parts_[i].outputs);
    const uint32_t state = std::exchange(next_state, next_state + parts_[i].states);
    if (s.state == Sequence::State::over || s.asked) continue;
    if (!read_prompt(s, plan[i].rows, output, state)) continue;
    s.computed += plan[i].rows;
    cache_.publish(s);
    if (!parts_[i].picks) continue;
    if (!s.task.answers()) {
      end_without_answer(s.task);
      continue;
    }
    fork(s);
    pick_for(s, output);
    for (Sequence* copy : forked_) pick_for(*copy, output);
  }
}

// What these rows tell of the prompt, from these outputs and states on. False: it has failed.
bool Engine::State::read_prompt(Sequence& s, uint32_t rows, uint32_t& output, uint32_t state) {
  PromptResults& results = s.task.results;
  if (results.next() >= s.computed + rows) return true;
  const double start = now();
  uint32_t scored = 0;
  try {
    for (uint32_t row = s.computed; row < s.computed + rows; ++row) {
      if (results.logits().contains(row)) results.add_logits(s.task.request, logits_of(output++)), ++scored;
      if (!results.states().contains(row)) continue;
      if (states_.empty()) throw Error("{} gives no embeddings", backend_.describe());
      results.add_state(states_.subspan(size_t(state++) * model_.width, model_.width));
    }
  } catch (const std::exception& error) {
    fail(s.task, error.what());
    return false;
  }
  const double seconds = now() - start;
  scoring_ += seconds;
  if (scored) schedule_.learn_scoring(seconds, scored);
  return true;
}

// The prompt of all copies is computed: they go their own ways. One for whom there is no block waits for it.
void Engine::State::fork(Sequence& first) {
  forked_.clear();
  if (first.generated > 0 || first.copy > 0) return;
  first.look_up();
  for (const auto& copy : first.task.copies) {
    if (copy->state != Sequence::State::unborn) continue;
    copy->share_prompt(first);
    in_step_.push_back(copy.get());
    std::optional<Cache::Copied> copied;
    if (cache_.fork(first, *copy, copied))
      schedule_.run(*copy);
    else
      schedule_.wait(*copy);
    if (copied) backend_.copy_block(copied->from, copied->to);
    forked_.push_back(copy.get());
  }
}

// A token, and as many more as were guessed right.
void Engine::State::pick_for(Sequence& s, uint32_t output) {
  if (s.state == Sequence::State::over || s.asked) return;
  uint32_t right = 0;
  try {
    while (token(s, pick(s, output + right)) && right < s.proposed.size() && s.tokens.back() == s.proposed[right]) {
      ++right;
      ++s.computed;
    }
  } catch (const std::exception& error) {
    fail(s.task, error.what());
  }
  if (s.proposed.empty()) return;
  s.payoff.add(uint32_t(s.proposed.size()), right);
  metrics_.proposed += s.proposed.size();
  metrics_.accepted += right;
}

Pick Engine::State::pick(Sequence& s, uint32_t output) {
  if (picked_.empty()) return s.sampler.pick(logits_of(output));
  const model::Picked& picked = picked_[output];
  if (picked.id == ~0u) throw Error("the logits have no token that can be picked");
  s.sampler.skip_pick();
  return {.id = picked.id, .log_probability = picked.log_probability};
}

// False: it was the last one.
bool Engine::State::token(Sequence& s, Pick pick) {
  Task& task = s.task;
  s.accept(pick.id);
  cache_.publish(s);
  ++metrics_.generated;
  if (s.generated > 1) {
    metrics_.between_tokens_seconds.add(tokens_at_ - s.told);
  } else {
    metrics_.first_token_seconds.add(tokens_at_ - task.arrival);
    s.first_told = tokens_at_;
    metrics_.prompt_reused += s.cached_tokens;
  }
  s.told = tokens_at_;
  tell(task, {.request = task.id,
              .index = s.copy,
              .pick = std::move(pick),
              .prompt_picks = s.generated == 1 ? task.results.scores() : nullptr});
  if (s.asked) return false;
  const auto ending = s.ending(context_);
  if (ending) end(s, *ending);
  return !ending;
}

}  // namespace heddle::engine
