// Many requests on one backend. A sequence is a list of known tokens, of which the first ones are computed: every step
// computes more of them, and picks a token after the last.
//
// An Engine is used by one thread; engine_thread.h gives it one, and takes calls from any other.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "engine/kv_observer.h"
#include "engine/kv_store.h"
#include "engine/metrics.h"
#include "engine/request.h"
#include "model/backend.h"

namespace heddle::engine {

// A valid request is refused because too many wait already.
struct Busy : Error {
  using Error::Error;
};
// A request is refused because the engine has stopped, see Engine::stopped().
struct Stopped : Error {
  using Error::Error;
};

struct Task;

// Sequences that wait, of all clients and of each that has any.
struct Queue {
  size_t all = 0;
  std::unordered_map<uint64_t, size_t> of_client = {};
  void add(uint64_t client, size_t sequences) {
    all += sequences;
    of_client[client] += sequences;
  }
};

// A small model that proposes tokens for the large one: of the same vocabulary, on the same device, with a KV cache of
// its own. Model and backend must outlive the engine, and nothing else uses the backend.
struct DraftModel {
  const model::Model* model = nullptr;
  model::Backend* backend = nullptr;
  model::Limits limits;
  uint32_t max_proposals = 8;  // at once
};

struct EngineOptions {
  // Seconds by which prompts may delay the next token of a running stream. INFINITY: prompts are computed in the
  // largest batches.
  double max_stall = 0.200;
  uint32_t max_prompt_logits = 64;  // rows of a batch that send prompt logits, each as long as the vocabulary
  uint32_t max_waiting = 1024;      // sequences; a client that has less than its share of them may still add to its own
  bool prefix_cache = true;
  Speculation speculation = Speculation::automatic;  // for requests that leave it automatic
  std::optional<DraftModel> draft;                   // speculation is by the draft, too
  // Where the model has a head for multi-token prediction (model::NextHead) and there is no draft, speculation is by
  // the head: how many tokens at once.
  uint32_t max_predicted = 3;
  // For what the KV cache has no room for; it must outlive the engine. Null: there is none.
  KvStore* store = nullptr;
  // With a store: names the model, all its weights, and how they are computed. Equal ones share what a store has.
  std::string store_identity;
  double max_fetch_seconds = 30;      // that a request waits for a store; then it computes
  KvObserver* kv_observer = nullptr;  // of the KV cache, or null; must outlive the engine
  uint32_t ranks = 1;                 // processes that compute the model, for metrics
  std::function<double()> now;        // seconds, called from any thread; empty: the steady clock
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

  // submit() in two steps, for engine_thread.h. prepare() may be called on any thread: it checks the request, gives it
  // its id and time of arrival, and does the work that grows with the prompt. take() is called by the thread that
  // steps, and throws nothing but Stopped.
  std::unique_ptr<Task> prepare(Request request) const;
  void take(std::unique_ptr<Task> task, OnEvent on_event);
  void expect_possible(const Request& request) const;  // throws what prepare() does
  // Throws Busy if the request's completions are too many beside those of the queue.
  void expect_room(const Queue& queue, const Request& request) const;
  Queue queue() const;

  void cancel(RequestId id);  // its completions end in the next step(); no effect on a request that has ended
  // Ends one completion as a stop sequence would, because its reader needs no more; the others go on. No effect before
  // its first token, because it may be computing the prompt of all completions.
  void finish(RequestId id, uint32_t index);

  // One batch: admit requests, choose rows, compute, pick, emit. False: there was nothing to do.
  bool step();
  bool idle() const;  // nothing waits, nothing runs
  // Tokens of a request's prompt that are computed, or were found in the KV cache. 0: it waits, or has ended.
  uint32_t prompt_progress(RequestId id) const;
  // Why every request fails, submitted or new: the device has failed. Empty: the engine runs.
  const std::string& stopped() const;

  uint32_t context() const;   // tokens of one sequence: the model's context, or what the KV cache can hold
  uint32_t max_rows() const;  // of a batch
  const Metrics& metrics() const;

  // With a store that lasts: gives it some of what only the cache has. For when there is nothing else to do.
  enum class Saving { done, more, later };  // later: the store has enough to write
  Saving save_some();

  // For tests: throws std::logic_error if a block is lost, counted wrongly, or written to by several sequences.
  void check_invariants() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::engine
