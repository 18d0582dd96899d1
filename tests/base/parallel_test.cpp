// Every piece once, on as many threads as were asked for, and exceptions come back.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace heddle {
namespace {

TEST(ParallelFor, DoesEveryPieceOnce) {
  for (const size_t threads : {0u, 1u, 2u, 7u, 100u})
    for (const size_t count : {0u, 1u, 2u, 3u, 100u, 10'000u}) {
      std::vector<std::atomic<int>> done(count);
      parallel_for(count, threads, [&](size_t i) { ++done.at(i); });
      for (const auto& times : done) ASSERT_EQ(times, 1);
    }
  EXPECT_GE(hardware_threads(), 1u);
}

TEST(ParallelFor, UsesSeveralThreadsAtOnce) {
  std::atomic<int> waiting{0};
  std::set<std::thread::id> ids;
  std::mutex lock;
  parallel_for(4, 4, [&](size_t) {  // ends only if four of them run at the same time
    ++waiting;
    while (waiting < 4) std::this_thread::yield();
    const std::lock_guard guard(lock);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_TRUE(ids.contains(std::this_thread::get_id()));
}

TEST(ParallelFor, OneThreadIsTheCallersAndGoesInOrder) {
  std::vector<size_t> order;
  parallel_for(5, 1, [&](size_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4}));
}

TEST(ParallelFor, TheFirstExceptionEndsIt) {
  for (const size_t threads : {1u, 4u}) {
    std::atomic<size_t> begun{0};
    const auto work = [&](size_t i) {
      ++begun;
      if (i == 3) throw std::runtime_error("piece 3");
    };
    try {
      parallel_for(10'000'000, threads, work);
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "piece 3");
    }
    EXPECT_LT(begun, 10'000'000u);
  }
  EXPECT_THROW(parallel_for(8, 8, [](size_t) { throw std::runtime_error("all"); }), std::runtime_error);
}

TEST(ParallelFor, MayBeNested) {
  std::atomic<int> sum{0};
  parallel_for(4, 4, [&](size_t) { parallel_for(10, 3, [&](size_t i) { sum += int(i); }); });
  EXPECT_EQ(sum, 4 * 45);
}

}  // namespace
}  // namespace heddle
