// One step of the engine: a batch is planned and launched, its result taken, tokens are picked and emitted.
//
// Where the running sequences only continue, batches follow one another on the device: the next one is launched before
// the tokens of the last are read. A sequence that ends meanwhile gives up its blocks while batches that write to them
// are still under way. That does no harm: the device works in order, so that whatever takes these blocks writes later.
#include <algorithm>
#include <utility>

#include "engine/engine_state.h"
#include "engine/sampling/device_picking.h"
#include "model/forward.h"

namespace heddle::engine {
namespace {

constexpr uint32_t max_following = 64, min_following = 4;  // batches of one plan that follow one another
constexpr uint32_t launched_ahead = 2;                     // batches under way while the oldest is waited for

}  // namespace

bool Engine::State::step() {
  step_ = {.start = now()};
  bool worked = end_asked();
  if (in_flight() || plan_batch()) {
    worked = true;
    try {
      join_batch();
      launch_batches();
      take_result();
    } catch (const std::exception& error) {
      fault(error.what());
    }
  }
  if (worked) metrics_.step_seconds.add(now() - step_.start - step_.emitting);
  for (Sequence* s : in_step_) leave_step(*s);
  in_step_.clear();
  tidy();
  return worked;
}

// --- the batch ------------------------------------------------------------------------------------------------------
// Launched, not taken, and wanted by a sequence that is still there.
bool Engine::State::in_flight() const {
  return flight_.launched > flight_.taken &&
         std::any_of(flight_.slices.begin(), flight_.slices.end(), [](const Slice& s) { return s.sequence; });
}

bool Engine::State::plan_batch() {
  const std::span<const Planned> plan = schedule_.plan();
  if (plan.empty()) return false;
  flight_ = {.slices = std::move(flight_.slices), .batches = batches_of(plan), .load = schedule_.load()};
  flight_.slices.clear();
  for (const Planned& p : plan) flight_.slices.push_back({.sequence = p.sequence, .rows = p.rows, .picks = p.picks()});
  return true;
}

// How many batches may follow one another by this plan, with blocks for the tokens that they pick. 1: this one alone.
uint32_t Engine::State::batches_of(std::span<const Planned> plan) {
  const auto picks_on_device = [](const Planned& p) { return p.sequence->picking.has_value(); };
  if (plan.size() > backend_.max_followed_rows() || !schedule_.quiet() ||
      !std::all_of(plan.begin(), plan.end(), picks_on_device))
    return 1;
  uint32_t batches = max_following;
  const uint32_t each = cache_.blocks().free() / uint32_t(plan.size());  // blocks
  for (const Planned& p : plan) {
    Sequence& s = *p.sequence;
    batches = std::min({batches, s.task.request.max_tokens - s.generated, context_ - s.computed});
    cache_.grow(s, std::min(s.computed + batches, cache_.room(s) + each * limits_.block_tokens));
    batches = std::min(batches, cache_.room(s) - s.computed);
  }
  if (batches >= min_following) return batches;
  for (const Planned& p : plan) cache_.trim(*p.sequence);
  return 1;
}

void Engine::State::join_batch() {
  uint32_t rows = 0;
  for (const Slice& slice : flight_.slices) {
    const uint32_t own = slice.rows + (slice.sequence ? uint32_t(slice.sequence->proposed.size()) : 0);
    rows += own;
    if (slice.sequence) join_step(*slice.sequence, own);
  }
  count_batch(rows, flight_.slices.size());
}

void Engine::State::launch_batches() {
  flight_.closing |= flight_.launched > 0 && schedule_.waiting() > 0;
  const uint32_t ahead = std::min(launched_ahead, backend_.max_in_flight());
  while (!flight_.closing && flight_.launched < std::min(flight_.batches, flight_.taken + ahead)) {
    if (flight_.launched == 0) {
      launch_planned();
    } else {
      const OnDevice timed(*this);
      model::forward(model_, backend_, {.follows = true});
    }
    ++flight_.launched;
  }
}

// Lends the block tables of the sequences to the batch: they are long, and a step should not copy them.
class Engine::State::LentTables {
 public:
  explicit LentTables(State& state) : state_(state) {
    state_.batch_.blocks.resize(state_.flight_.slices.size());
    swap();
  }
  ~LentTables() { swap(); }
  LentTables(const LentTables&) = delete;
  LentTables& operator=(const LentTables&) = delete;

 private:
  void swap() {
    for (size_t i = 0; i < state_.batch_.blocks.size(); ++i)
      state_.batch_.blocks[i].swap(state_.flight_.slices[i].sequence->blocks);
  }
  State& state_;
};

void Engine::State::launch_planned() {
  batch_.tokens.clear();
  batch_.positions.clear();
  batch_.sequences.clear();
  batch_.outputs.clear();
  batch_.picking.clear();
  batch_.states.clear();
  logits_rows_.clear();
  logits_wanted_ = 0;
  for (size_t i = 0; i < flight_.slices.size(); ++i) add_rows(flight_.slices[i], uint32_t(i));
  if (logits_wanted_ == batch_.outputs.size()) batch_.picking.clear();  // nothing is picked on the device
  const LentTables lent(*this);
  const OnDevice timed(*this);
  for (const auto& [from, to] : cache_.take_copies()) backend_.copy_block(from, to);
  model::forward(model_, backend_, batch_);
}

void Engine::State::add_rows(Slice& slice, uint32_t sequence) {
  Sequence& s = *slice.sequence;
  if (!s.task.begun) metrics_.queue_seconds.add(*(s.task.begun = now()) - s.task.arrival);
  const PromptResults::Range scored = s.task.results.logits(), pooled = s.task.results.states();
  const uint32_t first = s.computed, rows = slice.rows + uint32_t(s.proposed.size());
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t position = first + row, here = uint32_t(batch_.tokens.size());
    batch_.tokens.push_back(row < slice.rows ? s.tokens[position] : s.proposed[row - slice.rows]);
    batch_.positions.push_back(position);
    batch_.sequences.push_back(sequence);
    const bool picks = s.task.answers() && position + 1 >= s.known();
    if (picks || scored.contains(position)) {
      batch_.outputs.push_back(here);
      ++slice.outputs;
      batch_.picking.push_back(picks ? picking_of(s, position + 1 - s.known()) : std::nullopt);
      logits_rows_.push_back(logits_wanted_);
      if (!batch_.picking.back()) ++logits_wanted_;
    }
    if (pooled.contains(position)) {
      batch_.states.push_back(here);
      ++slice.states;
    }
  }
  if (first < s.task.prompt()) metrics_.prompt_computed += std::min(slice.rows, s.task.prompt() - first);
}

// How the device picks a sequence's next token, or the one after so many guesses. Unset where the host does, from the
// row's logits: for samplings that the device has not; for the first token of several completions, which pick from the
// same logits; and for penalties, where the text would have to be sent for a single batch.
std::optional<model::Picking> Engine::State::picking_of(const Sequence& s, uint32_t guesses) const {
  if (!s.picking || (s.generated == 0 && s.task.request.n > 1)) return std::nullopt;
  if (s.looks_back && flight_.batches == 1) return std::nullopt;
  model::Picking picking = s.looks_back ? *device_picking(s.sampler, s.tokens, s.task.prompt()) : *s.picking;
  picking.picks = s.sampler.picks() + guesses;  // counts only if all guesses before it were right
  return picking;
}

// --- its result -----------------------------------------------------------------------------------------------------
void Engine::State::take_result() {
  {
    const OnDevice timed(*this);
    result_ = backend_.result();
  }
  ++flight_.taken;
  const double before = std::exchange(tokens_at_, now());
  uint32_t next_output = 0, next_state = 0;
  for (const Slice& slice : flight_.slices) {
    const uint32_t output = std::exchange(next_output, next_output + slice.outputs);
    const uint32_t state = std::exchange(next_state, next_state + slice.states);
    if (slice.sequence && !slice.sequence->asked) use_rows(slice, output, state);
  }
  if (flight_.batches == 1)
    pace_.learn(flight_.load, now() - step_.start - step_.emitting - step_.scoring);
  else if (flight_.taken > 1)
    following_pace_.learn(flight_.load, tokens_at_ - before);
  if (flight_.batches == 1 || flight_.taken < flight_.launched) return;
  for (const Slice& slice : flight_.slices)
    if (slice.sequence) cache_.trim(*slice.sequence);
}

// What the rows of a sequence gave, from this output and state of the batch on.
void Engine::State::use_rows(const Slice& slice, uint32_t output, uint32_t state) {
  Sequence& s = *slice.sequence;
  if (!read_prompt(s, slice.rows, output, state)) return;
  s.computed += slice.rows;
  cache_.publish(s);
  if (!slice.picks) return;
  if (!s.task.answers()) return end_without_answer(s.task);
  fork(s);
  pick_for(s, output);
  for (Sequence* completion : forked_) pick_for(*completion, output);
  // a guess needs a new plan
  if (slice.sequence && flight_.batches > 1 && schedule_.guesses(s) > 0 && !s.lookup.propose(1).empty())
    flight_.closing = true;
}

// Log-probabilities and states of the prompt, from this output and state on. False: it has failed.
bool Engine::State::read_prompt(Sequence& s, uint32_t rows, uint32_t& output, uint32_t state) {
  PromptResults& results = s.task.results;
  if (results.next() >= s.computed + rows) return true;
  const double start = now();
  uint32_t scored = 0;
  try {
    for (uint32_t row = s.computed; row < s.computed + rows; ++row) {
      if (results.logits().contains(row)) {
        results.add_logits(s.task.request, logits_of(output++));
        ++scored;
      }
      if (!results.states().contains(row)) continue;
      if (result_.states.empty()) throw Error("{} gives no embeddings", backend_.describe());
      results.add_state(result_.states.subspan(size_t(state++) * model_.width, model_.width));
    }
  } catch (const std::exception& error) {
    fail(s.task, error.what());
    return false;
  }
  const double seconds = now() - start;
  step_.scoring += seconds;
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
    std::optional<Cache::Copy> copied;
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
  if (output >= result_.picked.size() || !result_.picked[output]) return s.sampler.pick(logits_of(output));
  const model::Picked& picked = *result_.picked[output];
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
  emit(task, {.request = task.id,
              .index = s.copy,
              .pick = std::move(pick),
              .prompt_picks = s.generated == 1 ? task.results.scores() : nullptr});
  if (s.asked) return false;
  const auto ending = s.ending(context_);
  if (ending) end(s, *ending);
  return !ending;
}

}  // namespace heddle::engine
