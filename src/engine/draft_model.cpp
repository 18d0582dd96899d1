// Its own KV cache, and how it catches up with what the large model has read.
#include "engine/draft_model.h"

#include <algorithm>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/sequence.h"

namespace heddle::engine {
namespace {

// Rows that need no time of their own: proposals of others that were accepted.
constexpr uint32_t few_rows = 8;

uint32_t missing(const Sequence& s) { return s.known() - s.draft.computed; }

}  // namespace

ModelDraft::ModelDraft(const DraftModel& with, bool prefix_cache, std::function<double()> now)
    : Draft(*with.model, *with.backend, with.limits, with.max_proposals, std::move(now)),
      context_(std::min(model_.context, limits_.kv_blocks * limits_.block_tokens)),
      prefix_cache_(prefix_cache && limits_.state_slots == 0),
      blocks_(limits_.kv_blocks, limits_.block_tokens),
      slots_(limits_.state_slots) {
  if (limits_.rows == 0 || context_ == 0)
    throw Error("expected a row and a block of KV cache for the draft, found {} rows, {} blocks", limits_.rows,
                limits_.kv_blocks);
}

bool ModelDraft::is_behind(const Sequence& s) const { return s.known() > s.draft.fed() + few_rows; }

uint32_t ModelDraft::fed(const Sequence& s) const { return s.draft.fed(); }

void ModelDraft::feed_proposal(Sequence& s) { s.draft.guessed.push_back(s.proposed.back()); }

std::vector<uint32_t>& ModelDraft::table(Sequence& s) const { return s.draft.blocks; }

// --- its KV cache ---------------------------------------------------------------------------------------------------
void ModelDraft::release(Sequence& s) {
  DraftTable& t = s.draft;
  for (; !t.blocks.empty(); t.blocks.pop_back()) blocks_.drop(t.blocks.back());
  for (const uint32_t slot : {t.slot, t.before})
    if (slot != StateSlots::none) slots_.release(slot);
  t = {};
}

// False: there are not two, and it has none.
bool ModelDraft::take_slots(DraftTable& t) {
  if (!has_states() || t.slot != StateSlots::none) return true;
  if (slots_.free() < 2) return false;
  t.slot = slots_.allocate();
  t.before = slots_.allocate();
  return true;
}

// Of what it guessed, the tokens that were accepted are computed. At least the last known token is left, for its
// logits. A state that has seen a wrong guess is of no use: those that were right are computed again.
void ModelDraft::keep_right(Sequence& s) const {
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

bool ModelDraft::shares(const Sequence& s) const { return prefix_cache_ && s.task.request.reuse; }

std::span<const uint32_t> ModelDraft::block_of(const Sequence& s, uint32_t block) const {
  return std::span(s.tokens).subspan(size_t(block) * limits_.block_tokens, limits_.block_tokens);
}

void ModelDraft::publish(Sequence& s) {
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

void ModelDraft::reuse_blocks(Sequence& s) {
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

bool ModelDraft::can_propose(const Sequence& s) const { return backend_.usable() && s.known() <= context_; }

bool ModelDraft::prepare(Sequence& s, uint32_t& count) {
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

void ModelDraft::check_holders(std::span<const Sequence* const> all) const {
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

// --- the rows of a batch ---------------------------------------------------------------------------------------------
// Those that continue get their rows first, then prompts as far as the time goes. Of completions that share a prompt,
// one computes it and the others find it later.
void ModelDraft::plan_rows(double catch_up) {
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

void ModelDraft::add_rows(Active& a, uint32_t sequence) {
  Sequence& s = *a.sequence;
  DraftTable& t = s.draft;
  if (has_states()) batch_.slots.push_back(t.slot);
  for (uint32_t row = 0; row < a.rows; ++row) {
    const uint32_t position = t.fed();
    const bool known = position < s.known();
    const uint32_t token = known ? s.tokens[position] : s.proposed[position - s.known()];
    add_row(token, position, sequence);
    if (known)
      ++t.computed;
    else
      t.guessed.push_back(token);
  }
  a.picks = false;
  if (t.fed() == s.known() + s.proposed.size()) pick_after_last_row(a);
}

// Behind the batch with the last known token, before any guess.
void ModelDraft::copy_states() {
  if (!has_states()) return;
  for (const Active& a : active_) {
    DraftTable& t = a.sequence->draft;
    if (t.computed < a.sequence->known() || !t.guessed.empty() || a.count == 1) continue;
    backend_.copy_state(t.slot, t.before);
    t.before_computed = t.computed;
  }
}

}  // namespace heddle::engine
