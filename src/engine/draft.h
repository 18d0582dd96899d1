// Speculative decoding with a model's logits: what may come next is picked as the sampler of the sequence would, from a
// second model (draft_model.h) or from a head of the large one (draft_head.h). The large one verifies it.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/pace.h"
#include "engine/sampling/sampler.h"
#include "grammar/constraint.h"
#include "model/backend.h"

namespace heddle::engine {

class Draft {
 public:
  virtual ~Draft() = default;
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  struct Wanted {
    Sequence* sequence;
    uint32_t count;  // tokens, at least 1
  };
  // Sets Sequence::proposed, to up to as many tokens as are wanted. Tokens that the draft has not seen, such as a
  // prompt, are computed first, as far as `catch_up` seconds go; a sequence for which that is not enough gets its
  // proposals in a later call. All together takes about `seconds` at most. Returns the seconds it took.
  double propose(std::span<const Wanted> wanted, double catch_up, double seconds);
  virtual bool is_behind(const Sequence& s) const = 0;  // it has to catch up before it can propose
  virtual bool can_propose(const Sequence& s) const = 0;
  virtual void release(Sequence&) {}  // what it holds of the sequence

  double seconds_for(const Load& streams) const;  // a token of each of these sequences; 0: not measured
  uint32_t max_proposals() const { return max_proposals_; }
  uint64_t faults() const { return faults_; }                            // calls that failed and proposed nothing
  virtual void check_holders(std::span<const Sequence* const>) const {}  // for tests

 protected:
  struct Active {
    Sequence* sequence;
    uint32_t count;                                   // tokens wanted
    uint32_t rows = 0;                                // in the next batch
    uint32_t first_row = 0;                           // of these, in the last one
    bool picks = false;                               // a token after the last of them
    std::optional<Sampler> sampler{};                 // where the host picks
    std::optional<grammar::Constraint> constraint{};  // after the proposals
    grammar::TokenMask allowed{};                     // with a constraint: the tokens of the next pick
  };

  Draft(const model::Model& model, model::Backend& backend, const model::Limits& limits, uint32_t max_proposals,
        std::function<double()> now);

  // False: the draft cannot propose for it. `count` is cut to what there is room for.
  virtual bool prepare(Sequence& s, uint32_t& count) = 0;
  virtual void plan_rows(double catch_up) = 0;  // the first batch: sets the rows of active_, and load_
  // To batch_: the rows of a sequence that is the `sequence`th of the batch.
  virtual void add_rows(Active& a, uint32_t sequence) = 0;
  virtual uint32_t fed(const Sequence& s) const = 0;            // tokens that were computed, proposals included
  virtual void feed_proposal(Sequence&) {}                      // the last one was computed by a batch that followed
  virtual std::vector<uint32_t>& table(Sequence& s) const = 0;  // its block table
  virtual void settle_cache() {}                                // before a batch, where it writes to a cache of others
  virtual void copy_states() {}                                 // after the launch of a batch
  virtual void end(Sequence&) {}                                // of a call

  void add_row(uint32_t token, uint32_t position, uint32_t sequence);
  void pick_after_last_row(Active& a);  // the sequence's rows are in batch_, and the next token is picked

  const model::Model& model_;
  model::Backend& backend_;
  const model::Limits limits_;
  Pace pace_, following_pace_;  // of batches, and of those that follow one another

  std::vector<Active> active_;  // sequences that get more rows in this call
  model::Batch batch_;
  Load load_;  // of the batch

 private:
  void compute(double seconds);
  std::optional<model::Picking> picking_of(const Sequence& s) const;
  uint32_t batches_ahead(double seconds) const;
  void launch_rows();
  void allow_tokens();
  void take_picks();
  void add_pick(Active& a, const std::optional<model::Picked>& picked, std::span<const float> logits);

  const uint32_t max_proposals_;
  const std::function<double()> now_;
  uint64_t faults_ = 0;
};

}  // namespace heddle::engine
