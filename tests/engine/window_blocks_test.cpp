#include "engine/window_blocks.h"

#include <gtest/gtest.h>

namespace heddle::test {
namespace {

using engine::WindowBlocks;

TEST(WindowBlocks, AreFoundByTheKvBlockBesideThem) {
  WindowBlocks windows(3, 10);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(windows.allocate(), i);
  windows.put_beside(7, 0);
  windows.put_beside(4, 1);
  EXPECT_EQ(windows.of(7), 0u);
  EXPECT_EQ(windows.of(5), WindowBlocks::none);
  EXPECT_THROW(windows.put_beside(7, 2), std::logic_error);
  EXPECT_THROW(windows.put_beside(5, 0), std::logic_error);
  windows.drop(0, true);
  windows.drop(1, false);
  windows.drop(2, true);  // beside none: empty
  EXPECT_EQ(windows.cached(), 2u);
  EXPECT_EQ(windows.free(), 3u);
  windows.check_holders(std::vector<uint32_t>(3));
  EXPECT_EQ(windows.allocate(), 2u);
  EXPECT_EQ(windows.allocate(), 1u) << "not worth keeping";
  EXPECT_EQ(windows.of(4), WindowBlocks::none);
  EXPECT_EQ(windows.of(7), 0u);
  windows.hold(0);
  EXPECT_EQ(windows.allocate(), std::nullopt);
  windows.forget(7);
  windows.forget(7);
  EXPECT_EQ(windows.of(7), WindowBlocks::none);
  windows.check_holders(std::vector<uint32_t>{1, 1, 1});
  windows.drop(0, true);
  EXPECT_EQ(windows.cached(), 0u);
}

TEST(WindowBlocks, GoWithTheirKvBlock) {
  WindowBlocks windows(1, 1);
  windows.allocate();
  windows.put_beside(0, 0);
  windows.drop(0, true);
  windows.forget(0);
  EXPECT_EQ(windows.cached(), 0u);
  EXPECT_EQ(windows.free(), 1u);
  EXPECT_THROW(windows.check_holders(std::vector<uint32_t>{1}), std::logic_error);
}

}  // namespace
}  // namespace heddle::test
