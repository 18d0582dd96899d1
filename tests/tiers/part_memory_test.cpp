// Memory of parts: its bounds, and that it is used again.
#include "tiers/part_memory.h"

#include <gtest/gtest.h>

namespace heddle::tiers {
namespace {

TEST(PartMemory, IsBoundedAndUsedAgain) {
  PartMemory memory(10000);
  uint8_t* one = memory.take(4000);
  uint8_t* two = memory.take(6000);
  ASSERT_TRUE(one && two);
  one[3999] = two[5999] = 1;
  EXPECT_EQ(memory.used(), 10000u);
  EXPECT_FALSE(memory.has_room(1));
  EXPECT_EQ(memory.take(1), nullptr);
  memory.give_back(one, 4000);
  EXPECT_EQ(memory.used(), 6000u);
  EXPECT_EQ(memory.take(4000), one);
  memory.give_back(one, 4000);
  memory.give_back(two, 6000);
  // another size: what was kept makes room
  uint8_t* all = memory.take(10000);
  ASSERT_TRUE(all);
  all[0] = all[9999] = 1;
  EXPECT_EQ(memory.used(), 10000u);
  memory.give_back(all, 10000);
  EXPECT_TRUE(memory.has_room(10000));
  EXPECT_FALSE(memory.has_room(10001));
}

}  // namespace
}  // namespace heddle::tiers
