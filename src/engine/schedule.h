// Who is computed in the next batch, and how much of it.
#pragma once
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "engine/cache.h"
#include "engine/engine.h"
#include "engine/pace.h"
#include "engine/sequence.h"

namespace heddle::engine {

// A sequence's part of a batch: `rows` of its known tokens, then those it proposed.
struct Planned {
  Sequence* sequence;
  uint32_t rows;
  bool picks() const { return sequence->computed + rows == sequence->known(); }
};

// Streams come first, one row each, so that nobody who reads along has to wait. Prompts get what is left of the time
// that a stream may have to wait, the earliest deadline first, whether they were begun or not: who waits is let in when
// there is time for it, and then memory. What they leave is for guesses.
//
// Nobody waits for ever: a deadline does not move, so that later requests get later ones; and who cannot be let in for
// want of memory keeps all behind it out. Nor do two wait for each other: whoever ranks highest may take the blocks of
// all others, and one alone always fits.
class Schedule {
 public:
  Schedule(const model::Limits& limits, const EngineOptions& options, uint32_t context, Cache& cache, Pace& pace,
           Pace& following_pace)
      : limits_(limits),
        max_stall_(options.max_stall),
        max_scored_(options.max_prompt_logits),
        context_(context),
        cache_(cache),
        pace_(pace),
        following_pace_(following_pace) {}

  void wait(Sequence& s);
  void run(Sequence& s);     // from now on; it has its blocks
  void remove(Sequence& s);  // from wherever it is

  size_t waiting() const { return waiting_.size(); }
  std::span<Sequence* const> running() const { return running_; }  // the highest in rank first
  uint64_t preemptions() const { return preemptions_; }

  // For the next batch, with room in their blocks. Empty: there is nothing to compute.
  std::span<const Planned> plan();
  const Load& load() const { return load_; }  // of that
  // What the log-probabilities of so many rows of prompts took, which is not in the pace of batches.
  void learn_scoring(double seconds, uint32_t rows);
  // Nothing but streams, all of them, and nobody waits.
  bool quiet() const;
  // How many tokens to guess ahead for it, at the price they have in such a batch.
  uint32_t guesses(Sequence& s) const;

 private:
  void plan_streams();
  void plan_prompts(double seconds);
  void plan_guesses(double seconds);
  void price_guesses();
  void add(Sequence& s, uint32_t rows);
  uint32_t scored_within(double seconds) const;
  uint32_t scored_rows(const Sequence& s, uint32_t rows) const;
  uint32_t rows_with_logits(const Sequence& s) const;
  bool let_in(Sequence& s);
  bool make_room(Sequence& s, uint32_t tokens);
  void preempt(Sequence& s);
  bool is_planned(const Sequence& s) const { return s.planned == step_; }
  bool others_compute(uint64_t block) const;
  uint32_t rows_left() const { return limits_.rows - uint32_t(load_.rows); }

  const model::Limits limits_;
  const double max_stall_;
  const uint32_t max_scored_;
  const uint32_t context_;
  Cache& cache_;
  Pace& pace_;
  Pace& following_pace_;  // where a device goes on by itself

  std::set<Sequence*, Earlier> waiting_;
  std::vector<Sequence*> running_;
  uint64_t preemptions_ = 0;

  uint64_t step_ = 0;
  std::vector<Planned> plan_;
  Load load_;
  Price price_;
  std::optional<double> score_seconds_;  // of a row
  uint32_t scored_left_ = 0;             // rows with logits that the batch can still take
  std::vector<Sequence*> streams_, prompts_;
  std::vector<uint64_t> being_computed_;  // by content
};

}  // namespace heddle::engine
