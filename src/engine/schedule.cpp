// A sequence with rows in the batch keeps its blocks until the batch is computed. All others may lose theirs to a
// sequence that ranks higher.
#include "engine/schedule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace heddle::engine {
namespace {

constexpr double stall_used = 0.7;  // the share of max_stall that is planned for: batches vary
constexpr double min_extra = 0.25;  // share of the streams' own time that prompts get, however little is left
constexpr double equal_extra = 1;   // the same if streams alone take longer than max_stall
constexpr double without_streams =
    10;  // times max_stall, if there are no streams: still short for a request that arrives or ends
constexpr double min_prompt_step = 4;     // times a step of one row: a shorter one is mostly its fixed cost
constexpr uint32_t first_scored = 8;      // rows with prompt logits beside streams, before their time was measured
constexpr uint32_t forced_proposals = 8;  // with Speculation::on
// Of several streams, times what a batch with proposals costs more than one without: trying costs a 64th at most.
constexpr double batches_between_tries = 64;
constexpr uint64_t enough_that_might_follow = 8;
constexpr uint32_t first_drafted = 8;  // token of a stream, if batches do not follow one another

bool by_rank(const Sequence* a, const Sequence* b) { return outranks(*a, *b); }

}  // namespace

void Schedule::wait(Sequence& s) {
  s.state = Sequence::State::waiting;
  waiting_.insert(&s);
}

void Schedule::run(Sequence& s) {
  s.state = Sequence::State::running;
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &s, by_rank), &s);
}

void Schedule::remove(Sequence& s) {
  if (s.state == Sequence::State::waiting) waiting_.erase(&s);
  if (s.state == Sequence::State::running) running_.erase(std::find(running_.begin(), running_.end(), &s));
}

std::span<const Planned> Schedule::plan() {
  ++step_;
  plan_.clear();
  load_ = {};
  being_computed_.clear();
  plan_streams();
  const double streams = pace_.usual(load_);
  // Long streams may be far beyond all that was measured: an estimate that only batches of prompts support must not
  // give twice its time away.
  const bool slow_streams = std::min(streams, last_with_streams_) > max_stall_;
  const double extra = slow_streams ? equal_extra : min_extra;
  const double alone = std::max(without_streams * max_stall_, min_prompt_step * pace_.usual(Load().with(1, 0)));
  const double seconds = streams_.empty() ? alone : std::max(stall_used * max_stall_, (1 + extra) * streams);
  scored_left_ = streams_.empty() ? max_scored_ : scored_within((1 - stall_used) * max_stall_);
  plan_prompts(seconds);
  plan_proposals(seconds);
  // Sequences with one row first: a device has a kernel for these, which is faster if they are contiguous.
  std::stable_partition(plan_.begin(), plan_.end(),
                        [](const Planned& p) { return p.rows == 1 && p.sequence->proposed.empty(); });
  return plan_;
}

bool Schedule::only_streams() const {
  return waiting_.empty() && !plan_.empty() && plan_.size() == running_.size() &&
         std::all_of(plan_.begin(), plan_.end(),
                     [](const Planned& p) { return p.sequence->streaming() && p.sequence->proposed.empty(); });
}

void Schedule::add(Sequence& s, uint32_t rows) {
  s.planned_step = step_;
  load_ = load_.with(rows, s.computed);
  plan_.push_back({&s, rows});
}

void Schedule::plan_streams() {
  streams_.clear();
  prompts_.clear();
  for (Sequence* s : running_) {
    s->proposed.clear();
    (s->streaming() ? streams_ : prompts_).push_back(s);
  }
  // If there are more streams than rows, they take turns.
  const bool others = !prompts_.empty() || !waiting_.empty();
  const size_t max_streams = limits_.rows - (others ? std::max(1u, limits_.rows / 8) : 0);
  if (streams_.size() > max_streams)
    std::stable_sort(streams_.begin(), streams_.end(),
                     [](const Sequence* a, const Sequence* b) { return a->planned_step < b->planned_step; });
  for (Sequence* s : streams_) {
    if (plan_.size() == max_streams) return;
    if (s->state == Sequence::State::running && make_room(*s, s->known())) add(*s, 1);
  }
}

void Schedule::plan_prompts(double seconds) {
  std::sort(prompts_.begin(), prompts_.end(), Earlier());
  const size_t streams = plan_.size();
  const uint64_t preemptions = preemptions_;
  size_t next = 0;
  bool full = false;  // after a preemption nothing is admitted in the same step
  while (rows_left() > 0) {
    while (next < prompts_.size() && prompts_[next]->state != Sequence::State::running) ++next;  // preempted
    Sequence* s = next < prompts_.size() ? prompts_[next] : nullptr;
    full = full || preemptions_ > preemptions;
    if (!full && !waiting_.empty() && (!s || Earlier()(*waiting_.begin(), s))) {
      s = *waiting_.begin();
      full = !admit(*s);
      if (full) continue;
    } else if (s) {
      ++next;
      cache_.reuse_blocks(*s);
    } else {
      return;
    }
    const uint64_t block = cache_.next_block(*s);
    if (block && cache_.can_reuse_next(*s) && is_being_computed(block)) continue;
    cache_.reuse_partial(*s);
    const uint32_t possible = std::min({s->behind(), rows_left(), rows_by_scored(*s)});
    if (possible == 0) continue;
    uint32_t rows = pace_.rows_within(seconds, load_, s->computed, possible);
    if (rows == 0 && plan_.size() > streams) return;  // no time is left
    rows = std::max(rows, 1u);
    if (!make_room(*s, s->computed + rows)) continue;
    if (block) being_computed_.push_back(block);
    scored_left_ -= scored_rows(*s, rows);
    add(*s, rows);
    if (rows < possible) return;
  }
}

void Schedule::learn(const Load& load, double seconds) {
  ++batches_;
  pace_.learn(load, seconds);
  if (!streams_.empty()) last_with_streams_ = seconds;
}

void Schedule::learn_scoring(double seconds, uint32_t rows) {
  const double each = seconds / rows;
  score_seconds_ = score_seconds_ ? *score_seconds_ + 0.25 * (each - *score_seconds_) : each;
}

uint32_t Schedule::scored_within(double seconds) const {
  if (!score_seconds_) return first_scored;
  return *score_seconds_ * max_scored_ <= seconds ? max_scored_ : std::max(1u, uint32_t(seconds / *score_seconds_));
}

// How many of its next rows send prompt logits.
uint32_t Schedule::scored_rows(const Sequence& s, uint32_t rows) const {
  const PromptResults::Range scored = s.task.results.logits();
  const uint32_t from = std::max(scored.from, s.computed), to = std::min(scored.to, s.computed + rows);
  return to > from ? to - from : 0;
}

// How many of its next rows the batch can take, so that no more than scored_left_ send logits.
uint32_t Schedule::rows_by_scored(const Sequence& s) const {
  const uint32_t scored = scored_rows(s, s.behind());
  return scored <= scored_left_ ? s.behind() : s.task.results.logits().to - (scored - scored_left_) - s.computed;
}

bool Schedule::is_being_computed(uint64_t block) const {
  return std::find(being_computed_.begin(), being_computed_.end(), block) != being_computed_.end();
}

// There must be blocks for all its known tokens, beside those that the running sequences need for theirs and one more
// for each of them to grow into.
bool Schedule::admit(Sequence& s) {
  uint64_t needed = running_.size();
  for (const Sequence* other : running_) {
    const uint32_t promised = cache_.blocks_for(other->known());
    needed += promised - std::min<uint32_t>(promised, uint32_t(other->blocks.size()));
  }
  const uint32_t own = cache_.blocks_for(s.known());
  if (!running_.empty() && needed >= cache_.blocks().free()) return false;
  cache_.reuse_blocks(s);
  if (!running_.empty() && needed + own - s.blocks.size() > cache_.blocks().free()) {
    cache_.release(s);
    return false;
  }
  remove(s);
  run(s);
  return true;
}

void Schedule::price_proposals() {
  const double all = pace_.usual(load_), row = pace_.usual(load_.with(1, 0)) - all;
  // without proposals, batches might follow one another, which is faster
  const double plain = following_pace_.measured() && only_streams() ? std::min(all, following_pace_.usual(load_)) : all;
  price_ = {.row = row * double(plan_.size()) / plain, .once = all / plain - 1};
}

void Schedule::price_draft() {
  if (!draft_) return;
  const double single = pace_.usual(plain_.load), row = pace_.usual(plain_.load.with(1, 0)) - single;
  // Where single batches are taken to be faster than those that follow one another, only prompts were measured.
  const double plain = plain_.follows && following_pace_.measured() ? following_pace_.usual(plain_.load) : single;
  draft_price_ = {.row = (row * double(plan_.size()) + draft_->seconds_for(plain_.streams)) / plain,
                  .once = std::max(single, plain) / plain - 1};
}

void Schedule::learn_following(const Load& load, double seconds) {
  ++batches_;
  following_pace_.learn(load, seconds);
  price_draft();
}

Schedule::Proposals Schedule::next_proposals(Sequence& s) const {
  if (!s.speculates || !s.streaming() || !pace_.measured()) return {};
  const uint32_t limit = std::min(s.task.request.max_tokens - s.generated - 1, context_ - s.known());
  if (limit == 0) return {};
  const auto proposals = [&](uint32_t count, Sequence::Proposer by, const Payoff& payoff) -> Proposals {
    return {count, by, payoff.expect(count) - count * price_.row, payoff.trying(), s.always_speculates};
  };
  if (const auto forced = uint32_t(s.forced_tokens().size()); forced > 0) {
    const uint32_t pays = s.always_speculates ? forced : s.forced_payoff.next(price_);
    if (pays > 0) return proposals(std::min({forced, pays, limit}), Sequence::Proposer::grammar, s.forced_payoff);
  }
  const auto by_lookup = [&](uint32_t count) -> Proposals {
    if (count == 0 || !s.lookup_proposes()) return {};
    return proposals(std::min(count, limit), Sequence::Proposer::lookup, s.payoff);
  };
  if (!draft_ || !draft_->can_propose(s))
    return by_lookup(s.always_speculates ? forced_proposals : s.payoff.next(price_));
  if (s.always_speculates) return {std::min(draft_->max_proposals(), limit), Sequence::Proposer::draft};
  const Proposals found = by_lookup(s.payoff.next(price_));
  // The price is known when plain batches have followed one another, if they can.
  if (!following_pace_.measured() && s.generated < first_drafted) return found;
  const Proposals drafted{std::min(s.draft_payoff.next(draft_price_), limit), Sequence::Proposer::draft};
  const bool lookup_pays =
      drafted.count == 0 || s.payoff.rate(found.count, price_) >= s.draft_payoff.rate(drafted.count, draft_price_);
  return found.count > 0 && lookup_pays ? found : drafted;
}

// If proposals make a batch slower by `once`, all its streams lose that part of a token.
bool Schedule::pays(const Bet& bet) const {
  if (!bet.any_) return false;
  if (bet.always_) return true;
  if (plan_.size() > 1 && plain_.follows && following_is_to_be_measured()) return false;
  if (bet.gain_ >= price_.once * double(plan_.size())) return true;
  return bet.tries_ && (plan_.size() == 1 || batches_ >= next_try_);
}

// Before that the price is not known, and a crowd in which there is always a stream with proposals would never learn
// it. Not every backend has batches that follow others.
bool Schedule::following_is_to_be_measured() const {
  return !following_pace_.measured() && might_follow_ < enough_that_might_follow;
}

void Schedule::plan_proposals(double seconds) {
  plain_ = {.load = load_, .follows = only_streams()};
  might_follow_ += plain_.follows;
  for (const Planned& p : plan_)
    if (p.sequence->streaming()) plain_.streams = plain_.streams.with(1, p.sequence->computed);
  price_proposals();
  price_draft();
  drafted_.clear();
  Bet bet;
  std::vector<Proposals> proposals;
  for (const Planned& p : plan_) {
    Sequence& s = *p.sequence;
    if (draft_ && !draft_->can_propose(s)) draft_->release(s);  // it never will again
    proposals.push_back(next_proposals(s));
    bet.add(proposals.back());
    if (proposals.back().count == 0 || proposals.back().by != Sequence::Proposer::draft) continue;
    // a prompt takes the draft a step or more
    drafted_.push_back({&s, draft_->is_behind(s) ? 1 : proposals.back().count});
  }
  const bool pays_for_all = pays(bet);
  if (pays_for_all && bet.tries_) next_try_ = batches_ + uint64_t(batches_between_tries * price_.once);
  for (size_t i = 0; i < plan_.size(); ++i) {
    Sequence& s = *plan_[i].sequence;
    auto [count, by, gain, tries, always] = proposals[i];
    s.proposer = by;
    if (count == 0 || by == Sequence::Proposer::draft || !pays_for_all) continue;
    count = room_for(s, pace_.rows_within(seconds, load_, s.known(), std::min(count, rows_left())));
    if (by == Sequence::Proposer::grammar)
      s.proposed.assign(s.forced.begin(), s.forced.begin() + count);
    else
      s.proposed = s.lookup.propose(count);
    s.cut_proposals();
    load_ = load_.with(s.proposed.size(), s.known());
  }
  plan_drafted(seconds);
}

// How many of `count` proposals there are blocks for, without a preemption.
uint32_t Schedule::room_for(Sequence& s, uint32_t count) {
  cache_.grow(s, s.known() + count);
  return std::min(count, cache_.capacity(s) - s.known());
}

// As many proposals for each as there is time for. A stream alone delays no other: its proposals may take as long as
// they pay, and only what the draft has to catch up with is bound to the time that a stream may stall.
void Schedule::plan_drafted(double seconds) {
  drafting_ = 0;
  const bool delays_others = plan_.size() > 1;
  const double each = draft_ ? draft_->seconds_for(plain_.streams) : 0;
  uint32_t count = 0;
  for (const Draft::Wanted& w : drafted_) count = std::max(count, w.count);
  Load all;  // with as many proposals for each
  for (; count > 0; --count) {
    const double time = delays_others ? seconds - count * each : INFINITY;
    all = load_;
    bool fits = true;
    for (const Draft::Wanted& w : drafted_) {
      const uint32_t rows = std::min(w.count, count), known = w.sequence->known();
      fits = fits && rows <= limits_.rows - all.rows && pace_.rows_within(time, all, known, rows) == rows;
      all = all.with(rows, known);
    }
    if (fits) break;
  }
  if (count == 0) return;
  for (Draft::Wanted& w : drafted_) w.count = room_for(*w.sequence, std::min(w.count, count));
  std::erase_if(drafted_, [](const Draft::Wanted& w) { return w.count == 0; });
  const double left = seconds - pace_.expect(all);
  // alone, it catches up at least as fast as a prompt beside streams would be read
  const double catch_up = delays_others ? left : std::max(left, min_extra * pace_.usual(plain_.load));
  drafting_ = draft_->propose(drafted_, catch_up, delays_others ? left : INFINITY);
  for (const Draft::Wanted& w : drafted_) load_ = load_.with(w.sequence->proposed.size(), w.sequence->known());
}

bool Schedule::make_room(Sequence& s, uint32_t tokens) {
  while (!cache_.grow(s, tokens)) {
    // the lowest in rank without rows in the batch; at least `s` itself is one
    const auto victim =
        std::find_if(running_.rbegin(), running_.rend(), [&](const Sequence* other) { return !is_planned(*other); });
    if (*victim == &s) return false;
    preempt(**victim);
  }
  return true;
}

void Schedule::preempt(Sequence& s) {
  ++preemptions_;
  remove(s);
  cache_.release(s);
  if (draft_) draft_->release(s);
  wait(s);
}

}  // namespace heddle::engine
