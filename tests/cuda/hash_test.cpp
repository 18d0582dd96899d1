// Known answers of both hashes.
#include "cuda/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace heddle::cuda {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Hash, Murmur3KnownAnswers) {
  EXPECT_EQ(murmur3({}).hex(), "00000000000000000000000000000000");
  EXPECT_EQ(murmur3(bytes("hello")).hex(), "cbd8a7b341bd9b025b1e906a48ae1d19");
  EXPECT_EQ(murmur3(bytes("hello, world")).hex(), "342fac623a5ebc8e4cdcbc079642414d");
  EXPECT_EQ(murmur3(bytes("The quick brown fox jumps over the lazy dog.")).hex(), "cd99481f9ee902c9695da1a38987b6e7");
}

TEST(Hash, Fnv1aKnownAnswers) {
  EXPECT_EQ(fnv1a({}), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a(bytes("a")), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a(bytes("foobar")), 0x85944171f73967e8u);
}

TEST(Hash, EveryBitOfEveryLengthCounts) {
  std::set<std::string> murmurs;
  std::set<uint64_t> fnvs;
  size_t made = 0;
  for (size_t length = 0; length <= 40; ++length)
    for (size_t bit = 0; bit <= 8 * length; ++bit, ++made) {  // the last: no bit changed
      std::vector<std::byte> data(length);
      if (bit < 8 * length) data[bit / 8] = std::byte(1 << bit % 8);
      murmurs.insert(murmur3(data, 1).hex());
      fnvs.insert(fnv1a(data));
    }
  EXPECT_EQ(murmurs.size(), made);
  EXPECT_EQ(fnvs.size(), made);
}

}  // namespace
}  // namespace heddle::cuda
