// What the files of the fake driver share: its control, the objects behind its handles, and how every call begins.
#pragma once
#include <chrono>

#include "tests/cuda/fake_driver.h"

namespace heddle::fake {

extern Control* control;
extern thread_local void* current;  // context of this thread

inline constexpr int invalid_image = 200, invalid_context = 201, invalid_handle = 400;

using Work = std::function<void()>;
struct Stream {
  bool capturing = false;
  std::vector<Work> captured;
};
struct Graph {
  std::vector<Work> nodes;
};
struct Event {
  std::chrono::steady_clock::time_point when;
};

// Every function begins with this: a result other than 0 is the result of the call.
int enter(const char* name, bool needs_context = true);
uint64_t born(void* handle, const char* what);
bool gone(const void* handle);  // whether it was alive
// Called in a lost context too: as with the real one, the memory goes with the context.
template <class T>
int release(const char* name, void* handle) {
  const int result = enter(name);
  if (!gone(handle)) return invalid_handle;
  delete static_cast<T*>(handle);
  return result;
}

// Runs the work now, or when the graph that is being captured is launched.
void put(void* stream, Work work);
void transfer(void* stream, Work work);  // the same for a copy or a fill

}  // namespace heddle::fake
