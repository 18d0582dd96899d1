// Many requests on one backend. A sequence has known tokens and computed ones; a step lets the second catch up with the
// first.
//
// One thread calls it; engine_thread.h adds a thread and takes calls from any.
#pragma once
#include <functional>
#include <memory>

#include "base/error.h"
#include "engine/metrics.h"
#include "engine/request.h"
#include "model/backend.h"

namespace heddle::engine {

// A valid request is refused because too many wait already.
struct Busy : Error {
  using Error::Error;
};
// It is refused because the engine has stopped, see Engine::stopped().
struct Stopped : Error {
  using Error::Error;
};

struct Task;

struct EngineOptions {
  // Seconds by which prompts may delay the next token of a running stream. INFINITY: prompts are computed in the
  // largest batches.
  double max_stall = 0.050;
  uint32_t max_prompt_logits = 64;  // rows of a batch that send the logits of prompts, each as long as the vocabulary
  uint32_t max_waiting = 1024;
  bool prefix_cache = true;
  Speculation speculation = Speculation::automatic;  // for requests that leave it automatic
  std::function<double()> now;                       // seconds, called from any thread; empty: the steady clock
};

class Engine {
 public:
  // The model and the backend must outlive it, and nothing else uses the backend.
  Engine(const model::Model& model, model::Backend& backend, const model::Limits& limits, EngineOptions options = {});
  ~Engine();

  // Throws InvalidRequest if the request can never be done (an empty prompt, a token beyond the vocabulary, a prompt
  // that does not fit into the context or the KV cache, bad sampling), Busy or Stopped if it cannot be done now.
  // `on_event` is called from within step(), never from here; if it throws, its request is cancelled. It may submit and
  // cancel.
  RequestId submit(Request request, OnEvent on_event);

  // submit() in two parts, for engine_thread.h. prepare() checks the request and does what takes long for a long one,
  // on any thread; the task has its id, and arrives now. take() is for the thread that steps, and throws Stopped only.
  std::unique_ptr<Task> prepare(Request request) const;
  void take(std::unique_ptr<Task> task, OnEvent on_event);
  void expect_possible(const Request& request) const;  // throws what prepare() does
  void expect_room(size_t waiting) const;              // throws Busy if no more may wait than these

  void cancel(RequestId id);  // its completions end in the next step(). No effect on a request that has ended
  // The reader has all that it wants of this completion: it ends as by a stop, the others go on. No effect before its
  // first token, as it may compute the prompt of all completions.
  void finish(RequestId id, uint32_t index);

  // One batch: admit requests, choose rows, compute, pick, emit. False: there was nothing to do.
  bool step();
  bool idle() const;  // nothing waits, nothing runs
  // Tokens of a request's prompt that are computed, or were found in the KV cache. 0: it waits, or has ended.
  uint32_t prompt_progress(RequestId id) const;
  // Why every request, old or new, fails: the device has. Empty: the engine runs.
  const std::string& stopped() const;

  uint32_t context() const;  // tokens of one sequence: the model's context, or what the KV cache can hold
  const Metrics& metrics() const;

  // For tests: throws std::logic_error if a block is lost, counted wrongly, or written to by several sequences.
  void check_invariants() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::engine
