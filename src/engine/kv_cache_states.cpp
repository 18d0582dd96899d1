// Recurrent states in the KV cache: which states are worth a snapshot, how a sequence begins with one, and how it goes
// back to the state before proposals that were wrong.
//
// A copy of a state behind a batch is made right after the launch of that batch, before its result is known: by then
// the next batch may have changed the state. It is a snapshot when the result says that its text is that of the
// sequence.
#include <algorithm>

#include "base/error.h"
#include "engine/kv_cache.h"
#include "engine/sequence.h"

namespace heddle::engine {
namespace {

// Blocks between two snapshots for which a batch is cut: recomputing 128 tokens takes about as long as the batch more.
constexpr uint32_t min_distance = 4;
// A long prompt has a snapshot after this many blocks, but no more of them than are useful, and no more than this part
// of all slots.
constexpr uint32_t prompt_distance = 16, max_in_prompt = 8, prompt_part = 8;

}  // namespace

bool KvCache::take_slot(Sequence& s) {
  Recurrent& r = s.recurrent;
  if (!has_states()) return true;
  check(r.slot == StateSlots::none, "a sequence without a slot");
  if (slots_.free() == 0) return false;
  if (s.computed == 0) {
    r.slot = slots_.allocate();
    return true;
  }
  const uint32_t snapshot = slots_.find(s.prefix);
  if (snapshot == StateSlots::none && r.restored) {
    r.slot = slots_.allocate();
    state_copies_.push_back({.to = r.slot, .bytes = std::exchange(r.restored, {})});
    ++snapshots_found_;
    ++restored_;
    return true;
  }
  // If the snapshot is the only one, its slot is the one that is allocated, and the state is in place.
  check(snapshot != StateSlots::none, "a sequence begins with a snapshot");
  slots_.use(s.prefix);
  r.slot = slots_.allocate();
  ++snapshots_found_;
  if (snapshot != r.slot) state_copies_.push_back({snapshot, r.slot});
  return true;
}

// That after its published blocks, into its slot.
void KvCache::copy_snapshot(Sequence& s) {
  slots_.use(s.prefix);
  ++snapshots_found_;
  state_copies_.push_back({slots_.find(s.prefix), s.recurrent.slot});
}

uint32_t KvCache::next_snapshot(const Sequence& s) const {
  if (!has_states() || !shares(s) || slots_.free() == 0) return UINT32_MAX;
  const Recurrent& r = s.recurrent;
  const uint32_t block = block_tokens_, known = s.known(), earliest = r.last + min_distance * block;
  if (s.streaming()) return std::max((known + block - 1) / block * block, earliest);
  uint32_t next = UINT32_MAX;
  const auto consider = [&](uint32_t position) {
    if (position > s.computed && position >= earliest) next = std::min(next, position);
  };
  const uint32_t end = (known - std::min(known, 1 + answer_beginning)) / block * block;
  consider(end);
  consider(s.parting);
  if (const uint32_t count = std::min(max_in_prompt, slots_.count() / prompt_part); count > 0) {
    const uint32_t distance = std::max(prompt_distance, (known / block + count - 1) / count) * block;
    const uint32_t position = (s.computed / distance + 1) * distance;
    if (position + min_distance * block <= end) consider(position);
  }
  return next;
}

// The state after generated tokens costs no batch: it is copied at the end of each block, for the next turn of the
// conversation. Where no slot is empty, that takes the place of the sequence's last one.
std::optional<KvCache::Copy> KvCache::begin_snapshot(Sequence& s, uint32_t position) {
  Recurrent& r = s.recurrent;
  if (!has_states() || !shares(s) || position % block_tokens_ != 0) return std::nullopt;
  if (position <= s.task.prompt_tokens() && position != next_snapshot(s)) return std::nullopt;
  if (slots_.empty() == 0 && position > s.task.prompt_tokens()) slots_.drop(r.tail);
  const uint32_t slot = slots_.allocate();
  if (slot == StateSlots::none) return std::nullopt;
  r.unconfirmed.push_back({position, slot});
  return Copy{r.slot, slot};
}

// Of the copies that were made, the one after its published blocks becomes a snapshot.
void KvCache::keep_snapshots(Sequence& s) {
  Recurrent& r = s.recurrent;
  std::erase_if(r.unconfirmed, [&](const Recurrent::Unconfirmed& copy) {
    if (copy.position != s.computed) return false;
    check(copy.position == s.published * block_tokens_, "a snapshot follows whole blocks");
    slots_.keep(copy.slot, s.prefix, beyond_.store ? text_of(s, s.published - 1) : TextHash());
    r.last = copy.position;
    if (copy.position <= s.task.prompt_tokens()) return true;
    if (r.tail != s.prefix) slots_.drop(std::exchange(r.tail, s.prefix));
    return true;
  });
}

void KvCache::drop_unconfirmed(Sequence& s) {
  for (const Recurrent::Unconfirmed& copy : s.recurrent.unconfirmed) slots_.release(copy.slot);
  s.recurrent.unconfirmed.clear();
}

bool KvCache::reserve_copy(Sequence& s) {
  Recurrent& r = s.recurrent;
  if (!has_states() || r.before != StateSlots::none) return true;
  r.before = slots_.allocate();
  r.before_computed = s.computed;
  return r.before != StateSlots::none;
}

void KvCache::drop_copy(Sequence& s) {
  const uint32_t before = std::exchange(s.recurrent.before, StateSlots::none);
  if (before != StateSlots::none) slots_.release(before);
}

void KvCache::settle_proposals(Sequence& s, bool all_right) {
  Recurrent& r = s.recurrent;
  if (r.before == StateSlots::none) return;
  if (!all_right) {
    std::swap(r.slot, r.before);
    s.computed = r.before_computed;
    r.again = s.behind() - 1;
  }
  drop_copy(s);
  publish(s);
  drop_unconfirmed(s);
}

void KvCache::release_slots(Sequence& s) {
  Recurrent& r = s.recurrent;
  drop_copy(s);
  publish(s);
  drop_unconfirmed(s);
  if (r.slot != StateSlots::none) {
    std::erase_if(state_copies_, [&](const Copy& copy) { return copy.to == r.slot; });
    slots_.release(r.slot);
  }
  r = {};
}

void KvCache::check_slots(std::span<const Sequence* const> all) const {
  std::vector<uint32_t> held;
  for (const Sequence* s : all) {
    const Recurrent& r = s->recurrent;
    check((r.slot != StateSlots::none) == (s->state == Sequence::State::running), "a running sequence has a slot");
    for (const uint32_t slot : {r.slot, r.before})
      if (slot != StateSlots::none) held.push_back(slot);
    for (const Recurrent::Unconfirmed& copy : r.unconfirmed) held.push_back(copy.slot);
  }
  slots_.check_held(held);
}

}  // namespace heddle::engine
