// Ctrl-C while a model writes: a flag, and not the end of the program.
#pragma once
#include <signal.h>

#include <atomic>

namespace heddle {

// As long as one lives (one at a time), SIGINT sets its flag, unless it was ignored. Afterwards SIGINT does what it did
// before.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<bool>& flag() const;

 private:
  struct sigaction before_ = {};
};

}  // namespace heddle
