// A request in the engine (Task), its completions (Sequence: a list of known tokens, of which the first ones are
// computed), and what it wants of its prompt besides the KV (PromptResults).
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/draft_model.h"
#include "engine/kv_cache.h"
#include "engine/request.h"
#include "engine/speculation.h"
#include "grammar/constraint.h"
#include "model/backend.h"

namespace heddle::engine {

// What a request wants of its prompt besides the KV: logits or log-probabilities of its tokens, or its states pooled to
// an embedding. Rows are added in order, each once, however often they are computed.
class PromptResults {
 public:
  PromptResults(const Request& request, const model::Model& model);

  // Rows that still need logits or states: [from, to). If tokens are generated, the logits of the last row are
  // for the first of them, and not among these.
  struct Range {
    uint32_t from = 0, to = 0;
    bool contains(uint32_t row) const { return row >= from && row < to; }
    bool empty() const { return from >= to; }
  };
  Range logits() const { return logits_; }
  Range states() const { return pooled_; }
  // The first row that is still wanted; UINT32_MAX: no row is.
  uint32_t next() const;

  void add_logits(const Request& request, std::span<const float> logits);  // of row logits().from; throws as score()
  void add_state(std::span<const float> state);                            // of row states().from

  // For Event::prompt_picks: null if they were not asked for, or are incomplete.
  std::shared_ptr<const std::vector<Pick>> scores() const { return logits_.empty() ? scores_ : nullptr; }
  std::vector<float> embedding() const;  // for Event::embedding; empty if it was not asked for
  std::vector<float> labels() const;     // what the classifier says of each; empty if it was not asked for

 private:
  std::vector<float> mean() const;

  const model::Model* model_;
  bool embeds_ = false, pools_ = true, ranks_ = false;
  std::shared_ptr<std::vector<Pick>> scores_;
  Range logits_, pooled_;      // rows to be added
  std::vector<double> sum_;    // of the states pooled
  uint32_t added_ = 0;         // of them
  std::vector<float> states_;  // of all tokens, if they are not pooled
};

struct Sequence;
struct Client;

// The recurrent state of a sequence, if the model has any. All slots that it names are held by the sequence.
struct Recurrent {
  uint32_t slot = StateSlots::none;    // while it runs: the state after its computed tokens
  uint32_t before = StateSlots::none;  // with proposals in the batch: a copy of the state before it,
  uint32_t before_computed = 0;        // after this many tokens
  uint32_t again = 0;                  // tokens to compute again, because proposals after them were wrong

  // Snapshots.
  struct Unconfirmed {
    uint32_t position, slot;
  };
  std::vector<Unconfirmed> unconfirmed = {};  // copies of the state after batches with pending results
  uint32_t last = 0;                          // the position of the last one that it has taken or found
  KvBytes restored = {};                      // until it has a slot: the state that it begins with
  StateSlots::Prefix tail = 0;                // the last one after generated tokens, which the next one replaces
};

// A request in the engine.
struct Task {
  Task(Request wanted, const model::Model& model) : request(std::move(wanted)), results(request, model) {}

  RequestId id = 0;
  const Request request;
  PromptResults results;
  OnEvent on_event;
  double arrival = 0;
  std::optional<double> started;  // when its first row was computed
  std::vector<std::unique_ptr<Sequence>> completions;
  uint32_t open = 0;               // completions that have not ended
  std::unique_ptr<KvFetch> fetch;  // of what its prompt can begin with, until it is admitted
  double fetching_since = 0;

  bool generates() const { return request.generates(); }
  uint32_t prompt_tokens() const { return uint32_t(request.prompt.size()); }
};

// One completion of a request.
struct Sequence {
  enum class State : uint8_t {
    pending,  // waits for the first completion to compute the prompt
    waiting,  // holds no blocks
    running,
    finished,
  };
  struct End {
    FinishReason finish_reason;
    std::string reason;
  };

  Sequence(Task& of, uint32_t number, Sampler with);

  Task& task;
  const uint32_t index;  // of the completion
  State state = State::pending;
  Client* client = nullptr;          // set by the schedule
  double deadline = 0;               // orders a client's sequences, promises nothing: the earliest is computed first
  std::optional<End> requested_end;  // by cancel() or finish(); carried out in the next step

  // Picking.
  Sampler sampler;
  // How a device picks as the sampler would, without the text and the number of picks; unset: it cannot.
  std::optional<model::Picking> picking;
  std::optional<grammar::Constraint> constraint;  // after all its tokens
  std::vector<bool> stuck;  // where the device picks, by the number of proposals before: no token is allowed

  // Tokens.
  std::vector<uint32_t> tokens;  // known
  uint32_t computed = 0;         // the first of them; always fewer
  uint32_t generated = 0, cached_tokens = 0;
  uint64_t planned_step = 0;    // the last one it had rows in
  uint32_t admitted_known = 0;  // known tokens when it was admitted last

  // Speculation.
  bool speculates = false, always_speculates = false;
  std::vector<uint32_t> proposed;                                                        // for this step
  enum class Proposer : uint8_t { lookup, draft, grammar } proposer = Proposer::lookup;  // of these
  PromptLookup lookup;
  Payoff payoff, draft_payoff;        // of lookups, and of the draft
  Payoff forced_payoff{16, 0.9};      // of what the grammar forces, which may also be written in shorter tokens
  std::vector<uint32_t> forced = {};  // see forced_tokens()
  uint32_t forced_known = 0;          // for this many known tokens
  DraftTable draft;
  // The model's result of the token before the last known one: the batch that computed it, and its row there.
  struct {
    uint64_t batch = 0;
    uint32_t row = 0;
  } result;

  // KV blocks.
  std::vector<uint32_t> blocks;                      // the block table
  uint32_t published = 0;                            // the first blocks, which others can find
  KvBlocks::Prefix prefix = KvBlocks::empty_prefix;  // of these
  mutable std::vector<TextHash> texts;               // of no block, the first, the first two: as far as was asked for
  mutable bool long_texts = false;                   // they are those of a long text
  uint32_t parting = 0;                              // up to this position the cache had the blocks of its text
  std::vector<uint32_t> windows;  // the block table of windows, as long as `blocks`; none: no token sees it any more
  uint32_t first_window = 0;      // before this one all are none
  // Longer than Model::short_text: its keys are rotated otherwise, so it shares none with texts that are not.
  bool long_text = false;
  Recurrent recurrent;

  // Times.
  double first_token_at = 0, last_token_at = 0;
  Timing timing;                                 // of the steps so far; the rest is filled in at the end
  std::shared_ptr<std::vector<StepTime>> steps;  // if they were asked for
  StepTime step;                                 // in progress
  bool in_step = false;

  uint32_t ordinal() const { return task.request.ordinal + index; }  // 0: the first that was asked for
  uint32_t known() const { return uint32_t(tokens.size()); }
  uint32_t behind() const { return known() - computed; }
  bool is_worth_its_prompt() const { return known() >= 2 * admitted_known; }  // what it was admitted with has doubled
  // The first row of which more than its KV is wanted: rows before it can come from the prefix cache.
  uint32_t next_wanted() const { return std::min(known() - 1, task.results.next()); }
  // Its reader waits for the next token, which is picked after one row, and those of tokens to compute again.
  bool streaming() const { return generated > 0 && behind() == 1 + recurrent.again; }

  void share_prompt(const Sequence& first);      // which has computed it
  void index_prompt();                           // for speculation: once, before its first token
  void accept(uint32_t token);                   // a generated one; an Error if its constraint forbids it
  const std::vector<uint32_t>& forced_tokens();  // that its constraint leaves no choice but to generate
  bool lookup_proposes() const;                  // a token that its constraint allows
  void cut_proposals();                          // at the first that its constraint forbids, or that ends it
  // Where `picking` is set: how a device picks the token after the first `proposals` of those proposed.
  model::Picking picking_after(uint32_t proposals) const;
  std::optional<FinishReason> finish_reason(uint32_t context) const;
  Timing timing_at(double end) const;
};

// Which sequence keeps its blocks when there are not enough for all: the higher priority, then the earlier arrival.
inline bool outranks(const Sequence& a, const Sequence& b) {
  if (a.task.request.priority != b.task.request.priority) return a.task.request.priority > b.task.request.priority;
  if (a.task.id != b.task.id) return a.task.id < b.task.id;
  return a.index < b.index;
}
// Which sequence of a client is computed first when there is not enough time for all.
struct Earlier {
  bool operator()(const Sequence* a, const Sequence* b) const {
    if (a->deadline != b->deadline) return a->deadline < b->deadline;
    if (a->task.id != b->task.id) return a->task.id < b->task.id;
    return a->index < b->index;
  }
};

}  // namespace heddle::engine
