// The inside of Engine. What it does with requests is in engine.cpp, with a batch in engine_batch.cpp, and where
// nothing changes from step to step in engine_run.cpp.
#pragma once
#include <atomic>
#include <optional>
#include <set>
#include <unordered_map>

#include "engine/cache.h"
#include "engine/engine.h"
#include "engine/pace.h"
#include "engine/schedule.h"
#include "engine/sequence.h"

namespace heddle::engine {

class Engine::State {
 public:
  State(const model::Model& model, model::Backend& backend, const model::Limits& limits, EngineOptions options);

  std::unique_ptr<Task> prepare(Request request) const;
  void expect_possible(const Request& request) const;
  void expect_room(size_t waiting) const;
  RequestId submit(Request request, OnEvent on_event);
  void take(std::unique_ptr<Task> task, OnEvent on_event);
  void cancel(RequestId id, const std::string& reason);
  void finish(RequestId id, uint32_t copy);
  bool step();
  bool idle() const { return tasks_.empty(); }
  void check_invariants() const;

  std::string stopped_;
  Metrics metrics_;

 private:
  void ask(Sequence& s, FinishReason ending, const std::string& reason);
  bool end_asked();
  void end(Sequence& s, FinishReason ending, const std::string& reason = {});
  void end_without_answer(Task& task);
  void tell(Task& task, const Event& event);
  void fail(Task& task, const std::string& reason);
  void fault(const std::string& reason);  // of those in_batch_
  void count_batch(size_t rows, size_t sequences);
  void join_step(Sequence& s, uint32_t rows);
  void leave_step(Sequence& s);
  void tidy();
  double now() const { return options_.now(); }

  // engine_batch.cpp
  bool compute(std::span<const Planned> plan);
  void fill_batch(std::span<const Planned> plan);
  bool pick_on_device(std::span<const Planned> plan);
  void give_out(std::span<const Planned> plan);
  bool read_prompt(Sequence& s, uint32_t rows, uint32_t& output, uint32_t state);
  std::span<const float> logits_of(uint32_t output) const {
    return logits_.subspan(size_t(output) * model_.vocabulary, model_.vocabulary);
  }
  void fork(Sequence& first);
  void pick_for(Sequence& s, uint32_t output);
  Pick pick(Sequence& s, uint32_t output);
  bool token(Sequence& s, Pick pick);

  // engine_run.cpp
  bool run_off(std::span<const Planned> plan);
  bool go_on();
  void leave_run(const Sequence& s);
  void end_run();

  const model::Model& model_;
  model::Backend& backend_;
  const model::Limits limits_;
  EngineOptions options_;
  const uint32_t context_;
  Pace pace_, run_pace_;
  Cache cache_;
  Schedule schedule_;
  std::unordered_map<RequestId, std::unique_ptr<Task>> tasks_;
  mutable std::atomic<RequestId> last_id_ = 0;
  std::vector<Sequence*> asked_;  // to end
  std::vector<RequestId> over_;

  // Of the step under way, kept for their memory.
  std::vector<Sequence*> in_batch_;
  model::Batch batch_;
  struct Part {  // of a sequence, told before any of them changes
    uint32_t outputs = 0, states = 0;
    bool picks = false;
  };
  std::vector<Part> parts_;
  std::vector<model::Picking> pickings_;
  std::span<const model::Picked> picked_;  // one for each output; none: there are logits
  std::span<const float> logits_;          // (outputs, vocabulary)
  std::span<const float> states_;          // (states, width)
  std::vector<Sequence*> forked_;
  double tokens_at_ = 0;  // when this step's were there
  double telling_ = 0;    // seconds in callbacks
  double scoring_ = 0;    // seconds with the logits of prompts
  struct {
    double start = 0, device = 0;  // device: seconds in the backend
    uint32_t rows = 0, sequences = 0;
  } step_;
  std::vector<Sequence*> in_step_;
  // Counts the time in the backend while it is there.
  class OnDevice {
   public:
    explicit OnDevice(State& state) : state_(state), start_(state.now()) {}
    ~OnDevice() { state_.step_.device += state_.now() - start_; }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

   private:
    State& state_;
    const double start_;
  };

  // Streams that the device lets go on by itself.
  struct Run {
    std::unique_ptr<model::Steps> steps;
    std::vector<Sequence*> rows;  // null: it has left
    uint32_t max_steps = 0;       // steps that there are blocks for
    uint32_t launched = 0, taken = 0;
    bool closing = false;  // no more are launched
    Load load;             // of a step, at the beginning
  };
  std::optional<Run> run_;
  // Of so many rows without biases, with or without a look at texts: the backend cannot.
  std::set<std::pair<size_t, bool>> no_runs_;
};

}  // namespace heddle::engine
