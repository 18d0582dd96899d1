#include "server/service/workers.h"

namespace heddle::server {

Workers::Workers(size_t threads, size_t max_waiting, size_t most_bytes)
    : most_waiting_(max_waiting), most_bytes_(most_bytes) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Workers::push(size_t bytes, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    const bool fits = waiting_.empty() || bytes <= most_bytes_ - bytes_;  // one always does
    if (waiting_.size() >= most_waiting_ || !fits) return false;
    waiting_.push_back({bytes, std::move(work)});
    bytes_ += bytes;
  }
  changed_.notify_one();
  return true;
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Work work = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_ -= work.bytes;
    lock.unlock();
    work.work();
    work.work = nullptr;
    lock.lock();
  }
}

}  // namespace heddle::server
