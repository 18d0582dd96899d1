// Where the same streams go on and nobody else wants anything, the device does so by itself: a step is launched before
// the tokens of the one before are read.
//
// Who leaves meanwhile drops its blocks, and steps under way still write to them. That does no harm: nobody takes a
// block before the run has ended.
#include <algorithm>

#include "engine/engine_state.h"
#include "engine/sampling/device_picking.h"

namespace heddle::engine {
namespace {

constexpr uint32_t most_steps = 64, fewest_steps = 4;  // of a run
constexpr uint32_t ahead = 2;                          // steps under way while one is waited for

}  // namespace

// Begins a run with these. False: they, or this backend, are computed batch by batch.
bool Engine::State::run_off(std::span<const Planned> plan) {
  const auto looks_back = [](const Planned& p) { return p.sequence->looks_back; };
  const auto pickable = [](const Planned& p) { return p.sequence->picking.has_value(); };
  if (!schedule_.quiet() || !std::all_of(plan.begin(), plan.end(), pickable)) return false;
  const std::pair kind(plan.size(), std::any_of(plan.begin(), plan.end(), looks_back));
  if (no_runs_.contains(kind)) return false;

  Run run{.max_steps = most_steps, .load = schedule_.load()};
  model::Batch batch;
  std::vector<model::Picking> pickings;
  const uint32_t each = cache_.blocks().free() / uint32_t(plan.size());  // blocks
  for (const Planned& p : plan) {
    Sequence& s = *p.sequence;
    const uint32_t wanted = s.task.request.max_tokens - s.generated;
    const uint32_t steps = std::min({run.max_steps, wanted, context_ - s.computed});
    cache_.grow(s, std::min(s.computed + steps, cache_.room(s) + each * limits_.block_tokens));
    run.max_steps = std::min(steps, cache_.room(s) - s.computed);
    run.rows.push_back(&s);
  }
  if (run.max_steps >= fewest_steps) {
    for (Sequence* s : run.rows) {
      batch.outputs.push_back(uint32_t(batch.tokens.size()));
      batch.sequences.push_back(uint32_t(batch.tokens.size()));
      batch.tokens.push_back(s->tokens.back());
      batch.positions.push_back(s->computed);
      batch.blocks.push_back(s->blocks);
      pickings.push_back(s->looks_back ? *device_picking(s->sampler, s->tokens, s->task.prompt()) : *s->picking);
      pickings.back().picks = s->sampler.picks();
    }
    try {
      const OnDevice timed(*this);
      run.steps = backend_.steps(batch, pickings);
    } catch (const std::exception& error) {
      in_batch_ = run.rows;
      fault(error.what());
      return true;
    }
    const auto biased = [](const model::Picking& p) { return !p.biases.empty(); };  // there may be too many
    if (!run.steps && std::none_of(pickings.begin(), pickings.end(), biased)) no_runs_.insert(kind);
  }
  if (!run.steps) {
    for (Sequence* s : run.rows) cache_.trim(*s);
    return false;
  }
  run_ = std::move(run);
  go_on();
  return true;
}

// A token for everybody. False: none was under way, and the run has ended.
bool Engine::State::go_on() {
  Run& run = *run_;
  run.closing |= schedule_.waiting() > 0;
  try {
    {
      const OnDevice timed(*this);
      for (; !run.closing && run.launched < std::min(run.max_steps, run.taken + ahead); ++run.launched)
        run.steps->launch();
    }
    const bool anybody = std::any_of(run.rows.begin(), run.rows.end(), [](const Sequence* s) { return s != nullptr; });
    if (!anybody || run.launched == run.taken) {
      end_run();
      return false;
    }
    const OnDevice timed(*this);
    picked_ = run.steps->take();
  } catch (const std::exception& error) {
    in_batch_.clear();
    std::copy_if(run.rows.begin(), run.rows.end(), std::back_inserter(in_batch_), [](Sequence* s) { return s; });
    run_.reset();
    fault(error.what());
    return true;
  }
  ++run.taken;
  const double before = std::exchange(tokens_at_, now());
  if (run.taken > 1) run_pace_.learn(run.load, tokens_at_ - before);
  count_batch(run.rows.size(), run.rows.size());
  for (uint32_t i = 0; i < run.rows.size(); ++i) {
    Sequence* s = run.rows[i];
    if (!s || s->asked) continue;
    join_step(*s, 1);
    ++s->computed;
    pick_for(*s, i);
    if (run.rows[i] && schedule_.guesses(*s) > 0 && !s->lookup.propose(1).empty()) run.closing = true;
  }
  if (run.taken == run.max_steps || (run.closing && run.taken == run.launched)) end_run();
  return true;
}

void Engine::State::leave_run(const Sequence& s) {
  if (!run_) return;
  const auto row = std::find(run_->rows.begin(), run_->rows.end(), &s);
  if (row == run_->rows.end()) return;
  *row = nullptr;
  run_->closing = true;
}

void Engine::State::end_run() {
  run_->steps.reset();
  for (Sequence* s : run_->rows)
    if (s) cache_.trim(*s);
  run_.reset();
}

}  // namespace heddle::engine
