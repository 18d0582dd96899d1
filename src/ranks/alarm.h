// Why a group of ranks cannot go on, known to all threads of a process.
#pragma once
#include <atomic>
#include <mutex>
#include <string>

#include "base/error.h"

namespace heddle::ranks {

// Seconds after which a group gives up. All of them together are below the 10 s within which a group ends.
struct Patience {
  double silence = 5;     // without a sign of life of a rank
  double collective = 8;  // that ranks, which compute the same, wait for one another
  double pipeline = 120;  // that a stage waits for the one before it, which computes
  double join = 300;      // for all ranks to be there
};

class Alarm {
 public:
  // The first reason is kept. False: it was not the first.
  bool raise(std::string why) {
    const std::lock_guard lock(mutex_);
    if (raised_) return false;
    why_ = std::move(why);
    raised_ = true;
    return true;
  }
  bool raised() const { return raised_; }
  std::string why() const {  // empty: it was not raised
    const std::lock_guard lock(mutex_);
    return why_;
  }
  void expect_quiet() const {
    if (raised_) throw Error("{}", why());
  }

 private:
  mutable std::mutex mutex_;
  std::string why_;
  std::atomic<bool> raised_ = false;
};

}  // namespace heddle::ranks
