// Slots that are not held are a stack of empty ones, and a list of snapshots by their last use.
#include "engine/state_slots.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::engine {

StateSlots::StateSlots(uint32_t count) : count_(count) {
  for (uint32_t slot = count; slot > 0; --slot) empty_.push_back(slot - 1);
}

uint32_t StateSlots::allocate() {
  if (empty_.empty() && !by_use_.empty()) {
    if (on_evict_) on_evict_(by_use_.front().slot, by_use_.front().hash);
    drop(by_use_.front().text);
  }
  if (empty_.empty()) return none;
  const uint32_t slot = empty_.back();
  empty_.pop_back();
  return slot;
}

void StateSlots::release(uint32_t slot) {
  check(slot < count_ && free() < count_, "a slot that is held");
  empty_.push_back(slot);
}

void StateSlots::keep(uint32_t slot, Prefix text, const TextHash& hash) {
  if (by_text_.contains(text)) {
    release(slot);
    use(text);
    return;
  }
  check(slot < count_ && free() < count_, "a slot that is held");
  by_text_.emplace(text, by_use_.insert(by_use_.end(), {text, slot, hash}));
  ++kept_;
}

uint32_t StateSlots::find(Prefix text) const {
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? none : found->second->slot;
}

void StateSlots::use(Prefix text) { by_use_.splice(by_use_.end(), by_use_, by_text_.at(text)); }

void StateSlots::drop(Prefix text) {
  const auto found = by_text_.find(text);
  if (found == by_text_.end()) return;
  empty_.push_back(found->second->slot);
  by_use_.erase(found->second);
  by_text_.erase(found);
  ++dropped_;
}

void StateSlots::check_held(std::span<const uint32_t> held) const {
  std::vector<uint32_t> uses(count_);
  for (const uint32_t slot : held) ++uses.at(slot);
  for (const uint32_t slot : empty_) ++uses.at(slot);
  for (const Snapshot& snapshot : by_use_) {
    ++uses.at(snapshot.slot);
    check(find(snapshot.text) == snapshot.slot, "a snapshot is found by its text");
  }
  check(std::all_of(uses.begin(), uses.end(), [](uint32_t count) { return count == 1; }),
        "a slot is empty, held once, or has a snapshot");
  check(by_text_.size() == by_use_.size() && kept_ - dropped_ == by_use_.size(), "the count of snapshots is right");
}

}  // namespace heddle::engine
