// Disks of ranks that are threads of the test: what one of them lost or damaged is there for none, and nothing else is
// ever read.
#include "tiers/rank_disks.h"

#include <gtest/gtest.h>

#include "tests/ranks/groups.h"
#include "tests/support/backends.h"
#include "tests/support/folder.h"
#include "tests/tiers/damage.h"
#include "tests/tiers/some_parts.h"

namespace heddle::tiers {
namespace {

using model::KvPart;
using test::Folder;

// Parts of these sizes, which no test computes.
class Sized : public test::IdleBackend {
 public:
  explicit Sized(const ranks::PartSizes& sizes) : sizes_(sizes) {}
  std::string describe() const override { return "sized"; }
  void begin(const model::Batch&) override {}
  model::Result result() override { return {}; }
  std::string kv_layout() const override { return "sized"; }
  uint64_t kv_part_bytes(KvPart part) const override { return sizes_[size_t(part)]; }

 private:
  ranks::PartSizes sizes_;
};

constexpr ranks::PartSizes sizes{100, 50, 0};  // the others have no states

// A part of this rank, by its key.
std::vector<uint8_t> bytes_at(uint32_t rank, const engine::KvKey& key, size_t size) {
  std::vector<uint8_t> bytes = bytes_of(key, size);
  for (uint8_t& byte : bytes) byte = uint8_t(byte + rank);
  return bytes;
}

// Rank 0's disk, and those of the others.
class Disks {
 public:
  Disks(const std::filesystem::path& folder, uint32_t ranks, uint64_t capacity = 1'000'000)
      : groups(ranks::groups_of(ranks)), buffers(ranks) {
    const auto own = [&](uint32_t rank) {
      return std::make_unique<PartFolder>(rank_folder(folder, rank, ranks), capacity);
    };
    for (uint32_t rank = 1; rank < ranks; ++rank)
      others_.push_back(std::make_unique<RankDisk>(own(rank), *groups[rank], buffers[rank], Sized(sizes)));
    disk = std::make_unique<GroupDisk>(own(0), *groups[0], numbers);
  }
  ~Disks() { disk.reset(); }

  void write(const engine::KvKey& key) {
    std::vector<uint8_t> bytes = bytes_at(0, key, 120);
    const uint64_t number = numbers.number(bytes.data());
    for (uint32_t rank = 1; rank < groups.size(); ++rank)
      buffers[rank].put(number, std::make_shared<ranks::Bytes>(bytes_at(rank, key, sizes[size_t(key.part)])));
    disk->write(key, bytes);
    drop(bytes.data());
  }
  // Whether it was there, and then on all ranks as it was written.
  bool read(const engine::KvKey& key) {
    std::vector<uint8_t> bytes(120);
    const auto at_end = [&] {
      for (uint32_t rank = 1; rank < groups.size(); ++rank) {
        const auto buffer = buffers[rank].find(*numbers.find(bytes.data()));
        ASSERT_TRUE(buffer) << "rank " << rank;
        EXPECT_EQ(*buffer, bytes_at(rank, key, sizes[size_t(key.part)])) << "rank " << rank;
      }
      EXPECT_EQ(bytes, bytes_at(0, key, 120));
    };
    bool found = false;
    try {
      found = disk->read(key, bytes);
    } catch (const Error& error) {
      said = error.what();
    }
    if (found) at_end();
    drop(bytes.data());
    return found;
  }

  std::vector<std::unique_ptr<ranks::Group>> groups;
  ranks::PartNumbers numbers;
  std::vector<ranks::PartBuffers> buffers;
  std::unique_ptr<GroupDisk> disk;
  std::string said;  // by the last Error

 private:
  void drop(const uint8_t* data) {
    const uint64_t number = *numbers.find(data);
    numbers.drop(data);
    numbers.send_dropped(*groups[0]);
    for (uint32_t rank = 1; rank < groups.size(); ++rank) {
      EXPECT_EQ(ranks::decode_numbers(groups[rank]->next().payload), std::vector{number});
      buffers[rank].drop(number);
    }
  }
  std::vector<std::unique_ptr<RankDisk>> others_;  // go before their groups
};

TEST(RankDisks, APartIsFoundOnAllRanksAfterARestart) {
  for (uint32_t ranks : {1u, 2u, 3u}) {
    const Folder folder;
    for (int process = 0; process < 2; ++process) {
      Disks disks(folder.path(), ranks);
      for (uint64_t i = 0; i < 9; ++i) {
        const engine::KvKey key = some_key(i, KvPart(i % 3));
        EXPECT_EQ(disks.disk->has(key), process == 1);
        if (process == 0) disks.write(key);
        EXPECT_TRUE(disks.read(key)) << disks.said;
      }
      EXPECT_FALSE(disks.read(some_key(100)));
      EXPECT_EQ(disks.said, "");
    }
  }
}

TEST(RankDisks, OtherRanksNeverReadThem) {
  const Folder folder;
  Disks(folder.path(), 3).write(some_key(1));
  EXPECT_FALSE(Disks(folder.path(), 2).disk->has(some_key(1)));
  // files of one rank under the name of another's folder: two ranks have changed places
  const auto at = [&](uint32_t rank) { return rank_folder(folder.path(), rank, 3); };
  std::filesystem::rename(at(1), at(9));
  std::filesystem::rename(at(2), at(1));
  std::filesystem::rename(at(9), at(2));
  EXPECT_FALSE(Disks(folder.path(), 3).disk->has(some_key(1)));
}

TEST(RankDisks, WhatOneRankLostIsThereForNone) {
  for (uint32_t victim : {0u, 1u, 2u})
    for (const bool running : {true, false}) {
      SCOPED_TRACE(fmt::format("rank {}, {}", victim, running ? "while it runs" : "before a start"));
      const Folder folder;
      auto disks = std::make_unique<Disks>(folder.path(), 3);
      for (uint64_t i = 0; i < 4; ++i) disks->write(some_key(i));
      if (!running) disks.reset();
      const std::vector<std::filesystem::path> files = part_files(rank_folder(folder.path(), victim, 3));
      ASSERT_EQ(files.size(), 4u);
      std::filesystem::remove(files[1]);
      damage_byte(files[2], 150, 1);
      if (!running) disks = std::make_unique<Disks>(folder.path(), 3);
      uint32_t found = 0;
      for (uint64_t i = 0; i < 4; ++i) {
        const bool there = disks->read(some_key(i));
        found += there;
        EXPECT_EQ(disks->disk->has(some_key(i)), there);
        if (there) continue;
        disks->write(some_key(i));  // it is computed again
        EXPECT_TRUE(disks->read(some_key(i)));
      }
      EXPECT_EQ(found, 2u);
      EXPECT_NE(disks->said.find(victim == 0 ? "rank-0-of-3" : fmt::format("rank {}: ", victim)), std::string::npos)
          << disks->said;
      EXPECT_TRUE(running || disks->said.find("damaged") != std::string::npos) << disks->said;
    }
}

TEST(RankDisks, AFullDiskOfOneRankIsSaid) {
  const Folder folder;
  Disks disks(folder.path(), 2);
  // a file where the folder of the part would be
  const auto own = rank_folder(folder.path(), 1, 2);
  for (const char high : std::string("0123456789abcdef"))
    for (const char low : std::string("0123456789abcdef")) std::ofstream(own / std::string{high, low}) << "x";
  try {
    disks.write(some_key(1));
    ADD_FAILURE() << "it was written";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1: "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("cannot be written"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(disks.disk->has(some_key(1)));
}

TEST(RankDisks, ALostRankEndsWhatWaits) {
  const Folder folder;
  Disks disks(folder.path(), 3);
  std::vector<uint8_t> bytes(120), others(120);
  disks.numbers.number(bytes.data());  // no rank has read it: the answer does not come
  std::thread waiting([&] { EXPECT_THROW(disks.disk->write(some_key(1), bytes), Error); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  disks.groups[2]->fail("gone");
  waiting.join();
  disks.disk->write(some_key(1), others);  // is of no use any more, and no further warning
  EXPECT_THROW(disks.disk->read(some_key(1), others), Error);
  EXPECT_FALSE(disks.disk->has(some_key(1)));
}

}  // namespace
}  // namespace heddle::tiers
