// Events to their callbacks: a mailbox per request, and threads that empty them. One thread is always free, so that a
// callback which blocks holds up its own mailbox only; those that were idle for a second go away.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/request.h"

namespace heddle::engine {

class Deliveries {
 public:
  class Mailbox;  // of one request

  // `threw` is called, on a thread of these, with a request whose callback threw for the first time. From then on that
  // callback is told nothing but the ends.
  Deliveries(std::function<void(RequestId)> threw, double patience);
  // Waits until everything is delivered. When no callback returned for `patience` seconds, it says so on stderr and
  // aborts.
  ~Deliveries();

  std::shared_ptr<Mailbox> open(OnEvent on_event);
  void post(const std::shared_ptr<Mailbox>& mailbox, Event event);  // from any thread; never waits for a callback

  size_t threads() const;

 private:
  void deliver();  // what a thread does
  void empty_one(std::unique_lock<std::mutex>& lock);
  void call(Mailbox& mailbox, const Event& event);
  void start_thread();
  void leave();
  void join_gone();

  const std::function<void(RequestId)> threw_;
  const double patience_;
  std::atomic<uint64_t> delivered_ = 0;

  mutable std::mutex mutex_;  // of all that follows, and of what is in mailboxes
  std::condition_variable work_, done_;
  std::deque<std::shared_ptr<Mailbox>> ready_;  // with events, and with no thread
  std::unordered_map<std::thread::id, std::thread> threads_;
  std::vector<std::thread> gone_;  // ended or about to
  size_t idle_ = 0, busy_ = 0;     // threads that wait for work, threads in a callback
  bool ending_ = false;
};

}  // namespace heddle::engine
