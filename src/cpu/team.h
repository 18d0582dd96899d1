// Threads that work together on one phase after another. Between phases they spin, so that no phase pays for waking
// them; after 5 ms without a phase they sleep.
//
// Each thread has a share of a phase's items, always the same part of them, so it finds in its caches, and in the
// memory of its node, what it left there. A thread that has done its own share helps the others, item by item: one that
// is late or slow does not stop the team. While a thread does its share it writes to a cache line of its own: with many
// threads, one counter for all would be waited for at every item.
//
// Where the processors are on several NUMA nodes, each thread runs on those of one node, neighbouring threads on the
// same, and helps the threads of its own node first.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/processors.h"

namespace heddle::cpu {

class Team {
 public:
  // The caller's thread is one of them. `root` has the folder sys of the system, for tests.
  explicit Team(uint32_t threads, const std::string& root = "");
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  uint32_t threads() const { return uint32_t(others_.size()) + 1; }
  const std::vector<Node>& nodes() const { return nodes_; }
  // Some threads may be slower than others: work comes in smaller pieces.
  bool differ_in_speed() const { return differ_in_speed_; }
  // Where the caller should run while it calls run() (see RunsOn). Empty: anywhere, all are on one node.
  std::vector<uint32_t> processors_of_caller() const {
    return nodes_.size() > 1 ? nodes_[node_of_[0]].processors : std::vector<uint32_t>();
  }

  enum class Help {
    all,
    own_node,  // an item of a share is done on that share's node: what it writes first the system puts there
  };

  // What a thread will read first in a phase: up to two places, of which it prefetches `bytes` each while it waits.
  struct Prefetch {
    const uint8_t *first = nullptr, *second = nullptr;
    uint64_t bytes = 0;
  };
  void prefetch_while_waiting(uint32_t thread, const Prefetch& what);
  // The first item of a thread's share of a phase of `count` items; `count` if it has none.
  uint64_t first_item(uint64_t count, uint32_t thread) const;

  // work(item, thread) for each item below `count`, on whichever thread comes first. Returns when all are done; the
  // first exception is thrown here. One phase at a time.
  template <class Work>
  void run(uint64_t count, Work&& work, Help whom = Help::all) {
    // Of many items a thread takes several at a time: taking one costs more than a short item does.
    const uint64_t at_once = items_at_once(count);
    auto some = [&](uint64_t index, uint32_t thread) {
      const uint64_t end = std::min(count, (index + 1) * at_once);
      for (uint64_t item = index * at_once; item < end; ++item) work(item, thread);
    };
    run((count + at_once - 1) / at_once,
        [](void* what, uint64_t index, uint32_t thread) { (*static_cast<decltype(some)*>(what))(index, thread); },
        &some, whom);
  }

 private:
  using Call = void (*)(void*, uint64_t, uint32_t);
  uint64_t items_at_once(uint64_t count) const { return std::max<uint64_t>(1, count / (uint64_t(threads()) * 16)); }
  void run(uint64_t count, Call call, void* work, Help whom);
  bool prefetch_some(uint32_t thread);  // false: nothing is left
  void serve(uint32_t thread);
  // Does what is left of the phase that is under way: its own share, those of its node, then the others.
  void help(uint32_t thread);
  // The next item of a share; false if all are taken or the phase has ended.
  bool take(uint64_t phase, uint64_t share, uint64_t& item);

  // A phase is published in one word: its number and the number of its items. A thread that takes an item reads call_
  // and work_, which stay until that item is done; a late thread finds no item and touches nothing.
  std::atomic<uint64_t> phase_{0};
  struct alignas(128) Share {
    std::atomic<uint64_t> taken{0};  // the phase's number, and how many of the share's items were taken in it
    std::atomic<uint64_t> done{0};   // items of all phases that its thread has done: written by that thread alone
    // The fields of Prefetch, and how many of its bytes were prefetched: the thread itself counts them.
    std::atomic<const uint8_t*> first{nullptr}, second{nullptr};
    std::atomic<uint64_t> bytes{0}, prefetched{0};
  };
  std::vector<Share> shares_;  // of each thread
  uint64_t total_ = 0;         // items of all phases
  alignas(128) Call call_ = nullptr;
  void* work_ = nullptr;
  // Of a phase that has ended, a late thread may read that of the next: it finds no item in either case.
  std::atomic<Help> help_{Help::all};
  std::atomic<uint32_t> sleeping_{0}, bell_{0};
  std::atomic<bool> end_{false};
  std::mutex lock_;
  std::exception_ptr failure_;
  uint32_t count_ = 1;  // threads, once all are started
  std::vector<Node> nodes_;
  std::vector<uint32_t> node_of_;  // of each thread
  bool differ_in_speed_;
  std::vector<std::thread> others_;
};

}  // namespace heddle::cpu
