// An engine with a thread of its own, called from any thread. A callback may take long, block or throw: only its own
// request is affected.
#pragma once
#include <memory>

#include "engine/engine.h"

namespace heddle::engine {

class EngineThread {
 public:
  // Nothing else may use the engine, which must outlive this. The thread sleeps while there is nothing to do.
  // `patience`: seconds, see the destructor.
  explicit EngineThread(Engine& engine, double patience = 10);

  // Cancels everything, delivers every end, and waits for callbacks to return. If none returns for `patience` seconds,
  // it says so on stderr and aborts, because what a callback uses cannot be destroyed under it. Not to be called from a
  // callback.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // On any thread, callbacks included. Throws what Engine::submit throws, and does not wait; Busy counts the requests
  // that wait in the engine and those it has not taken yet. A fault that is found later ends the request with an event.
  // `on_event` is called on other threads, one call after the other and in order, possibly before this returns; events
  // are kept while it is busy. If it throws, its request is cancelled, and it is called with the ends only.
  // `even_if_full`: Busy is not thrown, for a request that continues one that was taken.
  RequestId submit(Request request, OnEvent on_event, bool even_if_full = false);
  void cancel(RequestId id);                  // returns at once; tokens generated before may still be delivered
  void finish(RequestId id, uint32_t index);  // likewise; see Engine::finish

  Metrics metrics() const;  // as they were after the last step
  // Why every request fails: the device has failed, or the engine. Empty: the engine runs.
  std::string stopped() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::engine
