// Both transports are held to the same: what a rank must get follows from the ranks' values alone.
#include "ranks/shared_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <random>

#include "base/clock.h"
#include "tests/ranks/collectives.h"

namespace heddle::ranks {
namespace {

using test::ThreadRanks;
using test::Transport;

class Transports : public testing::TestWithParam<std::pair<Transport, uint32_t>> {
 protected:
  uint32_t ranks() const { return GetParam().second; }
  ThreadRanks group() const { return ThreadRanks(GetParam().first, ranks()); }
};
INSTANTIATE_TEST_SUITE_P(All, Transports,
                         testing::Values(std::pair(Transport::memory, 1u), std::pair(Transport::memory, 2u),
                                         std::pair(Transport::memory, 3u), std::pair(Transport::memory, 4u),
                                         std::pair(Transport::memory, 7u), std::pair(Transport::tcp, 1u),
                                         std::pair(Transport::tcp, 2u), std::pair(Transport::tcp, 3u),
                                         std::pair(Transport::tcp, 4u), std::pair(Transport::tcp, 7u)),
                         [](const auto& one) {
                           return std::string(one.param.first == Transport::memory ? "memory" : "tcp") +
                                  std::to_string(one.param.second);
                         });

std::vector<float> random_values(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = std::ldexp(float(int32_t(random())), -40 + int(random() % 20));
  return values;
}

TEST_P(Transports, SumsHaveTheBitsOfAdditionInTheOrderOfRanks) {
  ThreadRanks group_of_test = group();
  for (const size_t size : {1u, 0u, 5u, 8192u, 8193u, 65'536u, 100'003u, 3u}) {
    std::vector<std::vector<float>> values;
    for (uint32_t rank = 0; rank < ranks(); ++rank) values.push_back(random_values(uint32_t(size) + rank, size));
    std::vector<float> want = values[0];
    for (uint32_t rank = 1; rank < ranks(); ++rank)
      for (size_t i = 0; i < size; ++i) want[i] += values[rank][i];
    group_of_test.run([&](uint32_t rank, model::Collective& collective) { collective.sum(values[rank]); });
    for (const std::vector<float>& sum : values) ASSERT_EQ(sum, want) << size;
  }
}

TEST_P(Transports, ManySmallSumsInARow) {
  ThreadRanks group_of_test = group();
  group_of_test.run([&](uint32_t rank, model::Collective& collective) {
    for (uint32_t round = 0; round < 2000; ++round) {
      std::vector<float> values(1 + round % 5, float(round * (rank + 1)));
      collective.sum(values);
      for (const float value : values) ASSERT_EQ(value, float(round * ranks() * (ranks() + 1) / 2));
    }
  });
}

TEST_P(Transports, GathersPartsOfAnySize) {
  ThreadRanks group_of_test = group();
  group_of_test.run([&](uint32_t rank, model::Collective& collective) {
    for (const uint64_t size : {0u, 1u, 1000u, 70'000u}) {
      std::vector<uint64_t> sizes;
      std::vector<float> want;
      for (uint32_t other = 0; other < ranks(); ++other) {
        sizes.push_back(other == 1 ? 0 : size + other);
        const std::vector<float> part = random_values(other, sizes.back());
        want.insert(want.end(), part.begin(), part.end());
      }
      std::vector<float> all(want.size());
      collective.gather(random_values(rank, sizes[rank]), sizes, all);
      ASSERT_EQ(all, want);
    }
  });
}

TEST_P(Transports, MessagesArriveInOrder) {
  ThreadRanks group_of_test = group();
  group_of_test.run([&](uint32_t rank, model::Collective& collective) {
    for (const size_t size : {1u, 0u, 16'384u, 16'385u, 100'000u}) {
      std::vector<float> values = random_values(uint32_t(size), size);
      if (rank > 0) {
        std::vector<float> found(size);
        collective.receive(rank - 1, found);
        ASSERT_EQ(found, values);
      }
      if (rank + 1 < ranks()) collective.send(rank + 1, values);
    }
  });
}

TEST_P(Transports, AWaitEndsWithTheAlarm) {
  if (ranks() == 1) return;
  ThreadRanks group_of_test = group();
  std::thread raising([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    group_of_test.alarm(0).raise("rank 1 is gone");
  });
  std::vector<float> values(10);
  const auto start = Clock::now();
  try {
    group_of_test[0].sum(values);
    ADD_FAILURE() << "rank 1 has not come";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1 is gone");
  }
  EXPECT_LT(seconds_since(start), 2);
  EXPECT_THROW(group_of_test[0].sum(values), Error);
  raising.join();
}

TEST(Transport, ARankThatIsLateIsNamed) {
  for (const Transport transport : {Transport::memory, Transport::tcp}) {
    ThreadRanks group_of_test(transport, 3, {.collective = 0.2});
    std::vector<std::string> said(3);
    group_of_test.run([&](uint32_t rank, model::Collective& collective) {
      if (rank == 1) return;
      std::vector<float> values(10);
      try {
        collective.sum(values);
      } catch (const Error& error) {
        said[rank] = error.what();
      }
    });
    EXPECT_EQ(said[0], "rank 1 is late: rank 0 has waited 0.2 s for it");
    EXPECT_EQ(said[2], "rank 1 is late: rank 2 has waited 0.2 s for it");
  }
}

TEST(Transport, MemoryOfAnotherGroupIsRefused) {
  Alarm alarm;
  const int memory = make_shared_memory(3);
  EXPECT_THROW(open_shared_memory(memory, 0, 2, alarm), Error);
  EXPECT_THROW(open_shared_memory(-1, 0, 3, alarm), Error);
  ::close(memory);
}

}  // namespace
}  // namespace heddle::ranks
