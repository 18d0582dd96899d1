// A call is a few batches: the first one has what each sequence's draft has not seen, the others one row each, which is
// the token picked before. On a device that picks tokens they follow one another without a word from the host: a model
// of 1B takes 0.4 ms for a token on an H200, and the host would add half of that again.
#include "engine/draft.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/sequence.h"
#include "model/forward.h"

namespace heddle::engine {
namespace {

// Rows that need no time of their own: proposals of others that were accepted.
constexpr uint32_t few_rows = 8;

uint32_t missing(const Sequence& s) { return s.known() - s.draft.computed; }

}  // namespace

Draft::Draft(const DraftModel& with, bool prefix_cache, std::function<double()> now)
    : model_(*with.model),
      backend_(*with.backend),
      limits_(with.limits),
      max_proposals_(with.max_proposals),
      context_(std::min(model_.context, limits_.kv_blocks * limits_.block_tokens)),
      prefix_cache_(prefix_cache && limits_.state_slots == 0),
      now_(std::move(now)),
      blocks_(limits_.kv_blocks, limits_.block_tokens),
      slots_(limits_.state_slots) {
  if (limits_.rows == 0 || context_ == 0)
    throw Error("expected a row and a block of KV cache for the draft, found {} rows, {} blocks", limits_.rows,
                limits_.kv_blocks);
  if (max_proposals_ == 0) throw Error("expected a draft that may propose a token, found a maximum of 0");
}

double Draft::seconds_for(const Load& streams) const {
  const double plain =
      pace_.usual(streams);  // an estimate of many rows by few is too high: then this is the better one
  if (!following_pace_.measured()) return plain;
  const double following = following_pace_.usual(streams);
  return pace_.measured() ? std::min(plain, following) : following;
}

bool Draft::is_behind(const Sequence& s) const { return s.known() > s.draft.fed() + few_rows; }

// --- its KV cache ---------------------------------------------------------------------------------------------------
void Draft::release(Sequence& s) {
  DraftTable& t = s.draft;
  for (; !t.blocks.empty(); t.blocks.pop_back()) blocks_.drop(t.blocks.back());
  for (const uint32_t slot : {t.slot, t.before})
    if (slot != StateSlots::none) slots_.release(slot);
  t = {};
}

// False: there are not two, and it has none.
bool Draft::take_slots(DraftTable& t) {
  if (!has_states() || t.slot != StateSlots::none) return true;
  if (slots_.free() < 2) return false;
  t.slot = slots_.allocate();
  t.before = slots_.allocate();
  return true;
}

// Of what it guessed, the tokens that were accepted are computed. At least the last known token is left, for its
// logits. A state that has seen a wrong guess is of no use: those that were right are computed again.
void Draft::keep_right(Sequence& s) const {
  DraftTable& t = s.draft;
  const uint32_t fed = t.fed();
  for (const uint32_t token : t.guessed) {
    if (t.computed + 1 >= s.known() || s.tokens[t.computed] != token) break;
    ++t.computed;
  }
  t.guessed.clear();
  if (!has_states() || t.computed == fed) return;
  std::swap(t.slot, t.before);
  t.computed = t.before_computed;
}

bool Draft::shares(const Sequence& s) const { return prefix_cache_ && s.task.request.reuse; }

std::span<const uint32_t> Draft::block_of(const Sequence& s, uint32_t block) const {
  return std::span(s.tokens).subspan(size_t(block) * limits_.block_tokens, limits_.block_tokens);
}

void Draft::publish(Sequence& s) {
  DraftTable& t = s.draft;
  if (!shares(s)) return;
  for (; (t.published + 1) * limits_.block_tokens <= t.computed; ++t.published) {
    uint32_t& own = t.blocks[t.published];
    const auto [block, prefix] = blocks_.publish(own, t.prefix, block_of(s, t.published));
    if (block != own) {
      blocks_.hold(block);
      blocks_.drop(own);
      own = block;
    }
    t.prefix = prefix;
  }
}

void Draft::reuse_blocks(Sequence& s) {
  DraftTable& t = s.draft;
  while (shares(s) && t.computed == t.published * limits_.block_tokens && missing(s) > limits_.block_tokens) {
    const auto found = blocks_.find(t.prefix, block_of(s, t.published));
    if (!found) return;
    blocks_.hold(found->block);
    if (t.published < t.blocks.size())
      blocks_.drop(std::exchange(t.blocks[t.published], found->block));
    else
      t.blocks.push_back(found->block);
    t.prefix = found->prefix;
    ++t.published;
    t.computed += limits_.block_tokens;
  }
}

bool Draft::can_propose(const Sequence& s) const { return backend_.usable() && s.known() <= context_; }

// False: the draft cannot propose for it, or its cache has no room. `count` is cut to what there is room for.
bool Draft::prepare(Sequence& s, uint32_t& count) {
  DraftTable& t = s.draft;
  if (!can_propose(s)) return false;
  keep_right(s);
  publish(s);
  reuse_blocks(s);
  count = std::min(count, context_ - s.known() + 1);  // the last one is not computed
  const auto capacity = [&] { return uint32_t(t.blocks.size()) * limits_.block_tokens; };
  while (capacity() < s.known() + count - 1) {
    const auto block = blocks_.allocate();
    if (!block) break;
    t.blocks.push_back(*block);
  }
  if (capacity() < s.known() || !take_slots(t)) {
    release(s);
    return false;
  }
  count = std::min(count, capacity() - s.known() + 1);
  return true;
}

void Draft::check_holders(std::span<const Sequence* const> all) const {
  std::vector<uint32_t> holders(blocks_.count()), held;
  for (const Sequence* s : all) {
    const DraftTable& t = s->draft;
    for (const uint32_t block : t.blocks) ++holders.at(block);
    for (const uint32_t slot : {t.slot, t.before})
      if (slot != StateSlots::none) held.push_back(slot);
    check(t.fed() <= t.blocks.size() * limits_.block_tokens && t.published * limits_.block_tokens <= t.computed,
          "tokens that the draft has computed have a block");
    for (size_t i = t.computed / limits_.block_tokens; i < t.blocks.size(); ++i)
      check(blocks_.holders(t.blocks[i]) == 1 && !blocks_.findable(t.blocks[i]),
            "a block that the draft writes to has one holder, and cannot be found");
  }
  blocks_.check_holders(holders);
  slots_.check_held(held);
}

// --- proposing ------------------------------------------------------------------------------------------------------
double Draft::propose(std::span<const Wanted> wanted, double catch_up, double seconds) {
  const double start = now_();
  active_.clear();
  for (auto [sequence, count] : wanted)
    if (prepare(*sequence, count))
      active_.push_back({.sequence = sequence, .count = count, .constraint = sequence->constraint});
  plan_rows(catch_up);
  try {
    while (!active_.empty() && seconds_for(load_) <= seconds - (now_() - start)) {
      compute(seconds - (now_() - start));
      std::erase_if(active_, [](const Active& a) { return !a.picks || a.sequence->proposed.size() >= a.count; });
      load_ = {};
      for (Active& a : active_) {
        a.rows = 1;
        load_ = load_.with(1, a.sequence->draft.fed());
      }
    }
  } catch (const std::exception&) {  // the requests continue without proposals
    ++faults_;
    for (const Wanted& w : wanted) {
      w.sequence->proposed.clear();
      release(*w.sequence);
    }
  }
  for (const Wanted& w : wanted) publish(*w.sequence);
  return now_() - start;
}

// Those that continue get their rows first, then prompts as far as the time goes. Of completions that share a prompt,
// one computes it and the others find it later.
void Draft::plan_rows(double catch_up) {
  std::stable_sort(active_.begin(), active_.end(),
                   [](const Active& a, const Active& b) { return missing(*a.sequence) < missing(*b.sequence); });
  load_ = {};
  const Task* computes = nullptr;
  for (Active& a : active_) {
    const Sequence& s = *a.sequence;
    const uint32_t left = limits_.rows - uint32_t(load_.rows);
    a.rows = std::min(missing(s), left);
    if (missing(s) > few_rows) a.rows = pace_.rows_within(catch_up, load_, s.draft.computed, a.rows);
    if (missing(s) > limits_.block_tokens && shares(s) && std::exchange(computes, &s.task) == &s.task) a.rows = 0;
    load_ = load_.with(a.rows, s.draft.computed);
  }
  std::erase_if(active_, [](const Active& a) { return a.rows == 0; });
  // as Schedule::plan() has them
  std::stable_partition(active_.begin(), active_.end(), [](const Active& a) { return a.rows == 1; });
}

// The batch that is planned, and those that can follow it within this time.
void Draft::compute(double seconds) {
  batch_.tokens.clear();
  batch_.positions.clear();
  batch_.sequences.clear();
  batch_.slots.clear();
  batch_.outputs.clear();
  batch_.picking.clear();
  for (size_t i = 0; i < active_.size(); ++i) add_rows(active_[i], uint32_t(i));
  const uint32_t batches = batches_ahead(seconds), in_flight = std::max(1u, backend_.max_in_flight());
  if (std::none_of(batch_.picking.begin(), batch_.picking.end(), [](const auto& p) { return p.has_value(); }))
    batch_.picking.clear();
  const double start = now_();
  launch_rows();
  copy_states();
  allow_tokens();
  for (uint32_t launched = 1, taken = 0; taken < batches; ++taken) {
    for (; launched < std::min(batches, taken + in_flight); ++launched)
      model::forward(model_, backend_, {.follows = true});
    if (taken > 0)
      for (Active& a : active_)
        if (a.sequence->proposed.size() < a.count) a.sequence->draft.guessed.push_back(a.sequence->proposed.back());
    take_picks();
  }
  (batches > 1 ? following_pace_ : pace_).learn(load_, (now_() - start) / batches);
}

void Draft::add_rows(Active& a, uint32_t sequence) {
  Sequence& s = *a.sequence;
  DraftTable& t = s.draft;
  if (has_states()) batch_.slots.push_back(t.slot);
  for (uint32_t row = 0; row < a.rows; ++row) {
    const uint32_t position = t.fed();
    const bool known = position < s.known();
    const uint32_t token = known ? s.tokens[position] : s.proposed[position - s.known()];
    batch_.tokens.push_back(token);
    batch_.positions.push_back(position);
    batch_.sequences.push_back(sequence);
    if (known)
      ++t.computed;
    else
      t.guessed.push_back(token);
  }
  a.picks = t.fed() == s.known() + s.proposed.size();
  if (!a.picks) return;
  batch_.outputs.push_back(uint32_t(batch_.tokens.size()) - 1);
  batch_.picking.push_back(picking_of(s));
  if (batch_.picking.back() || a.sampler) return;
  a.sampler = s.sampler;
  for (const uint32_t token : s.proposed) a.sampler->accept(token);
}

// As the large model's token will be picked, with the same random number: what the two models agree on is then likely
// to be picked from both.
std::optional<model::Picking> Draft::picking_of(const Sequence& s) const {
  if (!s.picking) return std::nullopt;
  model::Picking picking = s.picking_after(uint32_t(s.proposed.size()));
  picking.logprob = false;
  picking.top = 0;
  if (!backend_.can_pick(picking)) return std::nullopt;
  return picking;
}

uint32_t Draft::batches_ahead(double seconds) const {
  uint32_t batches = active_.size() <= backend_.max_followed_rows() ? UINT32_MAX : 1, changes = 0;
  for (const Active& a : active_)
    batches = a.rows == 1 && a.picks ? std::min(batches, a.count - uint32_t(a.sequence->proposed.size())) : 1;
  for (const auto& picking : batch_.picking) {
    if (!picking || picking->constrained) return 1;
    changes += picking->changes_logits();
  }
  if (changes > backend_.max_followed_changes()) return 1;
  const double each = seconds_for(load_);
  return batches * each <= seconds ? batches : std::max(1u, uint32_t(seconds / each));
}

void Draft::launch_rows() {
  const auto lend_tables = [this] {
    for (size_t i = 0; i < active_.size(); ++i) batch_.blocks[i].swap(active_[i].sequence->draft.blocks);
  };
  batch_.blocks.resize(active_.size());
  lend_tables();
  try {
    model::forward(model_, backend_, batch_);
  } catch (...) {
    lend_tables();
    throw;
  }
  lend_tables();
}

// Behind the batch with the last known token, before any guess.
void Draft::copy_states() {
  if (!has_states()) return;
  for (const Active& a : active_) {
    DraftTable& t = a.sequence->draft;
    if (t.computed < a.sequence->known() || !t.guessed.empty() || a.count == 1) continue;
    backend_.copy_state(t.slot, t.before);
    t.before_computed = t.computed;
  }
}

// Of sequences with a constraint, while the device computes.
void Draft::allow_tokens() {
  std::vector<std::span<const uint32_t>> allowed;
  size_t output = 0;
  for (Active& a : active_) {
    if (!a.picks) continue;
    const size_t own = output++;
    if (!a.constraint) continue;
    a.allowed = a.constraint->mask();
    if (own >= batch_.picking.size() || !batch_.picking[own]) continue;
    const std::vector<uint32_t>& bits = a.allowed.bits();
    allowed.push_back(a.allowed.none() ? std::span<const uint32_t>() : bits);
  }
  if (!allowed.empty()) backend_.allow(allowed);
}

void Draft::take_picks() {
  const model::Result result = backend_.result();
  size_t output = 0, row = 0;
  for (Active& a : active_) {
    if (!a.picks) continue;
    const std::optional<model::Picked> picked = output < result.picked.size() ? result.picked[output] : std::nullopt;
    ++output;
    std::span<const float> logits;
    if (!picked) logits = result.logits.subspan(row++ * model_.vocabulary, model_.vocabulary);
    if (a.sequence->proposed.size() < a.count) add_pick(a, picked, logits);
  }
}

void Draft::add_pick(Active& a, const std::optional<model::Picked>& picked, std::span<const float> logits) {
  Sequence& s = *a.sequence;
  uint32_t id = ~0u;
  try {
    if (!a.constraint || !a.allowed.none()) id = picked ? picked->id : a.sampler->pick(logits, a.allowed.bits()).id;
  } catch (const Error&) {  // logits that nothing can be picked from
  }
  // nothing is picked after a token that ends a constraint
  if (id >= model_.vocabulary || (a.constraint && (!a.constraint->take(id) || a.constraint->must_end()))) {
    a.count = uint32_t(s.proposed.size());
    return;
  }
  s.proposed.push_back(id);
  if (a.sampler) a.sampler->accept(id);
}

}  // namespace heddle::engine
