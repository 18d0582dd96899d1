// Delivers events to callbacks: a mailbox per request, and threads that empty them. One thread is always idle, so a
// callback that blocks holds up its own mailbox only; threads that were idle for a second end.
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

  // `threw` is called, on one of the threads, when a request's callback throws for the first time. After that the
  // callback is called with the ends of completions only.
  Deliveries(std::function<void(RequestId)> threw, double patience);
  // Waits until everything is delivered. If no callback returns for `patience` seconds, it says so on stderr and
  // aborts.
  ~Deliveries();

  std::shared_ptr<Mailbox> open(OnEvent on_event);
  void post(const std::shared_ptr<Mailbox>& mailbox, Event event);  // on any thread; never waits for a callback

  size_t threads() const;

 private:
  void deliver();  // the loop of a thread
  void empty_one(std::unique_lock<std::mutex>& lock);
  void call(Mailbox& mailbox, const Event& event);
  void start_thread();
  void leave();
  void join_gone();

  const std::function<void(RequestId)> threw_;
  const double patience_;
  std::atomic<uint64_t> delivered_ = 0;

  mutable std::mutex mutex_;  // guards all members below, and the contents of mailboxes
  std::condition_variable work_, done_;
  std::deque<std::shared_ptr<Mailbox>> ready_;  // with events, and without a thread
  std::unordered_map<std::thread::id, std::thread> threads_;
  std::vector<std::thread> gone_;  // to be joined
  size_t idle_ = 0, busy_ = 0;     // threads that wait for work, and in a callback
  bool ending_ = false;
};

}  // namespace heddle::engine
