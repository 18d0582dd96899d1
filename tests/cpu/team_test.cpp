// Phases of a team: every item once, also with more threads than cores, after sleep, and with exceptions.
#include "cpu/team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "tests/cpu/two_nodes.h"

namespace heddle::cpu {
namespace {

// Waits for it, but not for ever.
template <class Condition>
bool comes_true(Condition&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  return condition();
}

TEST(Team, DoesEveryItemOnce) {
  for (const uint32_t threads : {1u, 2u, 5u, 9u}) {
    Team team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (const uint64_t items : {0u, 1u, 2u, 100u}) {
      for (int phase = 0; phase < 20; ++phase) {
        std::vector<std::atomic<int>> seen(items);
        team.run(items, [&](uint64_t item, uint32_t thread) {
          EXPECT_LT(thread, threads);
          ++seen[item];
        });
        for (const auto& count : seen) ASSERT_EQ(count, 1);
      }
    }
  }
}

TEST(Team, WakesUp) {
  Team team(3);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<uint64_t> sum = 0;
    team.run(50, [&](uint64_t item, uint32_t) { sum += item; });
    EXPECT_EQ(sum, 49u * 50 / 2);
  }
}

TEST(Team, ThrowsWhatAnItemThrew) {
  Team team(2);
  EXPECT_THROW(team.run(10,
                        [](uint64_t item, uint32_t) {
                          if (item == 7) throw std::runtime_error("seven");
                        }),
               std::runtime_error);
  int done = 0;
  team.run(1, [&](uint64_t, uint32_t) { ++done; });
  EXPECT_EQ(done, 1);
  EXPECT_THROW(team.run(1, [](uint64_t, uint32_t) { throw std::runtime_error("one"); }), std::runtime_error);
}

// The item waits until all others are done, those of its own thread's share among them.
TEST(Team, OneThatIsLateDoesNotStopTheOthers) {
  for (const uint32_t threads : {2u, 4u}) {
    Team team(threads);
    for (const uint64_t late : {0u, 7u, 19u}) {
      std::atomic<int> done = 0;
      team.run(20, [&](uint64_t item, uint32_t) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (item == late && done < 19 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        if (item == late) {
          EXPECT_EQ(done, 19);
        }
        ++done;
      });
      EXPECT_EQ(done, 20);
    }
  }
}

// Cores of different speed: an item of the slow thread takes as long as eight of the others. It does one in nine, and
// the others wait for no more than one item of it at the end.
TEST(Team, ASlowThreadDoesAsMuchAsItCan) {
  for (const uint32_t slow : {0u, 1u}) {
    Team team(2);
    constexpr int items = 32;
    std::atomic<int> by_slow = 0, by_others = 0;
    team.run(items, [&](uint64_t, uint32_t thread) {
      if (thread != slow) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (by_others == 0 && by_slow == 0 && std::chrono::steady_clock::now() < deadline)
          std::this_thread::yield();  // until the slow one has begun, too
        ++by_others;
        return;
      }
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      const int before = by_others, mine = ++by_slow;
      while (by_others < before + 8 && by_others + mine < items && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    });
    EXPECT_EQ(by_slow + by_others, items);
    EXPECT_LE(by_slow, items / 9 + 1) << slow;
    EXPECT_GE(by_slow, 1) << slow;
  }
}

// A thread that comes too late for a phase must not take an item of it, or do one of the next phase with the wrong
// work.
TEST(Team, ManyShortPhasesOfChangingSizes) {
  Team team(7);
  std::vector<std::atomic<uint32_t>> seen(40);
  for (uint32_t phase = 1; phase <= 3000; ++phase) {
    const uint64_t items = 2 + phase * 7 % 39;
    team.run(items, [&](uint64_t item, uint32_t) { seen[item] += phase; });
    for (uint64_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i].exchange(0), i < items ? phase : 0);
  }
}

// Each thread waits with its first item until all have one, so that none helps another before.
TEST(Team, EachThreadBeginsWithItsFirstItem) {
  Team team(4);
  for (const uint64_t count : {4u, 11u, 64u, 1000u}) {
    std::vector<uint64_t> first(team.threads(), count), expected;
    std::atomic<uint32_t> begun = 0;
    team.run(count, [&](uint64_t item, uint32_t thread) {
      if (first[thread] != count) return;
      first[thread] = item;
      ++begun;
      EXPECT_TRUE(comes_true([&] { return begun == team.threads(); }));
    });
    for (uint32_t thread = 0; thread < team.threads(); ++thread) expected.push_back(team.first_item(count, thread));
    EXPECT_EQ(first, expected) << count;
  }
  for (const uint64_t count : {0u, 1u, 3u})  // not every thread has one
    for (uint32_t thread = 0; thread < team.threads(); ++thread)
      EXPECT_EQ(team.first_item(count, thread), std::min<uint64_t>(thread, count));
}

// Between phases of many items; no thread but the caller's comes for it.
TEST(Team, DoesASingleItemOnTheCallersThread) {
  Team team(3);
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> many = 0;
    team.run(7, [&](uint64_t, uint32_t) { ++many; });
    ASSERT_EQ(many, 7);
    std::thread::id by;
    team.run(1, [&](uint64_t item, uint32_t thread) {
      EXPECT_EQ(item + thread, 0u);
      by = std::this_thread::get_id();
    });
    ASSERT_EQ(by, std::this_thread::get_id());
  }
}

// A thread for each processor; node 0 has one of them.
TEST(Team, ThreadsRunOnTheirNodes) {
  const test::TwoNodes system;
  if (system.nodes.size() < 2) GTEST_SKIP() << "this process may use one processor alone";
  const std::vector<uint32_t> before = allowed_processors();
  const uint32_t threads = uint32_t(before.size());
  Team team(threads, system.root());
  EXPECT_EQ(team.nodes(), system.nodes);
  {
    const RunsOn node(team.processors_of_caller());
    std::vector<std::vector<uint32_t>> where(threads);
    std::atomic<uint32_t> begun = 0;
    team.run(threads, [&](uint64_t, uint32_t thread) {
      where[thread] = allowed_processors();
      ++begun;
      EXPECT_TRUE(comes_true([&] { return begun == threads; }));  // so each thread does one item
    });
    for (uint32_t i = 0; i < threads; ++i) EXPECT_EQ(where[i], system.nodes[i == 0 ? 0 : 1].processors) << i;
  }
  EXPECT_EQ(allowed_processors(), before);
}

// The first thread is node 0, and all of its share waits until the others have done theirs and had time to look for
// more, or until they have helped.
TEST(Team, ANodeIsHelpedOnlyWhereThatIsAllowed) {
  const test::TwoNodes system;
  if (system.nodes.size() < 2) GTEST_SKIP() << "this process may use one processor alone";
  const uint32_t threads = uint32_t(allowed_processors().size()), of_thread = 10, items = threads * of_thread;
  Team team(threads, system.root());
  for (const auto help : {Team::Help::own_node, Team::Help::all}) {
    std::vector<std::atomic<uint32_t>> by(items);
    std::atomic<uint32_t> done = 0, by_others = 0, helped = 0;
    const auto work = [&](uint64_t item, uint32_t thread) {
      if (thread == 0 && help == Team::Help::all)
        EXPECT_TRUE(comes_true([&] { return helped > 0; }));
      else if (thread == 0) {
        EXPECT_TRUE(comes_true([&] { return by_others == items - of_thread; }));
        if (item == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      by[item] = thread;
      if (thread != 0) ++by_others;
      if (thread != 0 && item < of_thread) ++helped;
      ++done;
    };
    team.run(items, work, help);
    EXPECT_EQ(done, items);
    EXPECT_EQ(helped > 0, help == Team::Help::all);
    for (uint32_t i = 0; i < items && help == Team::Help::own_node; ++i) EXPECT_EQ(by[i] == 0, i < of_thread) << i;
  }
}

}  // namespace
}  // namespace heddle::cpu
