// Slots for the recurrent states of sequences. A slot is empty, held by a sequence, or has a snapshot: a copy of the
// state after a text of whole blocks.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/kv_store.h"

namespace heddle::engine {

// Snapshots are found by the number of their text (KvBlocks::Prefix). No sequence holds a snapshot: one that is used
// is copied, and copies are made in the order in which they were asked for, so its slot may be allocated at once.
class StateSlots {
 public:
  static constexpr uint32_t none = ~0u;
  using Prefix = uint64_t;

  explicit StateSlots(uint32_t count);

  uint32_t count() const { return count_; }
  uint32_t snapshots() const { return uint32_t(by_use_.size()); }
  uint32_t empty() const { return uint32_t(empty_.size()); }
  uint32_t free() const { return empty() + snapshots(); }  // that allocate() can return

  // An empty slot, or else that of the snapshot used least recently, which is dropped. The caller holds it. none: all
  // are held.
  uint32_t allocate();
  void release(uint32_t slot);  // which is held

  // Makes a snapshot of a slot that is held. If that text has one already, the slot is released. Either is then the one
  // used most recently.
  void keep(uint32_t slot, Prefix text, const TextHash& hash = {});
  uint32_t find(Prefix text) const;  // none: there is no snapshot
  void use(Prefix text);             // it has one
  void drop(Prefix text);            // if it has one: its slot is empty

  // Called with a snapshot that is dropped because its slot is needed.
  void on_evict(std::function<void(uint32_t slot, const TextHash&)> call) { on_evict_ = std::move(call); }

  uint64_t kept() const { return kept_; }  // snapshots so far, of which these were dropped
  uint64_t dropped() const { return dropped_; }

  // For tests: throws std::logic_error if a slot is lost or has two uses. `held`: the slots that the caller holds.
  void check_held(std::span<const uint32_t> held) const;

 private:
  struct Snapshot {
    Prefix text;
    uint32_t slot;
    TextHash hash;  // of the text
  };
  using Snapshots = std::list<Snapshot>;

  uint32_t count_;
  std::vector<uint32_t> empty_;
  Snapshots by_use_;  // the one used least recently first
  std::unordered_map<Prefix, Snapshots::iterator> by_text_;
  uint64_t kept_ = 0, dropped_ = 0;
  std::function<void(uint32_t, const TextHash&)> on_evict_;
};

}  // namespace heddle::engine
