// The word of a phase: number (16 bits) | items (24) | next item (24).
#include "cpu/team.h"

#include <chrono>
#include <system_error>

#include "base/error.h"
#include "base/parallel.h"

namespace heddle::cpu {
namespace {

constexpr uint64_t field = (1u << 24) - 1;
constexpr uint64_t items_of(uint64_t phase) { return phase >> 24 & field; }
constexpr uint64_t next_of(uint64_t phase) { return phase & field; }

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // a few tens of cycles; `yield` is none
#endif
}

}  // namespace

Team::Team(uint32_t threads) {
  if (threads == 0) threads = uint32_t(hardware_threads());
  try {
    for (uint32_t i = 1; i < threads; ++i) others_.emplace_back([this, i] { serve(i); });
  } catch (const std::system_error&) {  // the system refuses more threads: those that exist do all the work
  }
}

Team::~Team() {
  end_ = true;
  ++bell_;
  bell_.notify_all();
  for (std::thread& thread : others_) thread.join();
}

bool Team::take_and_do(uint32_t thread) {
  uint64_t phase = phase_.load(std::memory_order_acquire);
  do {
    if (next_of(phase) >= items_of(phase)) return false;
  } while (!phase_.compare_exchange_weak(phase, phase + 1, std::memory_order_acq_rel, std::memory_order_acquire));
  try {
    call_(work_, next_of(phase), thread);
  } catch (...) {
    const std::lock_guard guard(lock_);
    if (!failure_) failure_ = std::current_exception();
  }
  done_.fetch_add(1, std::memory_order_release);
  return true;
}

void Team::run(uint64_t count, Call call, void* work) {
  if (count == 0) return;
  if (count == 1) return call(work, 0, 0);  // where its data is, and no other thread comes for it
  check(count < field, "a phase of less than 2^24 items");
  call_ = call;
  work_ = work;
  done_.store(0, std::memory_order_relaxed);
  const uint64_t number = (phase_.load(std::memory_order_relaxed) >> 48) + 1;
  phase_.store(number << 48 | count << 24);  // in one order with sleeping_: see serve
  if (sleeping_.load() != 0) {
    ++bell_;
    bell_.notify_all();
  }
  while (take_and_do(0)) {
  }
  // The last items are under way. Their thread may have lost its core: then yield ours.
  for (uint32_t spins = 0; done_.load(std::memory_order_acquire) != count; ++spins) {
    if (spins < 2000)
      pause();
    else
      std::this_thread::yield();
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Team::serve(uint32_t thread) {
  using Clock = std::chrono::steady_clock;
  uint32_t idle = 0;
  Clock::time_point since;
  while (!end_) {
    if (take_and_do(thread)) {
      idle = 0;
      continue;
    }
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
    const uint64_t phase = phase_.load();
    if (!end_ && next_of(phase) >= items_of(phase)) bell_.wait(bell);
    --sleeping_;
    idle = 0;
  }
}

}  // namespace heddle::cpu
