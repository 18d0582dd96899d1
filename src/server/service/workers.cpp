#include "server/service/workers.h"

namespace heddle::server {

Workers::Workers(size_t threads, size_t max_waiting, size_t max_bytes)
    : max_waiting_(max_waiting), max_bytes_(max_bytes) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Workers::push(size_t bytes, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    const bool fits = waiting_.empty() || (bytes_ <= max_bytes_ && bytes <= max_bytes_ - bytes_);
    if (waiting_.size() >= max_waiting_ || !fits) return false;
    waiting_.push_back({bytes, std::move(task)});
    bytes_ += bytes;
  }
  changed_.notify_one();
  return true;
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_ -= task.bytes;
    lock.unlock();
    task.run();
    task.run = nullptr;  // what it holds is destroyed without the lock
    lock.lock();
  }
}

}  // namespace heddle::server
