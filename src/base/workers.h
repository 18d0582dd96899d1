// Threads that do one thing after another.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstring>
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
  size_t threads() const { return count_; }
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

// memcpy by the caller and its helpers, which must have nothing else to do.
inline void copy_in_pieces(Workers& helpers, void* to, const void* from, size_t bytes) {
  constexpr size_t min_piece = 256 << 10;
  const size_t pieces = std::clamp<size_t>(bytes / min_piece, 1, helpers.threads() + 1);
  const auto copy = [=](size_t piece) {
    const size_t first = bytes * piece / pieces, end = bytes * (piece + 1) / pieces;
    if (first < end) std::memcpy(static_cast<char*>(to) + first, static_cast<const char*>(from) + first, end - first);
  };
  for (size_t piece = 1; piece < pieces; ++piece) helpers.add([=] { copy(piece); });
  copy(0);
  helpers.drain();
}

}  // namespace heddle
