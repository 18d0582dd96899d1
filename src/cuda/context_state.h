// The one way to call the driver in a context: current in this thread, checked, and refused once the context is lost.
#pragma once
#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

#include "cuda/device.h"
#include "cuda/driver.h"

namespace heddle::cuda {

class ContextState {
 public:
  explicit ContextState(uint32_t ordinal);  // throws NoDriver, NoDevice
  ~ContextState();
  ContextState(const ContextState&) = delete;
  ContextState& operator=(const ContextState&) = delete;

  const Driver& api;
  const DeviceInfo info;
  const std::string driver_version;

  template <class... P, class... A>
  void call(const Call<P...>& function, A... args) {
    enter();
    if (const int result = function(args...)) fail(result, function.name);
  }
  // The same for a call about a kernel, which the message names.
  template <class... P, class... A>
  void call_for_kernel(const std::string& kernel, const Call<P...>& function, A... args) {
    enter();
    if (const int result = function(args...)) fail(result, function.name, kernel);
  }
  // For calls whose result is more than done or failed: the caller passes what is a failure to fail().
  template <class... P, class... A>
  int result_of(const Call<P...>& function, A... args) {
    enter();
    return function(args...);
  }
  // For destructors: the result is ignored, because a destructor cannot report it.
  template <class... P, class... A>
  void release(const Call<P...>& function, A... args) noexcept {
    make_current_quietly();
    function(args...);
  }

  // Throws the DriverError for this result, and remembers a lost context. `detail` follows the call in the message.
  [[noreturn]] void fail(int result, const char* call, const std::string& kernel = {}, const std::string& detail = {});

  void use();
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  std::string why_lost() const;

  // A name that lives as long as the context.
  const std::string* keep(const std::string& name);
  // For messages: errors of a kernel show in whatever call comes later.
  void launched(const std::string* kept_name) { last_launched_.store(kept_name, std::memory_order_relaxed); }

 private:
  void enter();
  void make_current_quietly() noexcept;

  int device_ = 0;
  void* context_ = nullptr;
  const uint64_t id_;  // the driver may give the same handle to a later context

  std::atomic<bool> lost_ = false;
  mutable std::mutex mutex_;
  std::string why_lost_;
  int lost_code_ = 0;
  std::deque<std::string> names_;
  std::atomic<const std::string*> last_launched_ = nullptr;
};

}  // namespace heddle::cuda
