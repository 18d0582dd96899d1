// All that is given to workers is done, and memory is copied whole, whatever its size.
#include "base/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <vector>

namespace heddle {
namespace {

TEST(Workers, DrainWaitsForAllThatWasAdded) {
  Workers workers(3);
  EXPECT_EQ(workers.threads(), 3u);
  workers.drain();  // nothing yet
  std::atomic<int> done{0};
  for (int round = 1; round <= 5; ++round) {
    for (int i = 0; i < 100; ++i) workers.add([&] { ++done; });
    workers.drain();
    EXPECT_EQ(done, round * 100);
  }
}

TEST(Workers, TheEndDoesWhatIsLeft) {
  std::atomic<int> done{0};
  {
    Workers workers(2);
    for (int i = 0; i < 1000; ++i) workers.add([&] { ++done; });
  }
  EXPECT_EQ(done, 1000);
}

TEST(CopyInPieces, CopiesEveryByteAndNoOther) {
  std::mt19937_64 random(std::random_device{}());
  constexpr size_t piece = 256 << 10;
  for (const size_t threads : {1u, 3u}) {
    Workers helpers(threads);
    for (const size_t bytes :
         {size_t{0}, size_t{1}, piece - 1, piece, 2 * piece - 1, 2 * piece + 3, 9 * piece + 12345}) {
      std::vector<uint8_t> from(bytes), to(bytes + 2, 0xee);
      for (uint8_t& byte : from) byte = uint8_t(random());
      copy_in_pieces(helpers, to.data() + 1, from.data(), bytes);
      EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin() + 1)) << bytes;
      EXPECT_EQ(to.front(), 0xee);
      EXPECT_EQ(to.back(), 0xee);
    }
  }
}

}  // namespace
}  // namespace heddle
