#include "tiers/part_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tests/support/folder.h"
#include "tests/support/refused.h"
#include "tests/support/shorter.h"
#include "tests/tiers/some_parts.h"
#include "tiers/part_file.h"

namespace heddle::tiers {
namespace {

using engine::KvKey;
using test::Folder;
using test::refusal;

constexpr size_t part_size = 1000;

std::vector<uint8_t> read_of(PartFolder& folder, const KvKey& key, size_t bytes = part_size) {
  std::vector<uint8_t> to(bytes);
  folder.read(key, to);
  return to;
}

std::filesystem::path file_of(const Folder& folder, const KvKey& key) {
  const std::string name = part_name(key);
  return folder.path() / name.substr(0, 2) / name;
}

TEST(PartFolder, PartsAreFoundAfterARestart) {
  const Folder folder;
  const auto path = folder.path() / "new" / "kv";
  for (int turn = 0; turn < 2; ++turn) {
    PartFolder parts(path, 1 << 20);
    EXPECT_EQ(parts.count(), turn * 20u);
    for (uint64_t i = 0; i < 20; ++i) {
      const KvKey key = some_key(i, model::KvPart(i % 3));
      EXPECT_EQ(parts.has(key), turn == 1);
      EXPECT_EQ(parts.size_of(key), turn * part_size);
      if (turn == 0) parts.write(key, bytes_of(key, part_size));
      EXPECT_EQ(read_of(parts, key), bytes_of(key, part_size));
    }
    EXPECT_EQ(parts.bytes(), 20 * (part_size + part_header_bytes));
    EXPECT_FALSE(parts.has(some_key(0, model::KvPart::state)));
  }
}

TEST(PartFolder, WhatWasUsedLeastRecentlyGoesFirst) {
  const Folder folder;
  const uint64_t each = part_size + part_header_bytes;
  {
    PartFolder parts(folder.path(), 5 * each);
    for (uint64_t i = 0; i < 5; ++i) parts.write(some_key(i), bytes_of(some_key(i), part_size));
    read_of(parts, some_key(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the times of files have ticks
    parts.write(some_key(5), bytes_of(some_key(5), part_size));
    for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(parts.has(some_key(i)), i != 1) << i;
    EXPECT_EQ(parts.bytes(), 5 * each);
    parts.write(some_key(9), some_bytes(6 * each, 1));  // larger than all
    EXPECT_EQ(parts.count(), 5u);
  }
  const PartFolder smaller(folder.path(), 3 * each);
  EXPECT_EQ(smaller.count(), 3u);
  EXPECT_TRUE(smaller.has(some_key(5)));
}

TEST(PartFolder, DamagedPartsAreGone) {
  const Folder folder;
  PartFolder parts(folder.path(), 1 << 20);
  const auto damage = [&](uint64_t number, auto&& f) {
    const KvKey key = some_key(number);
    parts.write(key, bytes_of(key, part_size));
    f(file_of(folder, key));
    EXPECT_NE(refusal([&] { read_of(parts, key); }), "");
    EXPECT_FALSE(parts.has(key));
    EXPECT_FALSE(std::filesystem::exists(file_of(folder, key)));
    parts.write(key, bytes_of(key, part_size));  // and can be written anew
    EXPECT_EQ(read_of(parts, key), bytes_of(key, part_size));
  };
  damage(1, [](const auto& file) { std::filesystem::resize_file(file, 500); });
  damage(2, [](const auto& file) { std::filesystem::resize_file(file, 0); });
  damage(3, [](const auto& file) { std::filesystem::remove(file); });
  damage(4, [](const auto& file) { std::ofstream(file, std::ios::app) << "x"; });
  damage(5, [](const auto& file) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(700);
    stream.put(char(stream.peek() + 1));
  });
  damage(6, [&](const auto& file) {  // another part under this name
    const KvKey other = some_key(60);
    parts.write(other, bytes_of(other, part_size));
    std::filesystem::copy_file(file_of(folder, other), file, std::filesystem::copy_options::overwrite_existing);
  });
  EXPECT_EQ(parts.count(), 7u);
  EXPECT_NE(refusal([&] { read_of(parts, some_key(1), part_size + 1); }), "");
}

TEST(PartFolder, OneProcessAtATime) {
  const Folder folder;
  const PartFolder parts(folder.path(), 1 << 20);
  EXPECT_EQ(refusal([&] { PartFolder(folder.path(), 1 << 20); }),
            folder.path().string() + ": another process keeps its KV cache in this folder");
}

TEST(PartFolder, WhatCannotBeWrittenIsAnError) {
  const Folder folder;
  EXPECT_NE(refusal([&] { PartFolder(folder.write("file", "x") / "below", 1000); }), "");
  PartFolder parts(folder.path(), 1 << 20);
  const KvKey key = some_key(1);
  folder.write(part_name(key).substr(0, 2), "a file where a folder should be");
  EXPECT_NE(refusal([&] { parts.write(key, bytes_of(key, part_size)); }), "");
  EXPECT_FALSE(parts.has(key));
}

// A process that writes parts is killed, again and again: what it leaves is whole or is not there, and the parts of
// those before it are all there.
TEST(PartFolder, AKilledProcessLeavesNoWrongPart) {
  const Folder folder;
  const size_t large = 50'000;
  std::mt19937 random(11);
  uint64_t first = 0, lost = 0, written = 0;
  for (int turn = 0; turn < 40 / int(test::shorter); ++turn) {
    int pipes[2];
    ASSERT_EQ(::pipe(pipes), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        PartFolder parts(folder.path(), 1 << 30);
        for (uint64_t i = first;; ++i) {
          parts.write(some_key(i), bytes_of(some_key(i), large));
          if (::write(pipes[1], &i, sizeof i) != sizeof i) ::_exit(1);
        }
      } catch (const std::exception&) {
        ::_exit(1);
      }
    }
    ::close(pipes[1]);
    uint64_t said = 0, next = first;
    for (uint64_t some = random() % 3; some > 0 && ::read(pipes[0], &said, sizeof said) == sizeof said; --some)
      next = said + 1;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(pipes[0], &said, sizeof said) == sizeof said) next = said + 1;
    ::close(pipes[0]);
    PartFolder parts(folder.path(), 1 << 30);
    for (uint64_t i = turn % 8 ? first : 0; i < next; ++i) {
      ASSERT_TRUE(parts.has(some_key(i))) << "a part that was written is lost";
      ASSERT_EQ(read_of(parts, some_key(i), large), bytes_of(some_key(i), large));
    }
    if (parts.has(some_key(next))) {  // written, and not yet said
      ASSERT_EQ(read_of(parts, some_key(next), large), bytes_of(some_key(next), large));
    } else {
      ++lost;
    }
    written += next - first;
    first = next + 1;
    parts.write(some_key(next), bytes_of(some_key(next), large));
  }
  EXPECT_GT(written, 10u);
  EXPECT_GT(lost, 0u);
}

}  // namespace
}  // namespace heddle::tiers
