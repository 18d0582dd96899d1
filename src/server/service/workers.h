// A few threads for what would block the network threads: templates and long texts. The queue is bounded.
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
  // Limits of the queue: the number of tasks, and their bytes together.
  Workers(size_t threads, size_t max_waiting, size_t max_bytes);
  ~Workers();  // runs what waits

  // False: the queue is full. One task is taken whatever its size. `task` must not throw.
  bool push(size_t bytes, std::function<void()> task);

 private:
  struct Task {
    size_t bytes;
    std::function<void()> run;
  };
  void run();

  const size_t max_waiting_, max_bytes_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Task> waiting_;
  size_t bytes_ = 0;  // of the tasks that wait; one large task may take it above the limit
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace heddle::server
