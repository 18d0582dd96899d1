// Blocks are counted, found by their tokens, and evicted in the order in which they were dropped; sequences share them.
#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/engine/engine_fixture.h"

namespace heddle::test {
namespace {

using engine::KvBlocks;
using Tokens = std::vector<uint32_t>;

TEST(KvBlocks, AreAllocatedUntilNoneIsLeft) {
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
  EXPECT_FALSE(blocks.find(KvBlocks::empty_prefix, Tokens{3, 4})) << "another block, if nothing comes before it";
  EXPECT_FALSE(blocks.find(ab.prefix, Tokens{3, 4}));
  EXPECT_FALSE(blocks.find(KvBlocks::empty_prefix, Tokens{2, 1}));
  // the same content once more: the first one stays
  EXPECT_EQ(blocks.publish(2, KvBlocks::empty_prefix, Tokens{1, 2}).block, 0u);
  EXPECT_FALSE(blocks.findable(2));
  EXPECT_THROW(blocks.publish(0, ab.prefix, Tokens{5, 6}), std::logic_error) << "it is published already";
  EXPECT_THROW(blocks.publish(3, ab.prefix, Tokens{5}), std::logic_error) << "it is not whole";
}

TEST(KvBlocks, AreFoundByTheirFirstTokens) {
  KvBlocks blocks(6, 4);
  for (int i = 0; i < 6; ++i) blocks.allocate();
  const auto a = blocks.publish(0, KvBlocks::empty_prefix, Tokens{1, 2, 3, 4});
  blocks.publish(1, KvBlocks::empty_prefix, Tokens{1, 2, 5, 6});
  blocks.publish(2, a.prefix, Tokens{1, 2, 5, 7});
  EXPECT_EQ(blocks.find_partial(KvBlocks::empty_prefix, Tokens{1, 2, 3, 9})->block, 0u);
  EXPECT_EQ(blocks.find_partial(KvBlocks::empty_prefix, Tokens{1, 2, 3, 9})->tokens, 3u);
  EXPECT_EQ(blocks.find_partial(KvBlocks::empty_prefix, Tokens{1, 2, 5})->block, 1u);
  EXPECT_EQ(blocks.find_partial(KvBlocks::empty_prefix, Tokens{1, 2, 5, 7})->tokens, 3u)
      << "another block, if other tokens come before it";
  EXPECT_EQ(blocks.find_partial(a.prefix, Tokens{1, 2, 5, 7})->tokens, 4u);
  EXPECT_EQ(blocks.find_partial(KvBlocks::empty_prefix, Tokens{1})->tokens, 1u);
  EXPECT_FALSE(blocks.find_partial(KvBlocks::empty_prefix, Tokens{2, 2}));
  EXPECT_FALSE(blocks.find_partial(KvBlocks::empty_prefix, Tokens{}));
  // blocks that are not whole, which find() does not see
  blocks.publish_partial(3, KvBlocks::empty_prefix, Tokens{7, 8, 9});
  EXPECT_TRUE(blocks.findable(3));
  EXPECT_EQ(blocks.find_partial(KvBlocks::empty_prefix, Tokens{7, 8, 9, 1})->tokens, 3u);
  EXPECT_FALSE(blocks.find(KvBlocks::empty_prefix, Tokens{7, 8, 9}));
  blocks.publish_partial(4, KvBlocks::empty_prefix, Tokens{7, 8});
  EXPECT_FALSE(blocks.findable(4)) << "another block has more of these tokens";
  blocks.publish_partial(4, KvBlocks::empty_prefix, Tokens{});
  EXPECT_FALSE(blocks.findable(4));
  EXPECT_THROW(blocks.publish_partial(5, KvBlocks::empty_prefix, Tokens{1, 2, 3, 4}), std::logic_error)
      << "it is whole";
  blocks.check_holders(Tokens(6, 1));
  blocks.drop(3);
  EXPECT_EQ(blocks.cached(), 1u);
  blocks.forget(3);
  EXPECT_FALSE(blocks.find_partial(KvBlocks::empty_prefix, Tokens{7, 8, 9}));
  EXPECT_EQ(blocks.free(), 1u);
}

TEST(KvBlocks, AreNotFoundByAHashAlone) {
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

TEST(KvBlocks, TheOneDroppedFirstIsEvictedFirst) {
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

TEST(KvBlocks, EmptyOnesAreAllocatedBeforeCachedOnes) {
  KvBlocks blocks(2, 1);
  blocks.allocate();
  blocks.allocate();
  blocks.publish(0, KvBlocks::empty_prefix, Tokens{5});
  blocks.drop(0);
  blocks.drop(1);
  EXPECT_EQ(blocks.allocate(), 1u);
  EXPECT_TRUE(blocks.find(KvBlocks::empty_prefix, Tokens{5}));
}

TEST(KvBlocks, AForgottenBlockIsNotFound) {
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
  blocks.forget(0);  // no sequence holds it
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
        if (holders[block] > 0 || blocks.findable(block)) {
          blocks.hold(block);
          ++holders[block];
        }
        break;
      case 2:
        if (holders[block] > 0) {
          blocks.drop(block);
          --holders[block];
        }
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

namespace heddle::test::fake {
namespace {

using engine::FinishReason;
using engine::no_limit;
using engine::Request;

TEST(KvCache, APrefixIsComputedOnce) {
  EngineFixture<> fixture(fake_limits(64));
  const auto first = fixture.submit(greedy(some_tokens(22), 3));
  fixture.run();
  const uint64_t rows = fixture.backend.rows;
  auto longer = some_tokens(22);
  longer.push_back(9);
  const auto second = fixture.submit(greedy(longer, 1));
  fixture.run();
  EXPECT_EQ(fixture.answer(first).cached_tokens, 0u);
  EXPECT_EQ(fixture.answer(second).cached_tokens, 22u);
  EXPECT_EQ(fixture.backend.rows - rows, 1u);
  const auto third = fixture.submit(greedy(some_tokens(20), 1));
  fixture.run();
  EXPECT_EQ(fixture.answer(third).cached_tokens, 19u) << "at least one token is computed";
  Request own = greedy(longer, 1);
  own.reuse = false;
  const auto fourth = fixture.submit(own);
  fixture.run();
  EXPECT_EQ(fixture.answer(fourth).cached_tokens, 0u);
  EXPECT_EQ(fixture.metrics().prompt_cached, 22u + 19u);
  EXPECT_EQ(fixture.metrics().prompt_computed, 22u + 1u + 1u + 23u);
  fixture.expect_as_alone();
}

TEST(KvCache, CompletionsAreReusedAsPrefixes) {
  EngineFixture<> fixture(fake_limits(64));
  const auto first = fixture.submit(greedy(some_tokens(6), 11));
  fixture.run();
  auto conversation = some_tokens(6);
  for (const uint32_t token : fixture.answer(first).tokens()) conversation.push_back(token);
  conversation.push_back(3);
  const auto second = fixture.submit(greedy(conversation, 4));
  fixture.run();
  EXPECT_EQ(fixture.answer(second).cached_tokens, 16u);
  fixture.expect_as_alone();
}

TEST(KvCache, NothingIsReusedWithoutThePrefixCache) {
  EngineFixture<> fixture(fake_limits(64), {.prefix_cache = false});
  fixture.submit(greedy(some_tokens(22), 3));
  fixture.run();
  const auto second = fixture.submit(greedy(some_tokens(22), 3));
  fixture.run();
  EXPECT_EQ(fixture.answer(second).cached_tokens, 0u);
  EXPECT_EQ(fixture.metrics().blocks_cached, 0u);
}

TEST(KvCache, ARequestWaitsForAPrefixThatAnotherComputes) {
  EngineFixture<> fixture(fake_limits(200));
  for (const uint64_t seed : {1, 2, 3}) {  // until it knows that there is time for more than one
    fixture.submit(greedy(random_tokens(60, seed), 1));
    fixture.run();
  }
  const uint64_t rows = fixture.backend.rows;
  const auto first = fixture.submit(greedy(some_tokens(50), 5));
  auto other = some_tokens(50);
  other.back() = 0;
  const auto second = fixture.submit(greedy(other, 5));
  fixture.step();
  const auto third = fixture.submit(greedy(some_tokens(50), 5));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.answer(first).cached_tokens, 0u);
  EXPECT_EQ(fixture.answer(second).cached_tokens, 48u);
  EXPECT_EQ(fixture.answer(third).cached_tokens, 48u);
  EXPECT_EQ(fixture.backend.rows - rows, 50u + 2 + 2 + 3 * 4);
}

// A conversation: the next turn begins with what the last one computed, which rarely ends with a block.
TEST(KvCache, APartOfABlockIsCopied) {
  EngineFixture<> fixture(fake_limits(20, 16));
  const auto first = fixture.submit(greedy(some_tokens(20), 8));
  fixture.run();
  std::vector<uint32_t> next = some_tokens(20);
  for (const uint32_t token : fixture.answer(first).tokens()) next.push_back(token);
  next.push_back(3);
  const uint64_t rows = fixture.backend.rows;
  const auto second = fixture.submit(greedy(next, 1));
  fixture.run();
  EXPECT_EQ(fixture.answer(second).cached_tokens, 27u) << "a block of 16, and 11 of the next: all that was computed";
  EXPECT_EQ(fixture.backend.rows - rows, 2u);
  EXPECT_EQ(fixture.backend.copied, 1u);
  // another text after 20 tokens: what they share of the second block
  std::vector<uint32_t> other = some_tokens(20);
  other.push_back((next[20] + 1) % 16);
  const auto third = fixture.submit(greedy(other, 1));
  fixture.run();
  EXPECT_EQ(fixture.answer(third).cached_tokens, 20u);
  // three tokens of sixteen are not worth a copy
  other.assign({other[0], other[1], other[2], (other[3] + 1) % 16, 5});
  const auto fourth = fixture.submit(greedy(other, 1));
  fixture.run();
  EXPECT_EQ(fixture.answer(fourth).cached_tokens, 0u);
  fixture.expect_as_alone();
}

TEST(KvCache, PreemptionDoesNotChangeTheTokens) {
  std::vector<uint64_t> rows;
  for (const bool reuse : {true, false}) {
    EngineFixture<> fixture(fake_limits(12), {.prefix_cache = reuse});
    for (uint32_t i = 0; i < 6; ++i) {
      Request request = seeded(some_tokens(5, i), 25, i);
      request.sampling.repetition_penalty = 1.3f;
      fixture.submit(request);
    }
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_GT(fixture.metrics().preemptions, 0u);
    EXPECT_EQ(fixture.metrics().blocks_in_use, 0u);
    rows.push_back(fixture.backend.rows);
  }
  EXPECT_LT(rows[0], rows[1]) << "a preempted sequence finds its blocks again";
}

TEST(KvCache, TheLowestPriorityLosesItsBlocks) {
  EngineFixture<> fixture(fake_limits(8));
  std::vector<engine::RequestId> order;
  const auto note = [&](const engine::Event& event) {
    if (event.finish_reason != FinishReason::none) order.push_back(event.request);
  };
  std::vector<engine::RequestId> ids;
  for (const int priority : {0, -1, 1}) {
    Request request = greedy(some_tokens(4, uint32_t(5 + priority)), 22);
    request.priority = priority;
    ids.push_back(fixture.submit(request, note));
  }
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().preemptions, 0u);
  EXPECT_EQ(order, (std::vector<engine::RequestId>{ids[2], ids[0], ids[1]}));
}

TEST(KvCache, ARequestThatFillsTheCacheRunsBesideOthers) {
  EngineFixture<> fixture(fake_limits(10));
  fixture.submit(greedy(some_tokens(5, 1), 30));
  fixture.submit(greedy(some_tokens(38, 2), no_limit));
  fixture.submit(greedy(some_tokens(5, 3), 30));
  fixture.submit(greedy(some_tokens(1, 4), no_limit));
  fixture.run();
  fixture.expect_as_alone();
}

}  // namespace
}  // namespace heddle::test::fake
