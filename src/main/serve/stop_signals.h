// SIGINT and SIGTERM for a server: the first asks it to end, the second ends it.
#pragma once
#include <signal.h>

#include <functional>
#include <thread>

namespace heddle {

// To be made before any other thread, so that no other is interrupted: threads made while it lives leave these signals
// to it. Afterwards they do what they did before.
class StopSignals {
 public:
  explicit StopSignals(std::function<void()> first);  // called from another thread; after the second: exit status 1
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  void watch();

  std::function<void()> first_;
  sigset_t before_{};
  int signals_ = -1, end_ = -1;  // descriptors
  std::thread thread_;
};

}  // namespace heddle
