#include "engine/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace heddle::test {
namespace {

using engine::BlockPool;
using Then = BlockPool::Then;

TEST(BlockPool, EvictsInTheOrderThatWasAskedFor) {
  BlockPool pool(4);
  const auto evict = [&](uint32_t block) { pool.clear(block); };
  for (uint32_t block = 0; block < 4; ++block) EXPECT_EQ(pool.allocate(evict), block);
  EXPECT_EQ(pool.allocate(evict), std::nullopt);
  pool.drop(2, Then::evict_last);
  pool.drop(0, Then::evict_last);
  pool.drop(3, Then::evict_first);
  EXPECT_EQ(pool.cached(), 3u);
  EXPECT_EQ(pool.free(), 3u);
  pool.hold(2);  // no more among those to be evicted
  EXPECT_EQ(pool.holders(2), 1u);
  EXPECT_EQ(pool.allocate(evict), 3u);
  EXPECT_EQ(pool.allocate(evict), 0u);
  EXPECT_EQ(pool.allocate(evict), std::nullopt);
  pool.drop(1, Then::empty);
  EXPECT_THROW(pool.drop(1, Then::empty), std::logic_error);
  EXPECT_THROW(pool.hold(1), std::logic_error) << "an empty block is allocated";
}

// Against a list of blocks, in any order of calls.
TEST(BlockPool, IsAQueueWithTwoEnds) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const uint32_t count = uint32_t(1 + random() % 12);
    BlockPool pool(count);
    std::vector<uint32_t> holders(count);
    std::deque<uint32_t> cached;
    for (int i = 0; i < 500; ++i) {
      const uint32_t block = uint32_t(random() % count);
      if (random() % 3 == 0) {
        std::optional<uint32_t> evicted;
        const auto found = pool.allocate([&](uint32_t first) { pool.clear(*(evicted = first)); });
        if (evicted) {
          ASSERT_EQ(*evicted, cached.front());
          cached.pop_front();
        }
        ASSERT_EQ(found.has_value(), evicted || std::ranges::count(holders, 0u) > std::ptrdiff_t(cached.size()));
        if (found) holders[*found] = 1;
      } else if (holders[block] > 0) {
        const Then then = Then(random() % 3);
        pool.drop(block, then);
        if (--holders[block] > 0 || then == Then::empty) continue;
        if (then == Then::evict_last) cached.push_back(block);
        if (then == Then::evict_first) cached.push_front(block);
      } else if (const auto at = std::ranges::find(cached, block); at != cached.end()) {
        cached.erase(at);
        pool.hold(block);
        holders[block] = 1;
      }
      pool.check_holders(holders, [&](uint32_t each) { return std::ranges::find(cached, each) != cached.end(); });
    }
  }
}

}  // namespace
}  // namespace heddle::test
