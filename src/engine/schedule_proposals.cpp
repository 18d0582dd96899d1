// The proposals of a plan: how many tokens to propose for each stream, by whom, and whether that pays for all.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/schedule.h"

namespace heddle::engine {
namespace {

constexpr uint32_t forced_proposals = 8;  // with Speculation::on
// Of several streams, times what a batch with proposals costs more than one without: trying costs a 64th at most.
constexpr double batches_between_tries = 64;
constexpr uint64_t enough_that_might_follow = 8;
constexpr uint32_t first_drafted = 8;  // token of a stream, if batches do not follow one another

}  // namespace

void Schedule::price_proposals() {
  const double all = pace_.usual(load_), row = pace_.usual(load_.with(1, 0)) - all;
  // without proposals, batches might follow one another, which is faster
  const double plain = following_pace_.measured() && only_streams() ? std::min(all, following_pace_.usual(load_)) : all;
  price_ = {.row = row * proposal_rows() * double(plan_.size()) / plain, .once = all / plain - 1};
}

// How often a proposal is computed: with a recurrent state those before a wrong one are computed again.
double Schedule::proposal_rows() const { return cache_.has_states() ? 2 : 1; }

void Schedule::price_draft() {
  if (!draft_) return;
  const double single = pace_.usual(plain_.load), row = pace_.usual(plain_.load.with(1, 0)) - single;
  // Where single batches are taken to be faster than those that follow one another, only prompts were measured.
  const double plain = plain_.follows && following_pace_.measured() ? following_pace_.usual(plain_.load) : single;
  draft_price_ = {.row = (row * proposal_rows() * double(plan_.size()) + draft_->seconds_for(plain_.streams)) / plain,
                  .once = std::max(single, plain) / plain - 1};
}

void Schedule::learn_following(const Load& load, double seconds) {
  ++batches_;
  charge(seconds);
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
    proposals.push_back(p.picks() ? next_proposals(s) : Proposals());
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
  if (short_text_ && !s.long_text) count = std::min(count, short_text_ - std::min(short_text_, s.known()));
  count = std::min(count, cache_.next_snapshot(s) - s.known());
  if (count == 0 || !cache_.reserve_copy(s)) return 0;
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

}  // namespace heddle::engine
