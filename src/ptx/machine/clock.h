// Vector clocks: who knows of whose accesses. A thread's accesses carry its own count; a barrier or an arrival
// publishes what a thread knows, a wait learns it. Two accesses are ordered if the later thread knows the earlier.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace heddle::ptx::machine {

// Entry per thread of the cluster, then one per block for its copy engine. Shared by all threads that know the same.
using Clock = std::vector<uint32_t>;
using ClockPtr = std::shared_ptr<const Clock>;

struct ThreadClock {
  ClockPtr known;
  uint32_t own = 1;        // count of the accesses made now
  ClockPtr fence_known;    // what it knew, and
  uint32_t fence_own = 0;  // its own count, at its last proxy fence
  ClockPtr seen;           // published where it read with relaxed order: learnt at the next fence
  bool fenced = false;     // has executed a fence: its relaxed writes publish
};

inline void join_into(Clock& a, const Clock& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] = std::max(a[i], b[i]);
}
inline ClockPtr join(const ClockPtr& a, const ClockPtr& b) {
  if (a == b || !b) return a;
  if (!a) return b;
  auto sum = std::make_shared<Clock>(*a);
  join_into(*sum, *b);
  return sum;
}

// What several threads publish together.
struct ClockSum {
  Clock sum;
  ClockPtr last;  // merged last: most threads that arrive together know the same

  void add(ThreadClock& t, uint32_t thread) {
    if (sum.empty()) sum.resize(t.known->size());
    if (t.known != last) {
      join_into(sum, *t.known);
      last = t.known;
    }
    sum[thread] = std::max(sum[thread], t.own++);
  }
  ClockPtr take() const { return std::make_shared<const Clock>(sum); }
};

}  // namespace heddle::ptx::machine
