// An engine with a thread of its own, for users on any thread. A callback may take as long as it likes, block or throw:
// that is nobody's trouble but its own request's.
#pragma once
#include <memory>

#include "engine/engine.h"

namespace heddle::engine {

class EngineThread {
 public:
  // Nobody else may use the engine, which must outlive this. The thread sleeps while nothing is to be done.
  // `patience`: seconds, see the destructor.
  explicit EngineThread(Engine& engine, double patience = 10);

  // Cancels everything, tells every callback each end that it was not told yet, and waits for callbacks under way. A
  // callback that never returns cannot be waited for, nor can what it uses be destroyed: when none has returned for
  // `patience` seconds, this says so on stderr and aborts. Not to be called from a callback.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // From any thread, callbacks included. Throws what Engine::submit throws, here and now, and waits for nobody; Busy
  // counts those that wait in the engine and those it has not taken yet. What can only be found later (the device
  // fails) is told as an end. `on_event` is called from other threads, one call after the other and in order, possibly
  // before this returns; events it has no time for are kept. If it throws, its request is cancelled, and all it is told
  // then are the ends. `even_if_full`: Busy is not thrown, for what goes on with something that was taken.
  RequestId submit(Request request, OnEvent on_event, bool even_if_full = false);
  void cancel(RequestId id);                 // returns at once; tokens made before may still be told
  void finish(RequestId id, uint32_t copy);  // likewise; see Engine::finish

  Metrics metrics() const;  // as they were after the last step
  // Why nothing is done any more: the device has failed, or the engine. Empty: all is well.
  std::string stopped() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::engine
