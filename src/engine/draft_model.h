// Speculative decoding with a second model: a small one, on the same device, reads what the large one reads and picks
// what may come next.
#pragma once
#include "engine/draft.h"

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

class ModelDraft : public Draft {
 public:
  // What `with` refers to must outlive it. `prefix_cache`: sequences that begin alike share what is computed of them,
  // unless the draft has recurrent states, of which it takes no snapshots.
  ModelDraft(const DraftModel& with, bool prefix_cache, std::function<double()> now);

  bool is_behind(const Sequence& s) const override;
  // Not if the device has failed, or the sequence is longer than the draft's context.
  bool can_propose(const Sequence& s) const override;
  void release(Sequence& s) override;  // its blocks, which others can find until they are evicted
  void check_holders(std::span<const Sequence* const> all) const override;

 private:
  bool prepare(Sequence& s, uint32_t& count) override;
  void plan_rows(double catch_up) override;
  void add_rows(Active& a, uint32_t sequence) override;
  uint32_t fed(const Sequence& s) const override;
  void feed_proposal(Sequence& s) override;
  std::vector<uint32_t>& table(Sequence& s) const override;
  void copy_states() override;
  void end(Sequence& s) override { publish(s); }

  bool has_states() const { return slots_.count() > 0; }
  bool take_slots(DraftTable& t);
  void keep_right(Sequence& s) const;
  void reuse_blocks(Sequence& s);
  void publish(Sequence& s);
  bool shares(const Sequence& s) const;
  std::span<const uint32_t> block_of(const Sequence& s, uint32_t block) const;

  const uint32_t context_;
  const bool prefix_cache_;
  KvBlocks blocks_;
  StateSlots slots_;
};

}  // namespace heddle::engine
