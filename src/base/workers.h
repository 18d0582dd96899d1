// Threads that do one thing after another.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle {

// The first thing starts them.
class Workers {
 public:
  explicit Workers(size_t threads) : count_(threads) {}
  ~Workers() {  // does all that it was given
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    while (threads_.size() < count_) threads_.emplace_back([this] { run(); });
    work_.notify_one();
  }
  void drain() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return waiting_.empty() && busy_ == 0; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const std::function<void()> next = std::move(waiting_.front());
      waiting_.pop_front();
      ++busy_;
      lock.unlock();
      next();
      lock.lock();
      --busy_;
      idle_.notify_all();
    }
  }

  const size_t count_;
  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::thread> threads_;
  size_t busy_ = 0;
  bool ending_ = false;
};

}  // namespace heddle
