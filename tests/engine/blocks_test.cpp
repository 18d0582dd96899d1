// Blocks are counted, found by what is in them, and taken again in the order they were left.
#include "engine/blocks.h"

#include <gtest/gtest.h>

#include <random>

namespace heddle::test {
namespace {

using engine::Blocks;
using Tokens = std::vector<uint32_t>;

TEST(Blocks, AreTakenUntilNoneIsLeft) {
  Blocks blocks(3, 2);
  EXPECT_EQ(blocks.free(), 3u);
  EXPECT_EQ(blocks.take(), 0u);
  EXPECT_EQ(blocks.take(), 1u);
  EXPECT_EQ(blocks.take(), 2u);
  EXPECT_EQ(blocks.take(), std::nullopt);
  blocks.drop(1);
  EXPECT_EQ(blocks.take(), 1u);
  EXPECT_EQ(Blocks(0, 2).take(), std::nullopt);
}

TEST(Blocks, AreFreeWhenTheLastHolderDropsThem) {
  Blocks blocks(1, 2);
  blocks.take();
  blocks.hold(0);
  EXPECT_EQ(blocks.holders(0), 2u);
  blocks.drop(0);
  EXPECT_EQ(blocks.free(), 0u);
  blocks.check_holders(std::vector<uint32_t>{1});
  blocks.drop(0);
  EXPECT_EQ(blocks.free(), 1u);
  EXPECT_EQ(blocks.cached(), 0u);
  EXPECT_THROW(blocks.drop(0), std::logic_error);
  EXPECT_THROW(blocks.hold(0), std::logic_error) << "an empty block has nothing to share";
}

TEST(Blocks, AreFoundByTheirTokensAndAllBefore) {
  Blocks blocks(4, 2);
  for (int i = 0; i < 4; ++i) blocks.take();
  const auto a = blocks.publish(0, Blocks::beginning, Tokens{1, 2});
  const auto ab = blocks.publish(1, a.link, Tokens{3, 4});
  EXPECT_EQ(a.block, 0u);
  EXPECT_EQ(blocks.find(Blocks::beginning, Tokens{1, 2})->block, 0u);
  EXPECT_EQ(blocks.find(a.link, Tokens{3, 4})->block, 1u);
  EXPECT_EQ(blocks.find(a.link, Tokens{3, 4})->link, ab.link);
  EXPECT_FALSE(blocks.find(Blocks::beginning, Tokens{3, 4})) << "after nothing it is another one";
  EXPECT_FALSE(blocks.find(ab.link, Tokens{3, 4}));
  EXPECT_FALSE(blocks.find(Blocks::beginning, Tokens{2, 1}));
  // the same content once more: the first one stays
  EXPECT_EQ(blocks.publish(2, Blocks::beginning, Tokens{1, 2}).block, 0u);
  EXPECT_FALSE(blocks.findable(2));
  EXPECT_THROW(blocks.publish(0, ab.link, Tokens{5, 6}), std::logic_error) << "it has a name";
  EXPECT_THROW(blocks.publish(3, ab.link, Tokens{5}), std::logic_error) << "it is not whole";
}

TEST(Blocks, TheirBeginningsAreFound) {
  Blocks blocks(6, 4);
  for (int i = 0; i < 6; ++i) blocks.take();
  const auto a = blocks.publish(0, Blocks::beginning, Tokens{1, 2, 3, 4});
  blocks.publish(1, Blocks::beginning, Tokens{1, 2, 5, 6});
  blocks.publish(2, a.link, Tokens{1, 2, 5, 7});
  EXPECT_EQ(blocks.find_part(Blocks::beginning, Tokens{1, 2, 3, 9})->block, 0u);
  EXPECT_EQ(blocks.find_part(Blocks::beginning, Tokens{1, 2, 3, 9})->tokens, 3u);
  EXPECT_EQ(blocks.find_part(Blocks::beginning, Tokens{1, 2, 5})->block, 1u);
  EXPECT_EQ(blocks.find_part(Blocks::beginning, Tokens{1, 2, 5, 7})->tokens, 3u) << "after other tokens it is another";
  EXPECT_EQ(blocks.find_part(a.link, Tokens{1, 2, 5, 7})->tokens, 4u);
  EXPECT_EQ(blocks.find_part(Blocks::beginning, Tokens{1})->tokens, 1u);
  EXPECT_FALSE(blocks.find_part(Blocks::beginning, Tokens{2, 2}));
  EXPECT_FALSE(blocks.find_part(Blocks::beginning, Tokens{}));
  // blocks that are not whole, which find() does not see
  blocks.publish_part(3, Blocks::beginning, Tokens{7, 8, 9});
  EXPECT_TRUE(blocks.findable(3));
  EXPECT_EQ(blocks.find_part(Blocks::beginning, Tokens{7, 8, 9, 1})->tokens, 3u);
  EXPECT_FALSE(blocks.find(Blocks::beginning, Tokens{7, 8, 9}));
  blocks.publish_part(4, Blocks::beginning, Tokens{7, 8});
  EXPECT_FALSE(blocks.findable(4)) << "there is more of it elsewhere";
  blocks.publish_part(4, Blocks::beginning, Tokens{});
  EXPECT_FALSE(blocks.findable(4));
  EXPECT_THROW(blocks.publish_part(5, Blocks::beginning, Tokens{1, 2, 3, 4}), std::logic_error) << "it is whole";
  blocks.check_holders(Tokens(6, 1));
  blocks.drop(3);
  EXPECT_EQ(blocks.cached(), 1u);
  blocks.forget(3);
  EXPECT_FALSE(blocks.find_part(Blocks::beginning, Tokens{7, 8, 9}));
  EXPECT_EQ(blocks.free(), 1u);
}

TEST(Blocks, AHashAloneIsNotBelieved) {
  Blocks blocks(4, 2, [](uint64_t, std::span<const uint32_t>) -> uint64_t { return 7; });
  for (int i = 0; i < 4; ++i) blocks.take();
  const auto a = blocks.publish(0, Blocks::beginning, Tokens{1, 2});
  const auto b = blocks.publish(1, Blocks::beginning, Tokens{3, 4});
  const auto ab = blocks.publish(2, a.link, Tokens{3, 4});
  EXPECT_EQ(b.block, 1u);
  EXPECT_EQ(ab.block, 2u);
  EXPECT_EQ(blocks.find(Blocks::beginning, Tokens{1, 2})->block, 0u);
  EXPECT_EQ(blocks.find(Blocks::beginning, Tokens{3, 4})->block, 1u);
  EXPECT_EQ(blocks.find(a.link, Tokens{3, 4})->block, 2u);
  EXPECT_FALSE(blocks.find(b.link, Tokens{3, 4}));
  EXPECT_FALSE(blocks.find(Blocks::beginning, Tokens{5, 6}));
  blocks.check_holders(std::vector<uint32_t>{1, 1, 1, 1});
  blocks.forget(1);
  EXPECT_FALSE(blocks.find(Blocks::beginning, Tokens{3, 4}));
  EXPECT_EQ(blocks.find(a.link, Tokens{3, 4})->block, 2u);
}

TEST(Blocks, TheOneUsedLongestAgoGoesFirst) {
  Blocks blocks(3, 1);
  for (uint32_t i = 0; i < 3; ++i) {
    blocks.take();
    blocks.publish(i, Blocks::beginning, Tokens{i});
  }
  for (const uint32_t i : {1u, 0u, 2u}) blocks.drop(i);
  EXPECT_EQ(blocks.cached(), 3u);
  EXPECT_EQ(blocks.free(), 3u);
  blocks.hold(1);  // used again
  blocks.drop(1);
  EXPECT_EQ(blocks.take(), 0u);
  EXPECT_FALSE(blocks.find(Blocks::beginning, Tokens{0}));
  EXPECT_TRUE(blocks.find(Blocks::beginning, Tokens{1}));
  EXPECT_EQ(blocks.take(), 2u);
  EXPECT_EQ(blocks.take(), 1u);
  EXPECT_EQ(blocks.take(), std::nullopt);
  EXPECT_EQ(blocks.cached(), 0u);
}

TEST(Blocks, EmptyOnesAreTakenBeforeThoseThatCanBeFound) {
  Blocks blocks(2, 1);
  blocks.take();
  blocks.take();
  blocks.publish(0, Blocks::beginning, Tokens{5});
  blocks.drop(0);
  blocks.drop(1);
  EXPECT_EQ(blocks.take(), 1u);
  EXPECT_TRUE(blocks.find(Blocks::beginning, Tokens{5}));
}

TEST(Blocks, WhatIsForgottenIsNotFound) {
  Blocks blocks(2, 1);
  blocks.take();
  blocks.take();
  const auto a = blocks.publish(0, Blocks::beginning, Tokens{5});
  blocks.publish(1, a.link, Tokens{6});
  blocks.forget(0);  // held
  EXPECT_FALSE(blocks.find(Blocks::beginning, Tokens{5}));
  const auto again = blocks.publish(0, Blocks::beginning, Tokens{5});
  EXPECT_NE(again.link, a.link);
  EXPECT_FALSE(blocks.find(again.link, Tokens{6})) << "that came after what was forgotten";
  blocks.drop(1);
  blocks.drop(0);
  blocks.forget(0);  // of nobody
  blocks.forget(0);
  EXPECT_EQ(blocks.cached(), 1u);
  EXPECT_EQ(blocks.free(), 2u);
  blocks.check_holders(std::vector<uint32_t>{0, 0});
}

TEST(Blocks, CountsHoldThroughManyChanges) {
  std::mt19937 random(5);
  Blocks blocks(20, 2, [](uint64_t before, std::span<const uint32_t> tokens) { return (before + tokens[0]) % 3; });
  std::vector<uint32_t> holders(20);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t block = random() % 20;
    switch (random() % 6) {
      case 0:
        if (const auto taken = blocks.take()) ++holders[*taken];
        break;
      case 1:
        if (holders[block] > 0 || blocks.findable(block)) blocks.hold(block), ++holders[block];
        break;
      case 2:
        if (holders[block] > 0) blocks.drop(block), --holders[block];
        break;
      case 3:
        if (holders[block] > 0 && !blocks.findable(block))
          blocks.publish(block, random() % 4, Tokens{uint32_t(random() % 9), uint32_t(random() % 3)});
        break;
      case 4:
        if (random() % 8 == 0) blocks.forget(block);
        break;
      case 5:
        if (holders[block] > 0 && !blocks.findable(block))
          blocks.publish_part(block, random() % 4, Tokens(1, uint32_t(random() % 9)));
        break;
    }
    blocks.check_holders(holders);
  }
}

}  // namespace
}  // namespace heddle::test
