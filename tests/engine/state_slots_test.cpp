// Slots are empty, held, or have a snapshot, which is dropped when its slot is needed: the one used least recently.
#include "engine/state_slots.h"

#include <gtest/gtest.h>

#include <list>
#include <map>
#include <random>
#include <set>

namespace heddle::engine {
namespace {

using Held = std::vector<uint32_t>;

TEST(StateSlots, AreAllocatedUntilNoneIsLeft) {
  StateSlots slots(2);
  EXPECT_EQ(slots.free(), 2u);
  EXPECT_EQ(slots.allocate(), 0u);
  EXPECT_EQ(slots.allocate(), 1u);
  EXPECT_EQ(slots.allocate(), StateSlots::none);
  slots.check_held(Held{0, 1});
  slots.release(0);
  EXPECT_EQ(slots.empty(), 1u);
  EXPECT_EQ(slots.allocate(), 0u);
  EXPECT_EQ(StateSlots(0).allocate(), StateSlots::none);
  EXPECT_THROW(StateSlots(1).release(0), std::logic_error) << "it is empty";
  EXPECT_THROW(slots.release(2), std::logic_error) << "there is no such slot";
}

TEST(StateSlots, ASnapshotIsFoundByItsText) {
  StateSlots slots(3);
  const uint32_t a = slots.allocate(), b = slots.allocate();
  slots.keep(a, 10);
  EXPECT_EQ(slots.find(10), a);
  EXPECT_EQ(slots.find(11), StateSlots::none);
  EXPECT_EQ(slots.snapshots(), 1u);
  EXPECT_EQ(slots.free(), 2u);
  slots.keep(b, 10);  // the same text once more: the first one stays
  EXPECT_EQ(slots.find(10), a);
  EXPECT_EQ(slots.empty(), 2u);
  EXPECT_EQ(slots.kept(), 1u);
  slots.drop(11);
  slots.drop(10);
  EXPECT_EQ(slots.find(10), StateSlots::none);
  EXPECT_EQ(slots.dropped(), 1u);
  slots.check_held(Held{});
}

TEST(StateSlots, TheSnapshotUsedLeastRecentlyIsDropped) {
  StateSlots slots(3);
  for (const uint64_t text : {5, 6, 7}) slots.keep(slots.allocate(), text);
  slots.use(5);
  slots.allocate();
  EXPECT_EQ(slots.find(6), StateSlots::none);
  slots.allocate();
  EXPECT_EQ(slots.find(7), StateSlots::none);
  EXPECT_NE(slots.find(5), StateSlots::none);
  EXPECT_EQ(slots.allocate(), 0u);
  EXPECT_EQ(slots.allocate(), StateSlots::none);
  EXPECT_EQ(slots.dropped(), 3u);
  slots.check_held(Held{0, 1, 2});
  EXPECT_THROW(slots.check_held(Held{0, 1}), std::logic_error) << "a slot is lost";
  EXPECT_THROW(slots.check_held(Held{0, 1, 2, 2}), std::logic_error) << "a slot has two holders";
}

TEST(StateSlots, AnEmptyOneIsAllocatedBeforeASnapshot) {
  StateSlots slots(2);
  slots.keep(slots.allocate(), 1);
  EXPECT_EQ(slots.allocate(), 1u);
  EXPECT_EQ(slots.find(1), 0u);
}

// Against a plain model: a set of held slots, and a list of texts by use.
TEST(StateSlots, CountsHoldThroughManyChanges) {
  std::mt19937 random(3);
  StateSlots slots(9);
  std::vector<uint32_t> held;
  std::list<uint64_t> by_use;
  std::map<uint64_t, uint32_t> slot_of;
  const auto take = [&](size_t i) {
    const uint32_t slot = held[i];
    held.erase(held.begin() + long(i));
    return slot;
  };
  for (int i = 0; i < 20000; ++i) {
    const uint64_t text = 1 + random() % 12;
    switch (random() % 5) {
      case 0: {
        const bool full = held.size() + by_use.size() == 9;
        const uint32_t slot = slots.allocate();
        ASSERT_EQ(slot == StateSlots::none, held.size() == 9);
        if (slot == StateSlots::none) break;
        if (full) {
          ASSERT_EQ(slot, slot_of.at(by_use.front()));
          slot_of.erase(by_use.front());
          by_use.pop_front();
        }
        held.push_back(slot);
        break;
      }
      case 1:
        if (!held.empty()) slots.release(take(random() % held.size()));
        break;
      case 2: {
        if (held.empty()) break;
        const uint32_t slot = take(random() % held.size());
        slots.keep(slot, text);
        if (slot_of.try_emplace(text, slot).second)
          by_use.push_back(text);
        else
          by_use.splice(by_use.end(), by_use, std::find(by_use.begin(), by_use.end(), text));
        break;
      }
      case 3:
        if (!slot_of.contains(text)) break;
        slots.use(text);
        by_use.splice(by_use.end(), by_use, std::find(by_use.begin(), by_use.end(), text));
        break;
      case 4:
        if (random() % 3) break;
        slots.drop(text);
        if (slot_of.erase(text)) by_use.remove(text);
        break;
    }
    for (uint64_t any = 1; any <= 12; ++any)
      ASSERT_EQ(slots.find(any), slot_of.contains(any) ? slot_of[any] : StateSlots::none);
    slots.check_held(held);
  }
}

}  // namespace
}  // namespace heddle::engine
