// Speculative decoding with a second model: a small one, on the same device, reads what the large one reads and picks
// what may come next, as the sampler of the sequence would from its logits. The large one verifies it.
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

struct DraftModel;

// What the draft has computed of a sequence.
struct DraftTable {
  std::vector<uint32_t> blocks;                      // of the draft's own KV cache
  uint32_t computed = 0;                             // known tokens, from the first on
  std::vector<uint32_t> guessed;                     // computed after these: proposals that may turn out to be right
  uint32_t published = 0;                            // the first blocks, which others can find
  KvBlocks::Prefix prefix = KvBlocks::empty_prefix;  // of these
  // Of a draft with recurrent states, slots of its own: the state after all of these, and a copy from before the
  // guesses, after `before_computed` tokens. Both are held, or neither.
  uint32_t slot = StateSlots::none, before = StateSlots::none;
  uint32_t before_computed = 0;

  uint32_t fed() const { return computed + uint32_t(guessed.size()); }
};

class Draft {
 public:
  // What `with` refers to must outlive it. `prefix_cache`: sequences that begin alike share what is computed of them,
  // unless the draft has recurrent states, of which it takes no snapshots.
  Draft(const DraftModel& with, bool prefix_cache, std::function<double()> now);

  struct Wanted {
    Sequence* sequence;
    uint32_t count;  // tokens, at least 1
  };
  // Sets Sequence::proposed, to up to as many tokens as are wanted. Tokens that the draft has not seen, such as a
  // prompt, are computed first, as far as `catch_up` seconds go; a sequence for which that is not enough gets its
  // proposals in a later call. All together takes about `seconds` at most. Returns the seconds it took.
  double propose(std::span<const Wanted> wanted, double catch_up, double seconds);
  bool is_behind(const Sequence& s) const;  // it has to catch up before it can propose
  // Not if the device has failed, or the sequence is longer than the draft's context.
  bool can_propose(const Sequence& s) const;
  void release(Sequence& s);  // its blocks, which others can find until they are evicted

  double seconds_for(const Load& streams) const;  // a token of each of these sequences; 0: not measured
  uint32_t max_proposals() const { return max_proposals_; }
  uint64_t faults() const { return faults_; }                      // calls that failed and proposed nothing
  void check_holders(std::span<const Sequence* const> all) const;  // for tests

 private:
  struct Active {
    Sequence* sequence;
    uint32_t count;                                   // tokens wanted
    uint32_t rows = 0;                                // in the next batch
    bool picks = false;                               // a token after the last of them
    std::optional<Sampler> sampler{};                 // where the host picks
    std::optional<grammar::Constraint> constraint{};  // after the proposals
    grammar::TokenMask allowed{};                     // with a constraint: the tokens of the next pick
  };

  bool has_states() const { return slots_.count() > 0; }
  bool prepare(Sequence& s, uint32_t& count);
  bool take_slots(DraftTable& t);
  void keep_right(Sequence& s) const;
  void reuse_blocks(Sequence& s);
  void publish(Sequence& s);
  bool shares(const Sequence& s) const;
  std::span<const uint32_t> block_of(const Sequence& s, uint32_t block) const;
  void plan_rows(double catch_up);
  void compute(double seconds);
  void add_rows(Active& a, uint32_t sequence);
  std::optional<model::Picking> picking_of(const Sequence& s) const;
  uint32_t batches_ahead(double seconds) const;
  void launch_rows();
  void copy_states();
  void allow_tokens();
  void take_picks();
  void add_pick(Active& a, const std::optional<model::Picked>& picked, std::span<const float> logits);

  const model::Model& model_;
  model::Backend& backend_;
  const model::Limits limits_;
  const uint32_t max_proposals_, context_;
  const bool prefix_cache_;
  const std::function<double()> now_;
  KvBlocks blocks_;
  StateSlots slots_;
  Pace pace_, following_pace_;  // of batches, and of those that follow one another
  uint64_t faults_ = 0;

  std::vector<Active> active_;  // sequences that get more rows in this call
  model::Batch batch_;
  Load load_;  // of the batch
};

}  // namespace heddle::engine
