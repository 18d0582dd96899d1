// A call is a few batches: the first one has what each sequence's draft has not seen, the others one row each, which is
// the token picked before. On a device that picks tokens they follow one another without a word from the host: a model
// of 1B takes 0.4 ms for a token on an H200, and the host would add half of that again.
#include "engine/draft.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/sequence.h"
#include "model/forward.h"

namespace heddle::engine {

Draft::Draft(const model::Model& model, model::Backend& backend, const model::Limits& limits, uint32_t max_proposals,
             std::function<double()> now)
    : model_(model), backend_(backend), limits_(limits), max_proposals_(max_proposals), now_(std::move(now)) {
  if (max_proposals_ == 0) throw Error("expected a draft that may propose a token, found a maximum of 0");
}

double Draft::seconds_for(const Load& streams) const {
  const double plain =
      pace_.usual(streams);  // an estimate of many rows by few is too high: then this is the better one
  if (!following_pace_.measured()) return plain;
  const double following = following_pace_.usual(streams);
  return pace_.measured() ? std::min(plain, following) : following;
}

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
        load_ = load_.with(1, fed(*a.sequence));
      }
    }
  } catch (const std::exception&) {  // the requests continue without proposals
    ++faults_;
    for (const Wanted& w : wanted) {
      w.sequence->proposed.clear();
      release(*w.sequence);
    }
  }
  for (const Wanted& w : wanted) end(*w.sequence);
  return now_() - start;
}

// The batch that is planned, and those that can follow it within this time.
void Draft::compute(double seconds) {
  batch_.tokens.clear();
  batch_.positions.clear();
  batch_.sequences.clear();
  batch_.slots.clear();
  batch_.outputs.clear();
  batch_.picking.clear();
  batch_.after.clear();
  for (size_t i = 0; i < active_.size(); ++i) {
    const auto first = uint32_t(batch_.tokens.size());
    add_rows(active_[i], uint32_t(i));
    active_[i].first_row = first;
  }
  const uint32_t batches = batches_ahead(seconds), in_flight = std::max(1u, backend_.max_in_flight());
  if (std::none_of(batch_.picking.begin(), batch_.picking.end(), [](const auto& p) { return p.has_value(); }))
    batch_.picking.clear();
  settle_cache();
  const double start = now_();
  launch_rows();
  copy_states();
  allow_tokens();
  for (uint32_t launched = 1, taken = 0; taken < batches; ++taken) {
    for (; launched < std::min(batches, taken + in_flight); ++launched)
      model::forward(model_, backend_, {.predicts = batch_.predicts, .follows = true});
    if (taken > 0)
      for (Active& a : active_)
        if (a.sequence->proposed.size() < a.count) feed_proposal(*a.sequence);
    take_picks();
  }
  (batches > 1 ? following_pace_ : pace_).learn(load_, (now_() - start) / batches);
}

void Draft::add_row(uint32_t token, uint32_t position, uint32_t sequence) {
  batch_.tokens.push_back(token);
  batch_.positions.push_back(position);
  batch_.sequences.push_back(sequence);
}

void Draft::pick_after_last_row(Active& a) {
  const Sequence& s = *a.sequence;
  a.picks = true;
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
    for (size_t i = 0; i < active_.size(); ++i) batch_.blocks[i].swap(table(*active_[i].sequence));
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
