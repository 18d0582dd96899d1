// Threads that work together on one phase after another. Between phases they spin, so that no phase pays for waking
// them; after 5 ms without a phase they sleep.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle::cpu {

class Team {
 public:
  explicit Team(uint32_t threads);  // the caller's thread is one of them
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  uint32_t threads() const { return uint32_t(others_.size()) + 1; }

  // work(item, thread) for each item below `count`, on whichever thread comes first. Returns when all are done; the
  // first exception is thrown here. One phase at a time.
  template <class Work>
  void run(uint64_t count, Work&& work) {
    // Of many items a thread takes several at a time: taking one costs more than a short item does.
    const uint64_t at_once = std::max<uint64_t>(1, count / (uint64_t(threads()) * 16));
    auto some = [&](uint64_t index, uint32_t thread) {
      const uint64_t end = std::min(count, (index + 1) * at_once);
      for (uint64_t item = index * at_once; item < end; ++item) work(item, thread);
    };
    run((count + at_once - 1) / at_once,
        [](void* what, uint64_t index, uint32_t thread) { (*static_cast<decltype(some)*>(what))(index, thread); },
        &some);
  }

 private:
  using Call = void (*)(void*, uint64_t, uint32_t);
  void run(uint64_t count, Call call, void* work);
  void serve(uint32_t thread);
  bool take_and_do(uint32_t thread);

  // A phase is published in one word: its number, the number of its items and the next one. A thread that takes an item
  // reads call_ and work_, which stay until that item is done; a late thread finds no item and touches nothing.
  std::atomic<uint64_t> phase_{0};
  alignas(64) std::atomic<uint64_t> done_{0};  // items
  alignas(64) Call call_ = nullptr;
  void* work_ = nullptr;
  std::atomic<uint32_t> sleeping_{0}, bell_{0};
  std::atomic<bool> end_{false};
  std::mutex lock_;
  std::exception_ptr failure_;
  std::vector<std::thread> others_;
};

}  // namespace heddle::cpu
