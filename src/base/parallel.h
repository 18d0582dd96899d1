// Independent pieces of work on several threads.
#pragma once
#include <cstddef>
#include <functional>

namespace heddle {

// The processors that this process may run on, or fewer where a control group limits their time; at least 1.
size_t hardware_threads();

// Calls work(i) for every i below `count`, on up to `threads` threads (0: one per core), in no particular order. The
// first exception ends it: no further call is begun, and the exception is thrown here.
void parallel_for(size_t count, size_t threads, const std::function<void(size_t)>& work);

}  // namespace heddle
