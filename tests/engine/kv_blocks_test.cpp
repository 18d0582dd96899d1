// KvBlocks are counted, found by what is in them, and taken again in the order they were left.
#include "engine/kv_blocks.h"

#include <gtest/gtest.h>

#include <random>

namespace heddle::test {
namespace {

using engine::KvBlocks;
using Tokens = std::vector<uint32_t>;

TEST(KvBlocks, AreTakenUntilNoneIsLeft) {
  KvBlocks blocks(3, 2);
  EXPECT_EQ(blocks.free(), 3u);
  EXPECT_EQ(blocks.allocate(), 0u);
  EXPECT_EQ(blocks.allocate(), 1u);
  EXPECT_EQ(blocks.allocate(), 2u);
  EXPECT_EQ(blocks.allocate(), std::nullopt);
  blocks.drop(1);
  EXPECT_EQ(blocks.allocate(), 1u);
  EXPECT_EQ(KvBlocks(0, 2).allocate(), std::nullopt);
}

TEST(KvBlocks, AreFreeWhenTheLastHolderDropsThem) {
  KvBlocks blocks(1, 2);
  blocks.allocate();
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

TEST(KvBlocks, AreFoundByTheirTokensAndAllBefore) {
  KvBlocks blocks(4, 2);
  for (int i = 0; i < 4; ++i) blocks.allocate();
  const auto a = blocks.publish(0, KvBlocks::empty_prefix, Tokens{1, 2});
  const auto ab = blocks.publish(1, a.prefix, Tokens{3, 4});
  EXPECT_EQ(a.block, 0u);
  EXPECT_EQ(blocks.find(KvBlocks::empty_prefix, Tokens{1, 2})->block, 0u);
  EXPECT_EQ(blocks.find(a.prefix, Tokens{3, 4})->block, 1u);
  EXPECT_EQ(blocks.find(a.prefix, Tokens{3, 4})->prefix, ab.prefix);
  EXPECT_FALSE(blocks.find(KvBlocks::empty_prefix, Tokens{3, 4})) << "after nothing it is another one";
  EXPECT_FALSE(blocks.find(ab.prefix, Tokens{3, 4}));
  EXPECT_FALSE(blocks.find(KvBlocks::empty_prefix, Tokens{2, 1}));
  // the same content once more: the first one stays
  EXPECT_EQ(blocks.publish(2, KvBlocks::empty_prefix, Tokens{1, 2}).block, 0u);
  EXPECT_FALSE(blocks.findable(2));
  EXPECT_THROW(blocks.publish(0, ab.prefix, Tokens{5, 6}), std::logic_error) << "it has a name";
  EXPECT_THROW(blocks.publish(3, ab.prefix, Tokens{5}), std::logic_error) << "it is not whole";
}

TEST(KvBlocks, TheirBeginningsAreFound) {
  KvBlocks blocks(6, 4);
  for (int i = 0; i < 6; ++i) blocks.allocate();
  const auto a = blocks.publish(0, KvBlocks::empty_prefix, Tokens{1, 2, 3, 4});
  blocks.publish(1, KvBlocks::empty_prefix, Tokens{1, 2, 5, 6});
  blocks.publish(2, a.prefix, Tokens{1, 2, 5, 7});
  EXPECT_EQ(blocks.find_beginning(KvBlocks::empty_prefix, Tokens{1, 2, 3, 9})->block, 0u);
  EXPECT_EQ(blocks.find_beginning(KvBlocks::empty_prefix, Tokens{1, 2, 3, 9})->tokens, 3u);
  EXPECT_EQ(blocks.find_beginning(KvBlocks::empty_prefix, Tokens{1, 2, 5})->block, 1u);
  EXPECT_EQ(blocks.find_beginning(KvBlocks::empty_prefix, Tokens{1, 2, 5, 7})->tokens, 3u)
      << "after other tokens it is another";
  EXPECT_EQ(blocks.find_beginning(a.prefix, Tokens{1, 2, 5, 7})->tokens, 4u);
  EXPECT_EQ(blocks.find_beginning(KvBlocks::empty_prefix, Tokens{1})->tokens, 1u);
  EXPECT_FALSE(blocks.find_beginning(KvBlocks::empty_prefix, Tokens{2, 2}));
  EXPECT_FALSE(blocks.find_beginning(KvBlocks::empty_prefix, Tokens{}));
  // blocks that are not whole, which find() does not see
  blocks.publish_partial(3, KvBlocks::empty_prefix, Tokens{7, 8, 9});
  EXPECT_TRUE(blocks.findable(3));
  EXPECT_EQ(blocks.find_beginning(KvBlocks::empty_prefix, Tokens{7, 8, 9, 1})->tokens, 3u);
  EXPECT_FALSE(blocks.find(KvBlocks::empty_prefix, Tokens{7, 8, 9}));
  blocks.publish_partial(4, KvBlocks::empty_prefix, Tokens{7, 8});
  EXPECT_FALSE(blocks.findable(4)) << "there is more of it elsewhere";
  blocks.publish_partial(4, KvBlocks::empty_prefix, Tokens{});
  EXPECT_FALSE(blocks.findable(4));
  EXPECT_THROW(blocks.publish_partial(5, KvBlocks::empty_prefix, Tokens{1, 2, 3, 4}), std::logic_error)
      << "it is whole";
  blocks.check_holders(Tokens(6, 1));
  blocks.drop(3);
  EXPECT_EQ(blocks.cached(), 1u);
  blocks.forget(3);
  EXPECT_FALSE(blocks.find_beginning(KvBlocks::empty_prefix, Tokens{7, 8, 9}));
  EXPECT_EQ(blocks.free(), 1u);
}

TEST(KvBlocks, AHashAloneIsNotBelieved) {
  KvBlocks blocks(4, 2, [](uint64_t, std::span<const uint32_t>) -> uint64_t { return 7; });
  for (int i = 0; i < 4; ++i) blocks.allocate();
  const auto a = blocks.publish(0, KvBlocks::empty_prefix, Tokens{1, 2});
  const auto b = blocks.publish(1, KvBlocks::empty_prefix, Tokens{3, 4});
  const auto ab = blocks.publish(2, a.prefix, Tokens{3, 4});
  EXPECT_EQ(b.block, 1u);
  EXPECT_EQ(ab.block, 2u);
  EXPECT_EQ(blocks.find(KvBlocks::empty_prefix, Tokens{1, 2})->block, 0u);
  EXPECT_EQ(blocks.find(KvBlocks::empty_prefix, Tokens{3, 4})->block, 1u);
  EXPECT_EQ(blocks.find(a.prefix, Tokens{3, 4})->block, 2u);
  EXPECT_FALSE(blocks.find(b.prefix, Tokens{3, 4}));
  EXPECT_FALSE(blocks.find(KvBlocks::empty_prefix, Tokens{5, 6}));
  blocks.check_holders(std::vector<uint32_t>{1, 1, 1, 1});
  blocks.forget(1);
  EXPECT_FALSE(blocks.find(KvBlocks::empty_prefix, Tokens{3, 4}));
  EXPECT_EQ(blocks.find(a.prefix, Tokens{3, 4})->block, 2u);
}

TEST(KvBlocks, TheOneUsedLongestAgoGoesFirst) {
  KvBlocks blocks(3, 1);
  for (uint32_t i = 0; i < 3; ++i) {
    blocks.allocate();
    blocks.publish(i, KvBlocks::empty_prefix, Tokens{i});
  }
  for (const uint32_t i : {1u, 0u, 2u}) blocks.drop(i);
  EXPECT_EQ(blocks.cached(), 3u);
  EXPECT_EQ(blocks.free(), 3u);
  blocks.hold(1);  // used again
  blocks.drop(1);
  EXPECT_EQ(blocks.allocate(), 0u);
  EXPECT_FALSE(blocks.find(KvBlocks::empty_prefix, Tokens{0}));
  EXPECT_TRUE(blocks.find(KvBlocks::empty_prefix, Tokens{1}));
  EXPECT_EQ(blocks.allocate(), 2u);
  EXPECT_EQ(blocks.allocate(), 1u);
  EXPECT_EQ(blocks.allocate(), std::nullopt);
  EXPECT_EQ(blocks.cached(), 0u);
}

TEST(KvBlocks, EmptyOnesAreTakenBeforeThoseThatCanBeFound) {
  KvBlocks blocks(2, 1);
  blocks.allocate();
  blocks.allocate();
  blocks.publish(0, KvBlocks::empty_prefix, Tokens{5});
  blocks.drop(0);
  blocks.drop(1);
  EXPECT_EQ(blocks.allocate(), 1u);
  EXPECT_TRUE(blocks.find(KvBlocks::empty_prefix, Tokens{5}));
}

TEST(KvBlocks, WhatIsForgottenIsNotFound) {
  KvBlocks blocks(2, 1);
  blocks.allocate();
  blocks.allocate();
  const auto a = blocks.publish(0, KvBlocks::empty_prefix, Tokens{5});
  blocks.publish(1, a.prefix, Tokens{6});
  blocks.forget(0);  // held
  EXPECT_FALSE(blocks.find(KvBlocks::empty_prefix, Tokens{5}));
  const auto again = blocks.publish(0, KvBlocks::empty_prefix, Tokens{5});
  EXPECT_NE(again.prefix, a.prefix);
  EXPECT_FALSE(blocks.find(again.prefix, Tokens{6})) << "that came after what was forgotten";
  blocks.drop(1);
  blocks.drop(0);
  blocks.forget(0);  // of nobody
  blocks.forget(0);
  EXPECT_EQ(blocks.cached(), 1u);
  EXPECT_EQ(blocks.free(), 2u);
  blocks.check_holders(std::vector<uint32_t>{0, 0});
}

TEST(KvBlocks, CountsHoldThroughManyChanges) {
  std::mt19937 random(5);
  KvBlocks blocks(20, 2, [](uint64_t before, std::span<const uint32_t> tokens) { return (before + tokens[0]) % 3; });
  std::vector<uint32_t> holders(20);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t block = random() % 20;
    switch (random() % 6) {
      case 0:
        if (const auto taken = blocks.allocate()) ++holders[*taken];
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
          blocks.publish_partial(block, random() % 4, Tokens(1, uint32_t(random() % 9)));
        break;
    }
    blocks.check_holders(holders);
  }
}

}  // namespace
}  // namespace heddle::test
