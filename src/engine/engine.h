// Many requests on one backend: who is computed when, where their KV blocks are, and what they pick. A sequence has
// known tokens and computed ones; a step lets the second catch up with the first.
//
// One thread calls it; engine_thread.h puts a thread and its users around it.
#pragma once
#include <functional>
#include <memory>

#include "base/error.h"
#include "engine/metrics.h"
#include "engine/request.h"
#include "model/backend.h"

namespace heddle::engine {

// Why a request was not taken, other than what is wrong with it (InvalidRequest): too many wait,
struct Busy : Error {
  using Error::Error;
};
// or nothing is done any more, see Engine::stopped().
struct Stopped : Error {
  using Error::Error;
};

struct Task;

struct EngineOptions {
  // Seconds between two tokens of a running stream that prompts of others may cause. INFINITY: prompts are computed in
  // batches as large as they can be.
  double max_stall = 0.050;
  uint32_t max_prompt_logits = 64;  // rows of a batch that send logits for prompts: each is as long as the vocabulary
  uint32_t max_waiting = 1024;
  bool prefix_cache = true;
  Speculation speculation = Speculation::automatic;  // what Request's `automatic` means: automatic, never or always
  std::function<double()> now;                       // seconds, for all threads that submit; empty: the steady clock
};

class Engine {
 public:
  // Model and backend must outlive it, and nobody else uses the backend.
  Engine(const model::Model& model, model::Backend& backend, const model::Limits& limits, EngineOptions options = {});
  ~Engine();

  // Throws InvalidRequest if the request can never be done (an empty prompt, a token that is not of the vocabulary, a
  // prompt that leaves no room in context or cache, bad sampling), Busy or Stopped if it cannot be now. `on_event` is
  // called from within step(), never from here; if it throws, its request is cancelled. It may submit and cancel.
  RequestId submit(Request request, OnEvent on_event);

  // submit() in parts, for engine_thread.h. From any thread: what is wrong with a request is found here, and what takes
  // time with a long one is done. The task has its id, and the time of this call counts as that of its coming.
  std::unique_ptr<Task> prepare(Request request) const;
  void expect_possible(const Request& request) const;  // as prepare() does
  void expect_room(size_t waiting) const;              // throws Busy where no more may wait than these
  // In the thread that steps. Throws Stopped, nothing else.
  void take(std::unique_ptr<Task> task, OnEvent on_event);

  void cancel(RequestId id);  // of what is not there any more: nothing. The end is told in the next step().
  // One copy has met an end that only its reader knows: it ends as by a stop, and the others go on. Of one that has no
  // token yet: nothing, as it may compute the prompt of them all.
  void finish(RequestId id, uint32_t copy);

  uint32_t context() const;  // tokens of one sequence: the model's context, or what the KV cache can hold

  // One batch: admits, chooses rows, computes, picks, tells. False if there was nothing to do.
  bool step();
  bool idle() const;  // nothing waits, nothing runs
  // How far the prompt of a request is, between two steps: tokens that are computed or were found in the KV cache.
  uint32_t prompt_progress(RequestId id) const;  // 0: it waits, or has ended
  // After a fault of the device: why. Then every request, old or new, fails with it. Empty: all is well.
  const std::string& stopped() const;

  const Metrics& metrics() const;

  // For tests: throws std::logic_error if a block is lost, counted wrongly, or shared by those who write to it.
  void check_invariants() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::engine
