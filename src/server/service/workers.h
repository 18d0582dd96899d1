// A few threads for what would hold up the network: templates and long texts. What waits for them is bounded.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle::server {

class Workers {
 public:
  // At most so many pieces of work wait, and all together of so many bytes.
  Workers(size_t threads, size_t max_waiting, size_t most_bytes);
  ~Workers();  // does what waits

  // False: too much waits. The work must not throw.
  bool push(size_t bytes, std::function<void()> work);

 private:
  struct Work {
    size_t bytes;
    std::function<void()> work;
  };
  void run();

  const size_t most_waiting_, most_bytes_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  size_t bytes_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace heddle::server
