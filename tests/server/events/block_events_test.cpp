// A reader of the events knows exactly the blocks that a prompt would find.
#include "server/events/block_events.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/kv_cache.h"
#include "server/events/event_wire.h"
#include "tests/engine/engine_fixture.h"
#include "tests/server/events/block_reader.h"
#include "tests/support/shorter.h"

namespace heddle::test {
namespace {

using engine::KvBlocks;
using server::AllBlocksCleared;
using server::block_hash;
using server::BlockChanges;
using server::BlockEvent;
using server::BlockIndex;
using server::BlocksRemoved;
using server::BlocksStored;

// From hashlib's sha256 in Python.
TEST(BlockHash, IsOfTheTokensAndAllBefore) {
  const uint64_t first = block_hash({}, Text{1, 2, 3, 4});
  EXPECT_EQ(first, 0xb0238dd4b4b13f9cu);
  EXPECT_EQ(block_hash(first, Text{5, 6, 7, 4'000'000'000}), 0x99c4240510bc7d7eu);
  EXPECT_EQ(block_hash({}, Text{}), 0xfa0b81a1f57055afu);
}

TEST(BlockIndex, JoinsBlocksThatFollowOneAnother) {
  BlockChanges changes;
  changes.stored(1, 0, Text{1, 2});
  changes.stored(2, 1, Text{3, 4});
  changes.stored(3, 1, Text{5, 6});
  changes.removed(3);
  changes.removed(2);
  BlockIndex index;
  const uint64_t a = block_hash({}, Text{1, 2}), ab = block_hash(a, Text{3, 4}), ac = block_hash(a, Text{5, 6});
  EXPECT_EQ(index.apply(changes.take()),
            (std::vector<BlockEvent>{BlocksStored{{a, ab}, {}, {1, 2, 3, 4}}, BlocksStored{{ac}, a, {5, 6}},
                                     BlocksRemoved{{ac, ab}}}));
  EXPECT_EQ(index.apply(changes.take()), std::vector<BlockEvent>{});
  EXPECT_EQ(index.size(), 1u);
}

TEST(BlockIndex, LeavesOutWhatNoPromptFinds) {
  BlockChanges changes;
  BlockIndex index;
  changes.stored(1, ~uint64_t(0), Text{1, 2});  // texts that the model calls long begin elsewhere
  changes.stored(2, 1, Text{3, 4});
  changes.removed(1);
  EXPECT_EQ(index.apply(changes.take()), std::vector<BlockEvent>{});
  changes.stored(3, 0, Text{1, 2});
  changes.stored(4, 3, Text{3, 4});
  changes.stored(5, 4, Text{5, 6});
  changes.removed(3);  // those after it cannot be found any more, though the engine still has them
  changes.stored(6, 0, Text{1, 2});
  changes.removed(5);
  changes.stored(7, 6, Text{3, 4});
  const uint64_t a = block_hash({}, Text{1, 2}), ab = block_hash(a, Text{3, 4}), abc = block_hash(ab, Text{5, 6});
  EXPECT_EQ(index.apply(changes.take()),
            (std::vector<BlockEvent>{BlocksStored{{a, ab, abc}, {}, {1, 2, 3, 4, 5, 6}}, BlocksRemoved{{a, ab, abc}},
                                     BlocksStored{{a, ab}, {}, {1, 2, 3, 4}}}));
  changes.cleared();
  changes.removed(6);
  EXPECT_EQ(index.apply(changes.take()), std::vector<BlockEvent>{AllBlocksCleared{}});
  EXPECT_EQ(index.size(), 0u);
}

TEST(BlockChanges, BeginAgainWhenTheyAreTooMany) {
  BlockChanges changes(3);
  BlockIndex index;
  for (uint64_t block = 1; block <= 3; ++block) changes.stored(block, block - 1, Text{uint32_t(block)});
  EXPECT_EQ(index.apply(changes.take()).size(), 1u);
  changes.removed(3);
  changes.stored(4, 2, Text{4});
  changes.stored(5, 4, Text{5});
  changes.stored(6, 0, Text{6});  // the fourth
  changes.removed(1);
  const BlockChanges::Taken taken = changes.take();
  EXPECT_EQ(taken.lost, 3u);
  EXPECT_EQ(index.apply(taken),
            (std::vector<BlockEvent>{AllBlocksCleared{}, BlocksStored{{block_hash({}, Text{6})}, {}, {6}}}));
  EXPECT_EQ(changes.take().lost, 0u);
}

// Texts that prompts find in the cache, of all that were ever in it.
std::set<Text> findable(const KvBlocks& blocks, const std::set<Text>& ever, size_t block_tokens) {
  std::set<Text> found;
  for (const Text& text : ever) {
    KvBlocks::Prefix prefix = KvBlocks::empty_prefix;
    bool all = true;
    for (size_t at = 0; all && at < text.size(); at += block_tokens) {
      const auto block = blocks.find(prefix, std::span(text).subspan(at, block_tokens));
      all = block.has_value();
      if (all) prefix = block->prefix;
    }
    if (all) found.insert(text);
  }
  return found;
}

TEST(BlockEvents, SayAtAnyTimeWhichBlocksCanBeFound) {
  constexpr uint32_t size = 2;
  for (uint64_t seed = 1; seed <= 12u / shorter; ++seed) {
    std::mt19937_64 random(seed);
    BlockChanges changes;
    BlockIndex index;
    BlockReader reader;
    KvBlocks blocks(5 + uint32_t(random() % 30), size);
    blocks.observe(&changes);
    std::set<Text> ever;
    for (int step = 0; step < 400; ++step) {
      // a text of up to six blocks from a small tree, as far as there is room
      std::vector<uint32_t> held;
      Text text;
      KvBlocks::Prefix prefix = KvBlocks::empty_prefix;
      for (uint64_t left = 1 + random() % 6; left > 0; --left) {
        const Text tokens{uint32_t(random() % 3), uint32_t(random() % 2)};
        if (const auto found = blocks.find(prefix, tokens)) {
          blocks.hold(found->block);
          held.push_back(found->block);
          prefix = found->prefix;
        } else if (const auto block = blocks.allocate()) {
          prefix = blocks.publish(*block, prefix, tokens).prefix;
          held.push_back(*block);
        } else {
          break;
        }
        text.insert(text.end(), tokens.begin(), tokens.end());
        ever.insert(text);
        if (random() % 20 == 0) blocks.forget(held[random() % held.size()]);  // a fault, with blocks after it
      }
      for (; !held.empty(); held.pop_back()) blocks.drop(held.back());
      if (random() % 3) continue;  // changes of several steps in one batch
      const auto format = random() % 2 ? server::EventFormat::map : server::EventFormat::array;
      reader.read(server::pack({double(step) + 0.1, index.apply(changes.take())}, format));
      ASSERT_EQ(reader.all(), findable(blocks, ever, size)) << "seed " << seed << ", step " << step;
    }
    EXPECT_GT(reader.events, 100u);
  }
}

// What events say of a prompt before it is submitted is what its usage says afterwards.
TEST(BlockEvents, SayHowMuchOfAPromptIsCached) {
  constexpr uint32_t size = 4;
  for (uint64_t seed = 1; seed <= 6u / shorter; ++seed) {
    std::mt19937_64 random(seed);
    BlockChanges changes;
    BlockIndex index;
    BlockReader reader;
    {
      fake::EngineFixture<> fixture(fake::fake_limits(60, size, 64), {.kv_observer = &changes});
      std::vector<Text> beginnings;
      for (uint64_t i = 0; i < 6; ++i) beginnings.push_back(fake::random_tokens(60, seed * 100 + i));
      uint64_t reused = 0;
      for (int step = 0; step < 60; ++step) {
        // a crowd, some of which fail
        for (uint64_t left = random() % 4; left > 0; --left) {
          Text prompt = beginnings[random() % 6];
          prompt.resize(1 + random() % 50);
          fixture.submit(fake::seeded(prompt, 1 + uint32_t(random() % 30), random()));
        }
        if (random() % 5 == 0) fixture.backend.fault("a fault");
        fixture.run();
        reader.read(server::pack({double(step) + 0.1, index.apply(changes.take())}, server::EventFormat::map));
        Text prompt = beginnings[random() % 6];
        prompt.resize(1 + random() % 50);
        const size_t expected = reader.prefix(Text(prompt.begin(), prompt.end() - 1), size);
        const auto id = fixture.submit(fake::greedy(prompt, 1));
        fixture.run();
        if (fixture.answer(id).finish_reason == engine::FinishReason::failed) continue;
        ASSERT_EQ(fixture.answer(id).cached_tokens / size * size, expected) << "seed " << seed << ", step " << step;
        reused += expected;
      }
      EXPECT_GT(reused, 100u);
    }
    const auto last = index.apply(changes.take());
    ASSERT_FALSE(last.empty());
    EXPECT_EQ(last.back(), BlockEvent(AllBlocksCleared{})) << "the cache is gone";
  }
}

}  // namespace
}  // namespace heddle::test
