// The word of a phase: number (40 bits) | items (24). That of a share: number (40) | taken (24).
#include "cpu/team.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "cpu/prefetch.h"

namespace heddle::cpu {
namespace {

constexpr uint64_t field = (1u << 24) - 1;
constexpr uint64_t number_of(uint64_t word) { return word >> 24; }
constexpr uint64_t count_of(uint64_t word) { return word & field; }

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // a few tens of cycles; `yield` is none
#endif
}

}  // namespace

// Threads wait for a phase, and there is none before the constructor ends: by then it is known how many there are.
Team::Team(uint32_t threads, const std::string& root)
    : shares_(threads ? threads : uint32_t(hardware_threads())),
      nodes_(nodes_with(allowed_processors(), root)),
      differ_in_speed_(heddle::differ_in_speed(allowed_processors(), root)) {
  const uint32_t wanted = uint32_t(shares_.size());
  for (uint32_t i = 0; i < wanted; ++i) node_of_.push_back(node_of_thread(nodes_, i, wanted));
  try {
    for (uint32_t i = 1; i < wanted; ++i)
      others_.emplace_back([this, i] {
        if (nodes_.size() > 1) run_on(nodes_[node_of_[i]].processors);  // refused, it reads what is on another node
        serve(i);
      });
  } catch (const std::system_error&) {  // the system refuses more threads: those that exist do all the work
  }
  count_ = uint32_t(others_.size()) + 1;
}

Team::~Team() {
  end_ = true;
  ++bell_;
  bell_.notify_all();
  for (std::thread& thread : others_) thread.join();
}

// A share's word has the number of an earlier phase until its first item is taken. A thread that still has the word of
// a phase that has ended finds every share of it taken, or used by a later phase.
bool Team::take(uint64_t phase, uint64_t share, uint64_t& item) {
  const uint64_t items = count_of(phase), shares = std::min<uint64_t>(items, count_);
  const uint64_t first = items * share / shares, size = items * (share + 1) / shares - first;
  std::atomic<uint64_t>& word = shares_[share].taken;
  uint64_t seen = word.load(std::memory_order_relaxed);
  while (true) {
    if (number_of(seen) > number_of(phase)) return false;
    const uint64_t taken = number_of(seen) == number_of(phase) ? count_of(seen) : 0;
    if (taken >= size) return false;
    if (word.compare_exchange_weak(seen, number_of(phase) << 24 | (taken + 1), std::memory_order_relaxed)) {
      item = first + taken;
      return true;
    }
  }
}

uint64_t Team::first_item(uint64_t count, uint32_t thread) const {
  const uint64_t at_once = items_at_once(count), items = (count + at_once - 1) / at_once;
  const uint64_t shares = std::min<uint64_t>(items, count_);
  return thread < shares ? items * thread / shares * at_once : count;
}

void Team::help(uint32_t thread) {
  const uint64_t phase = phase_.load(std::memory_order_acquire), shares = std::min<uint64_t>(count_of(phase), count_);
  std::atomic<uint64_t>& done = shares_[thread].done;
  const auto do_shares = [&](bool of_own_node) {
    for (uint64_t i = 0; i < shares; ++i) {
      const uint64_t share = (thread + i) % shares;
      if ((node_of_[share] == node_of_[thread]) != of_own_node) continue;
      for (uint64_t item; take(phase, share, item);) {
        try {
          call_(work_, item, thread);
        } catch (...) {
          const std::lock_guard guard(lock_);
          if (!failure_) failure_ = std::current_exception();
        }
        done.store(done.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      }
    }
  };
  do_shares(true);
  if (nodes_.size() > 1 && help_.load(std::memory_order_relaxed) == Help::all) do_shares(false);
}

void Team::prefetch_while_waiting(uint32_t thread, const Prefetch& what) {
  Share& share = shares_[thread];
  share.first.store(what.first, std::memory_order_relaxed);
  share.second.store(what.second, std::memory_order_relaxed);
  share.bytes.store(what.bytes, std::memory_order_relaxed);
  share.prefetched.store(0, std::memory_order_relaxed);
}

bool Team::prefetch_some(uint32_t thread) {
  Share& share = shares_[thread];
  const uint64_t at = share.prefetched.load(std::memory_order_relaxed);
  if (at >= share.bytes.load(std::memory_order_relaxed)) return false;
  constexpr uint64_t some = 512;
  for (const auto* place : {&share.first, &share.second})
    if (const uint8_t* from = place->load(std::memory_order_relaxed)) prefetch(from + at, some);
  share.prefetched.store(at + some, std::memory_order_relaxed);
  return true;
}

void Team::run(uint64_t count, Call call, void* work, Help whom) {
  if (count == 0) return;
  if (count == 1) return call(work, 0, 0);  // where its data is, and no other thread comes for it
  check(count < field, "a phase of less than 2^24 items");
  call_ = call;
  work_ = work;
  help_.store(whom, std::memory_order_relaxed);
  total_ += count;
  const uint64_t number = number_of(phase_.load(std::memory_order_relaxed)) + 1;
  phase_.store(number << 24 | count);  // in one order with sleeping_: see serve
  if (sleeping_.load() != 0) {
    ++bell_;
    bell_.notify_all();
  }
  help(0);
  // The last items are under way. Their thread may have lost its core: then yield ours.
  const auto all_done = [&] {
    uint64_t done = 0;
    for (const Share& share : shares_) done += share.done.load(std::memory_order_acquire);
    return done == total_;
  };
  for (uint32_t spins = 0; !all_done(); ++spins) {
    if (spins < 2000)
      pause();
    else
      std::this_thread::yield();
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Team::serve(uint32_t thread) {
  using Clock = std::chrono::steady_clock;
  uint64_t finished = 0;  // the word of the last phase in which nothing was left to do
  uint32_t idle = 0;
  Clock::time_point since;
  while (!end_) {
    const uint64_t phase = phase_.load(std::memory_order_acquire);
    if (phase != finished) {
      help(thread);
      finished = phase;
      idle = 0;
      continue;
    }
    if (prefetch_some(thread)) continue;
    ++idle;
    if (idle < 2000) {
      pause();
      continue;
    }
    if (idle == 2000) since = Clock::now();
    if (Clock::now() - since < std::chrono::milliseconds(5)) {
      std::this_thread::yield();
      continue;
    }
    // Either run() sees that we sleep, or we see its phase.
    const uint32_t bell = bell_;
    ++sleeping_;
    if (!end_ && phase_.load() == finished) bell_.wait(bell);
    --sleeping_;
    idle = 0;
  }
}

}  // namespace heddle::cpu
