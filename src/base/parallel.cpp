// Threads that take the next piece until none is left.
#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/processors.h"

namespace heddle {

size_t hardware_threads() {
  // hardware_concurrency() counts the processors of the machine, also where a container or `taskset` leaves few of
  // them.
  static const size_t limit = processors_by_groups();  // files are read
  const size_t allowed = allowed_processors().size();
  const size_t here = allowed ? allowed : std::max(1u, std::thread::hardware_concurrency());
  return limit ? std::min(here, limit) : here;
}

void parallel_for(size_t count, size_t threads, const std::function<void(size_t)>& work) {
  threads = std::min(count, threads ? threads : hardware_threads());
  if (threads <= 1) {
    for (size_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::atomic<size_t> next{0};
  std::mutex lock;
  std::exception_ptr first;
  const auto run = [&] {
    for (size_t i; (i = next.fetch_add(1)) < count;) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard guard(lock);
        if (!first) first = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (size_t i = 1; i < threads; ++i) others.emplace_back(run);
    } catch (const std::system_error&) {  // the system refuses more threads: those that exist do all the work
    }
    run();
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace heddle
