#include "tiers/part_file.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/refused.h"
#include "tests/tiers/some_parts.h"

namespace heddle::tiers {
namespace {

using test::refusal;

TEST(PartFile, IsReadAsItWasWritten) {
  for (const size_t size : {0u, 1u, 31u, 4096u}) {
    const engine::KvKey key = some_key(size + 3, model::KvPart::window);
    const std::vector<uint8_t> bytes = some_bytes(size, size);
    const PartFile file = read_part_header(part_header(key, bytes), part_header_bytes + size);
    EXPECT_EQ(file.key, key);
    EXPECT_EQ(file.bytes, size);
    expect_part(file, key, bytes);
  }
}

// Every byte of header and contents counts.
TEST(PartFile, ADamagedByteIsFound) {
  const engine::KvKey key = some_key(1, model::KvPart::state);
  const std::vector<uint8_t> bytes = some_bytes(200, 5);
  const PartHeader header = part_header(key, bytes);
  const auto read = [&](const PartHeader& head, const std::vector<uint8_t>& behind) {
    return refusal([&] { expect_part(read_part_header(head, part_header_bytes + behind.size()), key, behind); });
  };
  for (size_t i = 0; i < header.size(); ++i)
    for (const uint8_t flip : {1, 0x80}) {
      PartHeader damaged = header;
      damaged[i] ^= flip;
      EXPECT_NE(read(damaged, bytes), "") << "byte " << i;
    }
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<uint8_t> damaged = bytes;
    damaged[i] ^= 4;
    EXPECT_EQ(read(header, damaged), "damaged: its checksum is another");
  }
  std::vector<uint8_t> shorter(bytes.begin(), bytes.end() - 1);
  EXPECT_EQ(read(header, shorter), "expected 200 bytes behind the header, found 199");
  EXPECT_EQ(refusal([&] { read_part_header(std::span(header).first(71), 71); }),
            "expected a header of 72 bytes, the file has 71");
}

TEST(PartFile, AnotherPartIsNotTakenForIt) {
  const std::vector<uint8_t> bytes = some_bytes(64, 1);
  const engine::KvKey key = some_key(1), other = some_key(2);
  const PartFile file = read_part_header(part_header(other, bytes), part_header_bytes + bytes.size());
  EXPECT_EQ(refusal([&] { expect_part(file, key, bytes); }),
            "expected part " + part_name(key) + ", found " + part_name(other));
}

TEST(PartFile, NamesAreThoseOfKeys) {
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    const engine::KvKey key = some_key(random(), model::KvPart(i % 3));
    engine::KvKey read;
    ASSERT_TRUE(read_part_name(part_name(key), read));
    EXPECT_EQ(read, key);
  }
  engine::KvKey key;
  const std::string name = part_name(some_key(7));
  for (const std::string& other : {std::string(), std::string("lock"), name + "0", name.substr(1),
                                   name.substr(0, 65) + "3", "G" + name.substr(1), name + ".unfinished"})
    EXPECT_FALSE(read_part_name(other, key)) << other;
}

}  // namespace
}  // namespace heddle::tiers
