#include "tiers/tiered_store.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "engine/engine.h"
#include "tests/engine/fake_backend.h"
#include "tests/support/folder.h"
#include "tests/tiers/some_parts.h"

namespace heddle::tiers {
namespace {

using engine::KvBytes;
using engine::KvKey;
using Where = engine::KvStore::Where;
using test::Folder;

constexpr size_t kept_size = 1000;

void put(TieredStore& store, uint64_t number) {
  const KvKey key = some_key(number);
  const KvBytes bytes = store.allocate(kept_size);
  ASSERT_TRUE(bytes);
  std::ranges::copy(bytes_of(key, kept_size), bytes.data.get());
  store.keep(key, bytes);
}
void expect_right(const KvBytes& bytes, uint64_t number) {
  ASSERT_TRUE(bytes);
  const auto found = bytes.span();
  EXPECT_EQ(std::vector<uint8_t>(found.begin(), found.end()), bytes_of(some_key(number), kept_size));
}
void wait_for(const engine::KvFetch& fetch) {
  for (const auto start = Clock::now(); !fetch.done(); std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    ASSERT_LT(seconds_since(start), 30);
}

TEST(TieredStore, MemoryKeepsWhatWasUsedLast) {
  TieredStore store(5 * kept_size);
  for (uint64_t i = 0; i < 5; ++i) put(store, i);
  expect_right(store.find(some_key(0)), 0);
  put(store, 5);
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(store.where(some_key(i)), i == 1 ? Where::nowhere : Where::memory) << i;
  EXPECT_EQ(store.metrics().memory_bytes, 5 * kept_size);
  EXPECT_EQ(store.metrics().memory_parts, 5u);
  EXPECT_FALSE(store.lasts());
  EXPECT_FALSE(store.allocate(6 * kept_size));
  EXPECT_EQ(store.metrics().dropped, 1u);
}

// Without a disk: what is saved ahead is kept as long as an eighth of the memory stays free, and for it nothing goes.
TEST(TieredStore, MemoryAloneIsFilledAheadUpToAnEighth) {
  constexpr uint64_t parts = 16, kept = parts - parts / 8;
  TieredStore store(parts * kept_size);
  for (uint64_t i = 0; i < kept; ++i) {
    EXPECT_TRUE(store.can_save()) << i;
    const KvBytes bytes = store.allocate(kept_size);
    ASSERT_TRUE(bytes);
    std::ranges::copy(bytes_of(some_key(i), kept_size), bytes.data.get());
    store.save(some_key(i), bytes);
    EXPECT_EQ(store.where(some_key(i)), Where::memory) << i;
  }
  const KvBytes more = store.allocate(kept_size);
  EXPECT_FALSE(store.can_save());
  store.save(some_key(kept), more);
  EXPECT_EQ(store.where(some_key(kept)), Where::nowhere);
  EXPECT_EQ(store.metrics().memory_parts, kept);
  for (uint64_t i = 0; i < kept; ++i) expect_right(store.find(some_key(i)), i);
}

class CountsReads : public test::fake::FakeBackend {
 public:
  using FakeBackend::FakeBackend;
  void read_kv(std::span<const model::KvRead> reads) override {
    parts += reads.size();
    FakeBackend::read_kv(reads);
  }
  uint64_t parts = 0;
};

// Texts one after another, in a cache that holds one of them.
void compute_texts(engine::Engine& engine, bool saved_ahead) {
  for (uint32_t text = 0; text < 6; ++text) {
    engine::Request request{.prompt = std::vector<uint32_t>(40, text), .max_tokens = 2};
    bool ended = false;
    engine.submit(request,
                  [&](const engine::Event& event) { ended = event.finish_reason != engine::FinishReason::none; });
    while (!ended) engine.step();
    while (saved_ahead && engine.save_some() == engine::Engine::Saving::more) {
    }
  }
}

TEST(TieredStore, WhatWasSavedAheadIsNotReadAgainWhenItIsEvicted) {
  const model::Model model = test::fake::fake_model(64);
  const model::Limits limits{.rows = 16, .kv_blocks = 7, .block_tokens = 8};
  for (const bool saved_ahead : {true, false}) {
    TieredStore store(1 << 20);
    CountsReads backend(model, limits);
    engine::Engine engine(model, backend, limits, {.store = &store, .store_identity = "fake"});
    compute_texts(engine, saved_ahead);
    const uint64_t blocks = 40 / limits.block_tokens;
    // Not ahead: the blocks of the last text, and what else fits beside it, are in the cache still.
    EXPECT_EQ(backend.parts, store.metrics().memory_parts) << "each once";
    if (saved_ahead)
      EXPECT_EQ(backend.parts, 6 * blocks);
    else
      EXPECT_LT(backend.parts, 6 * blocks);
    EXPECT_GT(backend.parts, 3 * blocks);
    const uint64_t before = backend.parts;
    engine.submit({.prompt = std::vector<uint32_t>(40, 7), .max_tokens = 2}, [](const engine::Event&) {});
    while (engine.step()) {
    }
    EXPECT_EQ(backend.parts == before, saved_ahead) << "evicting the last text";
  }
}

// A store that is nearly full takes nothing ahead: what is evicted is read then, and goes in place of the oldest.
TEST(TieredStore, ANearlyFullMemoryIsNotFilledAhead) {
  const model::Model model = test::fake::fake_model(64);
  const model::Limits limits{.rows = 16, .kv_blocks = 7, .block_tokens = 8};
  CountsReads backend(model, limits);
  TieredStore store(8 * backend.kv_part_bytes(model::KvPart::block));
  engine::Engine engine(model, backend, limits, {.store = &store, .store_identity = "fake"});
  compute_texts(engine, true);
  EXPECT_FALSE(store.can_save());
  EXPECT_EQ(engine.save_some(), engine::Engine::Saving::done);
  EXPECT_LE(store.metrics().memory_bytes, store.metrics().memory_capacity);
  EXPECT_GE(store.metrics().memory_parts, 7u);
}

TEST(TieredStore, WhatIsHeldStays) {
  TieredStore store(3 * kept_size);
  for (uint64_t i = 0; i < 3; ++i) put(store, i);
  std::vector<KvBytes> held;
  for (uint64_t i = 0; i < 3; ++i) held.push_back(store.find(some_key(i)));
  EXPECT_FALSE(store.allocate(kept_size));
  held[1] = {};
  put(store, 7);
  EXPECT_EQ(store.where(some_key(1)), Where::nowhere);
  expect_right(held[0], 0);
  expect_right(store.find(some_key(2)), 2);
}

TEST(TieredStore, TheDiskHasWhatMemoryDroppedAndWhatAnEarlierProcessHad) {
  const Folder folder;
  for (int turn = 0; turn < 2; ++turn) {
    TieredStore store(4 * kept_size, std::make_unique<PartFolder>(folder.path(), 1 << 20));
    EXPECT_TRUE(store.lasts());
    for (uint64_t i = 0; i < 20 && turn == 0; ++i) {
      store.drain();
      put(store, i);
    }
    store.drain();
    EXPECT_EQ(store.metrics().disk_parts, turn == 0 ? 20u : 22u);
    EXPECT_EQ(store.where(some_key(3)), Where::elsewhere);
    EXPECT_FALSE(store.find(some_key(3)));
    EXPECT_EQ(store.where(some_key(30)), Where::nowhere);
    const auto fetch = store.fetch({some_key(3), some_key(30), some_key(5)});
    wait_for(*fetch);
    expect_right(store.find(some_key(3)), 3);
    expect_right(store.find(some_key(5)), 5);
    EXPECT_EQ(store.metrics().loaded, 2u);
    for (uint64_t i = 40; i < 42; ++i) put(store, i);  // what a fetch holds stays
    EXPECT_FALSE(store.allocate(3 * kept_size));
    expect_right(store.find(some_key(3)), 3);
  }
}

TEST(TieredStore, AFetchBringsNoMoreThanMemoryHas) {
  const Folder folder;
  {
    TieredStore store(100 * kept_size, std::make_unique<PartFolder>(folder.path(), 1 << 20));
    for (uint64_t i = 0; i < 20; ++i) put(store, i);
  }
  TieredStore store(6 * kept_size, std::make_unique<PartFolder>(folder.path(), 1 << 20));
  std::vector<KvKey> keys;
  for (uint64_t i = 0; i < 20; ++i) keys.push_back(some_key(i));
  const auto fetch = store.fetch(keys);
  wait_for(*fetch);
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(bool(store.find(some_key(i))), i < 6) << i;
}

TEST(TieredStore, FailuresAreCountedAndSaid) {
  const Folder folder;
  std::vector<std::string> said;
  {
    TieredStore store(100 * kept_size, std::make_unique<PartFolder>(folder.path(), 1 << 20));
    put(store, 1);
  }
  TieredStore store(100 * kept_size, std::make_unique<PartFolder>(folder.path(), 1 << 20),
                    [&](const std::string& what) { said.push_back(what); });
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    if (entry.is_regular_file() && entry.path().filename() != "lock") std::filesystem::resize_file(entry.path(), 80);
  wait_for(*store.fetch({some_key(1)}));
  EXPECT_FALSE(store.find(some_key(1)));
  EXPECT_EQ(store.metrics().failures, 1u);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("expected 1000 bytes behind the header, found 8"), std::string::npos) << said[0];
  EXPECT_EQ(store.where(some_key(1)), Where::nowhere);
}

}  // namespace
}  // namespace heddle::tiers
