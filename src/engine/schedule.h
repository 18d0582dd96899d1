// Which sequences are computed in the next batch, and how many rows of each.
#pragma once
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/draft.h"
#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/pace.h"
#include "engine/sequence.h"
#include "engine/stream_turns.h"

namespace heddle::engine {

// A sequence's rows in a batch: `rows` of its known tokens, then those it proposed.
struct Planned {
  Sequence* sequence;
  uint32_t rows;
  bool picks() const { return sequence->computed + rows == sequence->known(); }
};

// A client's sequences, and what it has had of the device.
struct Client {
  std::set<Sequence*, Earlier> waiting;
  size_t pending = 0, running = 0;  // sequences
  double served = 0;                // seconds of the device: its part of each batch
  bool idle() const { return waiting.empty() && pending == 0 && running == 0; }

  // In the plan that is being made:
  double turn = 0;                  // the lowest goes first
  uint64_t held = 0;                // by its running sequences: blocks, and slots as Schedule::slot_blocks_ says
  const Sequence* first = nullptr;  // of these: the last to be preempted
  std::vector<Sequence*> prompts;   // that are running, by deadline
  size_t next_prompt = 0;           // of these, in this plan
  const Sequence* next() const;     // the earliest prompt, running or waiting; null: none
};

// Streams come first, one row each, because their readers wait. Prompts get what is left of the time that a stream may
// stall, whether they are running or waiting; a waiting one is admitted when there is time for it and then memory.
// Proposals get what prompts leave.
//
// Clients take turns with their prompts: the one that has had the least of the device goes first. A client that was
// idle begins where the others are on average, less a head start, so unused time does not accumulate, and later clients
// cannot overtake it forever. Of a client's own prompts, the earliest deadline goes first, and deadlines do not move. A
// sequence that cannot be admitted for lack of memory keeps all behind it waiting, unless others have to make way for
// it: those of a client that holds twice as much or more, and later ones of completions that were asked for together.
// So no request waits forever. Nor do two wait for each other: there is always a sequence that may take the blocks of
// all others, and one sequence alone always fits.
class Schedule {
 public:
  // `short_text`: Model::short_text.
  Schedule(const model::Limits& limits, const EngineOptions& options, uint32_t context, uint32_t short_text,
           KvCache& cache, Pace& pace, Pace& following_pace, Draft* draft, bool whole_prompts, bool rows_in_groups)
      : limits_(limits),
        max_stall_(options.max_stall),
        max_scored_(options.max_prompt_logits),
        context_(context),
        short_text_(short_text),
        cache_(cache),
        pace_(pace),
        following_pace_(following_pace),
        draft_(draft),
        whole_prompts_(whole_prompts),
        rows_in_groups_(rows_in_groups),
        slot_blocks_(limits.state_slots ? std::max(1u, limits.kv_blocks / limits.state_slots) : 0) {}

  void arrive(Sequence& s);  // first of all, and once: it is pending
  void wait(Sequence& s);
  void run(Sequence& s);     // its blocks are allocated
  void remove(Sequence& s);  // from those that are pending, waiting or running

  size_t waiting() const { return waiting_; }
  Queue queue() const;                                             // with those that are pending
  std::span<Sequence* const> running() const { return running_; }  // the highest in rank first
  uint64_t preemptions() const { return preemptions_; }

  // The next batch, with blocks allocated for it. Empty: there is nothing to compute.
  std::span<const Planned> plan();
  bool long_texts() const { return long_texts_; }  // whether those of the plan are
  const Load& load() const { return load_; }       // of the plan
  // Whether the plan has a row of each running sequence, all are streams, and nothing waits.
  bool only_streams() const;
  double drafting() const { return drafting_; }  // seconds that the draft took for the plan
  // How many tokens to propose for a sequence, at the price they have in such a batch, and where they come from.
  struct Proposals {
    uint32_t count = 0;
    Sequence::Proposer by = Sequence::Proposer::lookup;
    // Of a lookup or a grammar:
    double gain = 0;     // tokens that are expected of them, less what their rows cost
    bool tries = false;  // they are to learn whether proposals pay again
    bool always = false;
  };
  Proposals next_proposals(Sequence& s) const;
  // Those of all streams of a batch together. A batch with proposals is slower for all its streams, however few have
  // any: batches cannot follow one another then.
  class Bet {
   public:
    void add(const Proposals& p) {
      if (p.count == 0) return;
      any_ = true;
      gain_ += p.gain;
      tries_ |= p.tries;
      always_ |= p.always || p.by == Sequence::Proposer::draft;  // a draft has its own price, which counts all streams
    }

   private:
    friend class Schedule;
    double gain_ = 0;
    bool any_ = false, tries_ = false, always_ = false;
  };
  bool pays(const Bet& bet) const;
  // How long the plan's batch took.
  void learn(const Load& load, double seconds);
  void learn_following(const Load& load, double seconds);  // of a batch that followed another
  // The time spent on the logits of prompt rows, which is not part of the pace of batches.
  void learn_scoring(double seconds, uint32_t rows);

 private:
  bool is_long(const Sequence& s) const { return short_text_ && s.known() > short_text_; }
  void make_plan();
  void begin_long_texts();
  void choose_length();
  void count_clients();
  void make_way();
  bool has_to_make_way(const Sequence& other, const Sequence& s) const;
  Sequence* first_to_make_way(const Sequence& s) const;
  uint64_t held_by(const Sequence& s) const { return s.blocks.size() + slot_blocks_; }
  void plan_streams();
  bool streams_can_take_turns() const;
  void plan_prompts(double seconds);
  Sequence* next_prompt(Client& client, bool& full);
  bool plan_prompt(Sequence& s, double seconds, bool others);
  void plan_proposals(double seconds);
  void plan_drafted(double seconds);
  uint32_t room_for(Sequence& s, uint32_t count);
  void price_proposals();
  void price_draft();
  double proposal_rows() const;
  void add(Sequence& s, uint32_t rows);
  uint32_t scored_within(double seconds) const;
  uint32_t scored_rows(const Sequence& s, uint32_t rows) const;
  uint32_t rows_by_scored(const Sequence& s) const;
  KvCache::Room room_promised() const;
  bool admit(Sequence& s);
  bool make_room(Sequence& s, uint32_t tokens);
  void preempt(Sequence& s);
  void charge(double seconds);
  bool is_planned(const Sequence& s) const { return s.planned_step == step_; }
  bool following_is_to_be_measured() const;
  bool is_being_computed(uint64_t block) const;
  bool awaits_snapshot(const Sequence& s) const;
  uint32_t rows_left() const { return limits_.rows - uint32_t(load_.rows); }

  // Share of the streams' own time that prompts get, however little is left.
  static constexpr double min_extra = 0.25;

  const model::Limits limits_;
  const double max_stall_;
  const uint32_t max_scored_;
  const uint32_t context_, short_text_;
  KvCache& cache_;
  Pace& pace_;
  Pace& following_pace_;       // of batches that follow one another
  Draft* draft_;               // null: there is none
  const bool whole_prompts_;   // a prompt is computed in one batch
  const bool rows_in_groups_;  // Backend::computes_rows_in_groups()
  // What a slot counts for where blocks are compared: the two kinds of room are worth the same. 0: there are no slots.
  const uint64_t slot_blocks_;

  std::unordered_map<uint64_t, Client> clients_;
  std::vector<Client*> turns_;  // those that are not idle, the next one first
  double served_ = 0;           // seconds of the device that a client had if it had its share all along
  size_t waiting_ = 0;          // sequences
  std::vector<Sequence*> running_;
  uint64_t preemptions_ = 0;

  uint64_t step_ = 0;
  std::vector<Planned> plan_;
  bool long_texts_ = false;
  Load load_;
  struct {
    Load load, streams;                  // of all its rows, and of those of streams
    bool follows = false;                // batches like it may follow it
  } plain_;                              // the plan without proposals
  Price price_, draft_price_;            // of a proposal by a lookup, and by the draft
  uint64_t batches_ = 0;                 // so far
  uint64_t might_follow_ = 0;            // plans of streams alone, so far
  uint64_t next_try_ = 0;                // the batch from which on several streams may try again
  double drafting_ = 0;                  // seconds
  std::optional<double> score_seconds_;  // of a row
  double last_with_streams_ = 0;         // seconds that the last batch with streams took
  uint32_t scored_left_ = 0;             // rows with logits of prompts that the batch can still take
  struct Share {
    Client* client;
    uint64_t rows;
  };
  std::vector<Share> shares_;  // of the plan
  std::vector<Sequence*> streams_;
  StreamTurns stream_turns_;
  uint32_t plain_streams_ = 0;  // rows of the plan, if it has nothing but one of each of its streams
  std::vector<Draft::Wanted> drafted_;
  std::vector<uint64_t> being_computed_;  // blocks, by their contents
};

}  // namespace heddle::engine
