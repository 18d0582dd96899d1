// The inside of Engine: engine.cpp defines what it does with requests, engine_step.cpp what it does in a step,
// engine_constraint.cpp which tokens it may pick.
#pragma once
#include <atomic>
#include <unordered_map>

#include "engine/draft_head.h"
#include "engine/draft_model.h"
#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/pace.h"
#include "engine/schedule.h"
#include "engine/sequence.h"

namespace heddle::engine {

class Engine::State {
 public:
  State(const model::Model& model, model::Backend& backend, const model::Limits& limits, EngineOptions options);

  RequestId submit(Request request, OnEvent on_event);
  std::unique_ptr<Task> prepare(Request request) const;
  void take(std::unique_ptr<Task> task, OnEvent on_event);
  void expect_possible(const Request& request) const;
  void expect_types(const Request& request) const;
  void expect_room(const Queue& queue, const Request& request) const;
  Queue queue() const { return schedule_.queue(); }
  void cancel(RequestId id, const std::string& reason);
  void finish(RequestId id, uint32_t index);
  bool step();
  bool idle() const { return tasks_.empty(); }
  uint32_t prompt_progress(RequestId id) const;
  Saving save_some();
  uint32_t context() const { return context_; }
  uint32_t max_rows() const { return limits_.rows; }
  void check_invariants() const;

  std::string stopped_;
  Metrics metrics_;

 private:
  std::unique_ptr<Draft> make_head_draft();  // null: the model has no head
  BeyondCache beyond_cache() const;

  // engine.cpp: waiting for a store
  bool fetch_prompt(Sequence& s);
  std::shared_ptr<const KvOffer> offer_of(const Sequence& s);
  void end_fetches();

  // engine.cpp: how completions end
  void request_end(Sequence& s, FinishReason finish_reason, const std::string& reason);
  bool end_requested();
  void update_gauges();
  void end(Sequence& s, FinishReason finish_reason, const std::string& reason = {});
  void end_after_prompt(Task& task);
  void emit(Task& task, const Event& event);
  void fail(Task& task, const std::string& reason);
  void fault(const std::string& reason);  // fails the requests of the batch
  void remove_ended();

  // engine_constraint.cpp: which tokens may be picked
  void expect_constrainable(const Request& request) const;
  void start_constraint(Task& task);
  void allow_tokens();
  void add_masks(Sequence& s);
  void end_constraint(Sequence& s);

  // engine_step.cpp: how tokens are computed
  struct Slice;
  class LentTables;
  bool in_flight() const;
  bool plan_batch();
  uint32_t batches_ahead(std::span<const Planned> plan);
  void launch_batches();
  void launch_planned();
  void save_evicted();
  void read_kept(std::span<const KvCache::Kept> kept, const std::function<void(const KvKey&, const KvBytes&)>& then);
  void make_copies();
  void copy_states();
  void add_rows(Slice& slice, uint32_t sequence);
  std::optional<model::Picking> picking_of(const Sequence& s, uint32_t proposals) const;
  void take_result();
  void use_rows(const Slice& slice, uint32_t output, uint32_t state);
  bool read_prompt(Sequence& s, uint32_t rows, uint32_t& output, uint32_t state);
  void fork(Sequence& first);
  void pick_tokens(Sequence& s, uint32_t output);
  std::optional<Pick> pick(Sequence& s, uint32_t output, uint32_t proposals);
  bool add_token(Sequence& s, Pick pick);
  std::span<const float> logits_of(uint32_t output) const {
    return result_.logits.subspan(size_t(logits_rows_[output]) * model_.vocabulary, model_.vocabulary);
  }
  void join_batch();
  void join_step(Sequence& s, uint32_t rows);
  void leave_step(Sequence& s);
  double now() const { return options_.now(); }

  const model::Model& model_;
  model::Backend& backend_;
  const model::Limits limits_;
  EngineOptions options_;
  const uint32_t context_;
  KvStore* const store_;  // null: there is none
  const BeyondCache beyond_;
  Pace pace_, following_pace_;  // of batches, and of those that follow one another
  KvCache cache_;
  uint64_t batch_number_ = 0;     // of the last one that was launched by a plan
  std::unique_ptr<Draft> draft_;  // null: there is none
  Schedule schedule_;
  std::unordered_map<RequestId, std::unique_ptr<Task>> tasks_;
  mutable std::atomic<RequestId> last_id_ = 0;
  std::vector<RequestId> fetching_;  // their first completions are pending until a store has what they begin with
  std::vector<Sequence*> ending_;    // with a requested end
  std::vector<RequestId> finished_;  // all completions have ended: to be removed

  // A sequence's rows in a batch.
  struct Slice {
    Sequence* sequence;  // null: it has ended
    uint32_t rows;       // of known tokens; those that it proposed follow
    uint32_t first_row = 0;
    uint32_t outputs = 0, states = 0;
    bool picks = false;        // a token after its last row
    uint32_t constrained = 0;  // outputs that the device picks for, among tokens that a constraint allows
  };
  // The batch that was planned and those that follow it, each with the tokens that the one before picked.
  struct Flight {
    std::vector<Slice> slices;
    uint32_t batches = 1;  // that may be launched
    uint32_t launched = 0, taken = 0;
    bool constrained = false;  // batches pick when the host has said which tokens are allowed
    uint32_t allowed = 0;      // batches for which it has
    bool closing = false;      // no more are launched
    Load load;                 // of the planned batch
  } flight_;
  Schedule::Bet bet_;                      // on proposals after the batch whose result was taken
  model::Batch batch_;                     // the planned one
  std::vector<uint32_t> logits_rows_;      // per output: its row in the result's logits, unless the device picks
  uint32_t logits_wanted_ = 0;             // rows of logits that the batch sends
  std::vector<grammar::TokenMask> masks_;  // of a batch
  model::Result result_;
  std::vector<Sequence*> forked_;
  double tokens_at_ = 0;  // when the tokens of the last result arrived

  struct {
    double start = 0;
    double device = 0, emitting = 0, scoring = 0;  // seconds in the backend, in callbacks, with the logits of prompts
    double drafting = 0;  // seconds in the backend of the draft, which are not part of `device`
    uint32_t rows = 0, sequences = 0;
  } step_;                          // in progress
  std::vector<Sequence*> in_step_;  // with rows in it
  // Counts its lifetime as time in the backend.
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
};

}  // namespace heddle::engine
