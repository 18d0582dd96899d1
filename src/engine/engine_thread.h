// An engine with a thread of its own, called from any thread. A callback may take long, block or throw: only its own
// request is affected.
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

#include "engine/engine.h"
#include "engine/request.h"

namespace heddle::engine {

class EngineThread {
 public:
  // Nothing else may use the engine, which must outlive this. The thread sleeps while there is nothing to do.
  // `patience`: seconds, see the destructor.
  explicit EngineThread(Engine& engine, double patience = 10);

  // Cancels every request, delivers every end, and waits for callbacks to return. If none returns for `patience`
  // seconds, it says so on stderr and aborts, because what a callback uses cannot be destroyed under it. Not to be
  // called from a callback.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // On any thread, callbacks included. Throws what Engine::submit throws, and does not wait; Busy counts the sequences
  // that wait in the engine and those it has not taken yet. A fault that is found later ends the request with an event.
  // `on_event` is called on other threads, one call after the other and in order, possibly before this returns; events
  // are kept while it is busy. If it throws, its request is cancelled, and it is called with the ends only.
  // `even_if_full`: Busy is not thrown; for a request that belongs with one that was accepted.
  RequestId submit(Request request, OnEvent on_event, bool even_if_full = false);
  void cancel(RequestId id);                  // returns at once; tokens generated before may still be delivered
  void finish(RequestId id, uint32_t index);  // likewise; see Engine::finish

  uint32_t max_rows() const;  // of a batch
  // Gauges are those after the last step. Counters are at least as new as the last end that was delivered.
  Metrics metrics() const;
  // Why every request fails: the device has failed, or the engine. Empty: the engine runs.
  std::string stopped() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

// Delivers events to callbacks: a mailbox per request, and threads that empty them. One thread is always idle, so a
// callback that blocks holds up its own mailbox only; threads that were idle for a second end.
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
