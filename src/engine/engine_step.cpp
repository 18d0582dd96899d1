// One step of the engine: plan a batch, launch it, take its result, pick tokens and emit them.
//
// Where the running sequences only continue, batches follow one another on the device: the next one is launched before
// the tokens of the last are read. A sequence that ends meanwhile gives up its blocks while batches that write to them
// are still in flight. That does no harm: the device works in order, so a sequence that is given these blocks writes to
// them later.
#include <algorithm>
#include <utility>

#include "engine/engine_state.h"
#include "engine/sampling/sampler.h"
#include "model/forward.h"

namespace heddle::engine {
namespace {

// Batches by one plan, where they follow one another. With each plan the device waits for the host, which takes about 1
// ms: one stream plans for longer, because its blocks ahead are few.
constexpr uint32_t min_following = 2, max_following = 64, max_following_alone = 256;
constexpr uint32_t max_launched = 2;  // batches in flight while the oldest is waited for

}  // namespace

bool Engine::State::step() {
  step_ = {.start = now()};
  bool worked = end_requested();
  end_fetches();
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
  remove_ended();
  update_gauges();
  return worked;
}

// Whether a batch of a sequence that has not ended still has to give its result.
bool Engine::State::in_flight() const {
  return flight_.launched > flight_.taken &&
         std::any_of(flight_.slices.begin(), flight_.slices.end(), [](const Slice& s) { return s.sequence; });
}

bool Engine::State::plan_batch() {
  const std::span<const Planned> plan = schedule_.plan();
  step_.drafting = schedule_.drafting();
  if (plan.empty()) return false;
  flight_ = {.slices = std::move(flight_.slices), .batches = batches_ahead(plan), .load = schedule_.load()};
  flight_.slices.clear();
  for (const Planned& p : plan) flight_.slices.push_back({.sequence = p.sequence, .rows = p.rows, .picks = p.picks()});
  return true;
}

// How many batches may follow one another by this plan; blocks for the tokens that they pick are allocated. 1: only
// this.
uint32_t Engine::State::batches_ahead(std::span<const Planned> plan) {
  const auto picks_on_device = [](const Planned& p) { return p.sequence->picking.has_value(); };
  const auto changes_logits = [](const Planned& p) { return p.sequence->picking->changes_logits(); };
  if (plan.size() > backend_.max_followed_rows() || !schedule_.only_streams() ||
      !std::all_of(plan.begin(), plan.end(), picks_on_device) ||
      std::count_if(plan.begin(), plan.end(), changes_logits) > backend_.max_followed_changes())
    return 1;
  uint32_t batches = plan.size() == 1 ? max_following_alone : max_following;
  uint32_t blocks_each = cache_.blocks().free() / uint32_t(plan.size());
  if (cache_.has_windows()) blocks_each = std::min(blocks_each, cache_.windows().free() / uint32_t(plan.size()));
  for (const Planned& p : plan) {
    Sequence& s = *p.sequence;
    batches = std::min({batches, s.task.request.max_tokens - s.generated, context_ - s.computed});
    if (model_.short_text && !s.long_text) batches = std::min(batches, model_.short_text - s.computed);
    cache_.grow(s, std::min(s.computed + batches, cache_.capacity(s) + blocks_each * limits_.block_tokens));
    batches = std::min(batches, cache_.capacity(s) - s.computed);
  }
  if (batches >= min_following) return batches;
  for (const Planned& p : plan) cache_.trim(*p.sequence);
  return 1;
}

void Engine::State::launch_batches() {
  flight_.closing |= flight_.launched > 0 && schedule_.waiting() > 0;
  const uint32_t ahead = std::min(max_launched, backend_.max_in_flight());
  if (flight_.launched > flight_.allowed) allow_tokens();
  while (!flight_.closing && flight_.launched < std::min(flight_.batches, flight_.taken + ahead)) {
    if (flight_.launched == 0) {
      launch_planned();
    } else {
      const OnDevice timed(*this);
      model::forward(model_, backend_, {.follows = true});
    }
    ++flight_.launched;
    copy_states();
    if (flight_.launched == flight_.taken + 1) allow_tokens();
  }
}

// Behind the batch that was launched last: of the states that it leaves, those that are worth a snapshot.
void Engine::State::copy_states() {
  if (!cache_.has_states()) return;
  for (const Slice& slice : flight_.slices) {
    if (!slice.sequence || slice.sequence->requested_end) continue;
    Sequence& s = *slice.sequence;
    // a batch that follows has one row of each
    const uint32_t rows =
        flight_.launched == 1 ? slice.rows + uint32_t(s.proposed.size()) : flight_.launched - flight_.taken;
    if (const auto copy = cache_.begin_snapshot(s, s.computed + rows)) {
      const OnDevice timed(*this);
      save_evicted();
      backend_.copy_state(copy->from, copy->to);
    }
  }
}

// Lends the block tables of the sequences to the batch: they are long, and a step should not copy them.
class Engine::State::LentTables {
 public:
  explicit LentTables(State& state) : state_(state) {
    state_.batch_.blocks.resize(state_.flight_.slices.size());
    if (state_.cache_.has_windows()) state_.batch_.window_blocks.resize(state_.flight_.slices.size());
    swap();
  }
  ~LentTables() { swap(); }
  LentTables(const LentTables&) = delete;
  LentTables& operator=(const LentTables&) = delete;

 private:
  void swap() {
    for (size_t i = 0; i < state_.batch_.blocks.size(); ++i) {
      Sequence& s = *state_.flight_.slices[i].sequence;
      state_.batch_.blocks[i].swap(s.blocks);
      if (state_.cache_.has_windows()) state_.batch_.window_blocks[i].swap(s.windows);
    }
  }
  State& state_;
};

void Engine::State::launch_planned() {
  ++batch_number_;
  batch_.tokens.clear();
  batch_.positions.clear();
  batch_.sequences.clear();
  batch_.slots.clear();
  batch_.outputs.clear();
  batch_.picking.clear();
  batch_.states.clear();
  batch_.long_text = schedule_.long_texts();
  batch_.types.clear();
  logits_rows_.clear();
  logits_wanted_ = 0;
  for (size_t i = 0; i < flight_.slices.size(); ++i) add_rows(flight_.slices[i], uint32_t(i));
  if (!batch_.types.empty()) batch_.types.resize(batch_.tokens.size());
  if (logits_wanted_ == batch_.outputs.size()) batch_.picking.clear();  // nothing is picked on the device
  flight_.constrained = std::any_of(flight_.slices.begin(), flight_.slices.end(),
                                    [](const Slice& slice) { return slice.constrained > 0; });
  const LentTables lent(*this);
  const OnDevice timed(*this);
  save_evicted();
  make_copies();
  for (const Slice& slice : flight_.slices)
    if (const Recurrent& r = slice.sequence->recurrent; r.before != StateSlots::none)
      backend_.copy_state(r.slot, r.before);
  model::forward(model_, backend_, batch_);
}

// What was evicted to the store. Those that have no room there are lost.
void Engine::State::save_evicted() {
  const std::vector<KvCache::Kept> evicted = cache_.take_evicted();
  if (!evicted.empty()) read_kept(evicted, [&](const KvKey& key, const KvBytes& bytes) { store_->keep(key, bytes); });
}

void Engine::State::read_kept(std::span<const KvCache::Kept> kept,
                              const std::function<void(const KvKey&, const KvBytes&)>& then) {
  std::vector<model::KvRead> reads;
  std::vector<std::pair<KvKey, KvBytes>> all;
  for (const auto& [place, key] : kept) {
    const KvBytes bytes = store_->allocate(backend_.kv_part_bytes(place.part));
    if (!bytes) continue;
    reads.push_back({place, bytes.span()});
    all.emplace_back(key, bytes);
  }
  if (!reads.empty()) backend_.read_kv(reads);
  for (const auto& [key, bytes] : all) then(key, bytes);
}

// A copy that fails is made before the next batch: not all that wait for one are in this batch, and fail with it.
void Engine::State::make_copies() {
  using enum model::KvPart;
  for (const model::KvPart part : {block, window, state})
    for (std::deque<KvCache::Copy>& copies = cache_.copies(part); !copies.empty(); copies.pop_front()) {
      const auto& [from, to, bytes] = copies.front();
      if (bytes)
        backend_.write_kv({part, to}, bytes.span());
      else if (part == block)
        backend_.copy_block(from, to);
      else if (part == window)
        backend_.copy_window_block(from, to);
      else
        backend_.copy_state(from, to);
    }
}

void Engine::State::add_rows(Slice& slice, uint32_t sequence) {
  Sequence& s = *slice.sequence;
  if (!s.task.started) {
    s.task.started = now();
    metrics_.queue_seconds.add(*s.task.started - s.task.arrival);
  }
  const PromptResults::Range scored = s.task.results.logits(), pooled = s.task.results.states();
  const uint32_t first = s.computed, rows = slice.rows + uint32_t(s.proposed.size());
  slice.first_row = uint32_t(batch_.tokens.size());
  if (cache_.has_states()) batch_.slots.push_back(s.recurrent.slot);
  const std::vector<uint32_t>& types = s.task.request.types;
  if (!types.empty()) batch_.types.resize(batch_.tokens.size());  // of sequences before it that have none
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t position = first + row, here = uint32_t(batch_.tokens.size());
    batch_.tokens.push_back(row < slice.rows ? s.tokens[position] : s.proposed[row - slice.rows]);
    batch_.positions.push_back(position);
    batch_.sequences.push_back(sequence);
    if (!types.empty()) batch_.types.push_back(types[position]);
    const bool picks = s.task.generates() && position + 1 >= s.known();
    if (picks || scored.contains(position)) {
      batch_.outputs.push_back(here);
      ++slice.outputs;
      batch_.picking.push_back(picks ? picking_of(s, position + 1 - s.known()) : std::nullopt);
      logits_rows_.push_back(logits_wanted_);
      if (!batch_.picking.back()) ++logits_wanted_;
      slice.constrained += batch_.picking.back() && batch_.picking.back()->constrained;
    }
    if (pooled.contains(position)) {
      batch_.states.push_back(here);
      ++slice.states;
    }
  }
  if (first < s.task.prompt_tokens()) metrics_.prompt_computed += std::min(slice.rows, s.task.prompt_tokens() - first);
}

// How the device picks the next token of a sequence, or the one after some proposals, which counts only if these were
// right. Unset where the host picks from the row's logits: for samplings that the device does not have, and for the
// first token of several completions, which share the logits.
std::optional<model::Picking> Engine::State::picking_of(const Sequence& s, uint32_t proposals) const {
  if (!s.picking || (s.generated == 0 && s.task.request.n > 1)) return std::nullopt;
  return s.picking_after(proposals);
}

void Engine::State::take_result() {
  {
    const OnDevice timed(*this);
    result_ = backend_.result();
  }
  ++flight_.taken;
  const double before = std::exchange(tokens_at_, now());
  uint32_t next_output = 0, next_state = 0;
  bet_ = {};
  for (const Slice& slice : flight_.slices) {
    const uint32_t output = std::exchange(next_output, next_output + slice.outputs);
    const uint32_t state = std::exchange(next_state, next_state + slice.states);
    if (slice.sequence && !slice.sequence->requested_end) use_rows(slice, output, state);
  }
  if (flight_.batches > 1 && schedule_.pays(bet_)) flight_.closing = true;  // proposals need a new plan
  if (flight_.batches == 1)
    schedule_.learn(flight_.load, now() - step_.start - step_.emitting - step_.scoring - step_.drafting);
  else if (flight_.taken > 1)
    schedule_.learn_following(flight_.load, tokens_at_ - before);
  if (flight_.batches == 1 || flight_.taken < flight_.launched) return;
  for (const Slice& slice : flight_.slices)
    if (slice.sequence) cache_.trim(*slice.sequence);
}

// Uses the results of a sequence's rows, which begin at this output and this state of the batch.
void Engine::State::use_rows(const Slice& slice, uint32_t output, uint32_t state) {
  Sequence& s = *slice.sequence;
  if (!read_prompt(s, slice.rows, output, state)) return;
  s.computed += slice.rows;
  s.recurrent.again -= std::min(s.recurrent.again, slice.rows);
  cache_.publish(s);
  if (!slice.picks) return;
  if (!s.task.generates()) return end_after_prompt(s.task);
  fork(s);
  s.result = {batch_number_, slice.first_row + slice.rows - 1};
  for (Sequence* completion : forked_) completion->result = s.result;
  pick_tokens(s, output);
  for (Sequence* completion : forked_) pick_tokens(*completion, output);
  if (slice.sequence && flight_.batches > 1) bet_.add(schedule_.next_proposals(s));
}

// Reads the logits and states of a prompt, which begin at this output and this state. False: the request has failed.
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

// The first completion has computed the prompt of all: the others begin with its blocks, or wait if there is no block.
void Engine::State::fork(Sequence& first) {
  forked_.clear();
  if (first.generated > 0 || first.index > 0) return;
  first.index_prompt();
  for (const auto& s : first.task.completions) {
    if (s->state != Sequence::State::pending) continue;
    s->share_prompt(first);
    in_step_.push_back(s.get());
    KvCache::Copies copies;
    if (cache_.fork(first, *s, copies))
      schedule_.run(*s);
    else
      schedule_.wait(*s);
    save_evicted();
    if (copies.block) backend_.copy_block(copies.block->from, copies.block->to);
    if (copies.window) backend_.copy_window_block(copies.window->from, copies.window->to);
    forked_.push_back(s.get());
  }
}

// Picks one token, and one more for each proposal that was right. Each is counted before an end can be emitted.
void Engine::State::pick_tokens(Sequence& s, uint32_t output) {
  if (s.state == Sequence::State::finished || s.requested_end) return;
  using Proposer = Sequence::Proposer;
  const bool drafted = s.proposer == Proposer::draft;
  metrics_.proposed += s.proposed.size();
  if (drafted) metrics_.draft_proposed += s.proposed.size();
  uint32_t accepted = 0;
  try {
    while (true) {
      std::optional<Pick> picked = pick(s, output + accepted, accepted);
      if (!picked) end_constraint(s);
      if (!picked || !add_token(s, std::move(*picked)) || accepted == s.proposed.size() ||
          s.tokens.back() != s.proposed[accepted])
        break;
      ++accepted;
      ++metrics_.accepted;
      metrics_.draft_accepted += drafted;
      ++s.computed;
      ++s.result.row;
    }
  } catch (const std::exception& error) {
    fail(s.task, error.what());
  }
  if (s.proposed.empty()) return;
  cache_.settle_proposals(s, accepted == s.proposed.size());
  Payoff& payoff = drafted ? s.draft_payoff : s.proposer == Proposer::grammar ? s.forced_payoff : s.payoff;
  payoff.add(uint32_t(s.proposed.size()), accepted);
}

// After this number of proposals that were right. Unset: its constraint allows no token.
std::optional<Pick> Engine::State::pick(Sequence& s, uint32_t output, uint32_t proposals) {
  if (output >= result_.picked.size() || !result_.picked[output]) {
    if (!s.constraint) return s.sampler.pick(logits_of(output));
    const grammar::TokenMask allowed = s.constraint->mask();
    if (allowed.none()) return std::nullopt;
    return s.sampler.pick(logits_of(output), allowed.bits());
  }
  if (s.constraint && s.stuck.at(proposals)) return std::nullopt;
  const model::Picked& picked = *result_.picked[output];
  if (picked.id == ~0u) throw Error("the logits have no token that can be picked");
  s.sampler.skip_pick();
  Pick pick{.id = picked.id, .log_probability = picked.log_probability};
  for (const auto& [id, log_probability] : picked.top) pick.top.push_back({id, log_probability});
  // as the sampler has them: of different logits with equal log-probabilities, the lowest id first
  std::sort(pick.top.begin(), pick.top.end(), [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.log_probability != b.log_probability ? a.log_probability > b.log_probability : a.id < b.id;
  });
  return pick;
}

// False: it was the last token.
bool Engine::State::add_token(Sequence& s, Pick pick) {
  Task& task = s.task;
  s.accept(pick.id);
  cache_.publish(s);
  ++metrics_.generated;
  if (s.generated > 1) {
    metrics_.between_tokens_seconds.add(tokens_at_ - s.last_token_at);
  } else {
    metrics_.first_token_seconds.add(tokens_at_ - task.arrival);
    s.first_token_at = tokens_at_;
    metrics_.prompt_cached += s.cached_tokens;
  }
  s.last_token_at = tokens_at_;
  emit(task, {.request = task.id,
              .index = s.index,
              .pick = std::move(pick),
              .prompt_picks = s.generated == 1 ? task.results.scores() : nullptr});
  if (s.requested_end) return false;
  const auto finish_reason = s.finish_reason(context_);
  if (finish_reason) end(s, *finish_reason);
  return !finish_reason;
}

void Engine::State::join_batch() {
  step_.rows = 0;
  step_.sequences = uint32_t(flight_.slices.size());
  for (const Slice& slice : flight_.slices) {
    const uint32_t rows = slice.rows + (slice.sequence ? uint32_t(slice.sequence->proposed.size()) : 0);
    step_.rows += rows;
    if (slice.sequence) join_step(*slice.sequence, rows);
  }
  ++metrics_.steps;
  metrics_.step_rows.add(double(step_.rows));
  metrics_.step_sequences.add(double(step_.sequences));
}

void Engine::State::join_step(Sequence& s, uint32_t rows) {
  s.in_step = true;
  s.step = {.start = step_.start - s.task.arrival, .rows = rows, .generated = s.generated};
  in_step_.push_back(&s);
}

void Engine::State::leave_step(Sequence& s) {
  if (!std::exchange(s.in_step, false)) return;
  ++s.timing.steps;
  const double device =
      step_.device + (s.step.generated > 0 ? step_.drafting : 0);  // only streams waited for the draft
  s.timing.device += device;
  if (!s.steps) return;
  s.step.seconds = now() - step_.start;
  s.step.device = device;
  s.step.generated = s.generated - s.step.generated;
  s.step.all_rows = step_.rows;
  s.step.sequences = step_.sequences;
  s.steps->push_back(s.step);
}

}  // namespace heddle::engine
