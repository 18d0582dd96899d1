// The KV cache in blocks. KvBlocks allocates them, shares them by reference counts, and finds them again by the tokens
// they were computed from; KvCache keeps the block tables of sequences, and the slots of their recurrent states.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/block_pool.h"
#include "engine/kv_observer.h"
#include "engine/kv_store.h"
#include "engine/state_slots.h"
#include "engine/window_blocks.h"
#include "model/backend.h"

namespace heddle::engine {

// A block is held by any number of sequences. One that no sequence holds is empty, or cached: it keeps its contents,
// and can be found, until it is evicted.
class KvBlocks {
 public:
  using Hash = uint64_t (*)(uint64_t before, std::span<const uint32_t> tokens);
  static uint64_t hash_of(uint64_t before, std::span<const uint32_t> tokens);

  KvBlocks(uint32_t count, uint32_t block_tokens, Hash hash = hash_of);

  uint32_t count() const { return pool_.count(); }
  uint32_t cached() const { return pool_.cached(); }
  uint32_t free() const { return pool_.free(); }  // that allocate() can return
  uint32_t holders(uint32_t block) const { return pool_.holders(block); }

  // An empty block, or else the one that was cached first, which is evicted. Held once. Unset: all are held.
  std::optional<uint32_t> allocate() {
    return pool_.allocate([this](uint32_t block) {
      if (on_evict_) on_evict_(block);
      forget(block);
    });
  }
  void hold(uint32_t block) { pool_.hold(block); }  // adds a holder
  // Removes a holder. A sequence drops its last block first: the later blocks of a text are then evicted before the
  // earlier ones, without which they could not be found.
  void drop(uint32_t block) {
    pool_.drop(block, findable(block) ? BlockPool::Then::evict_last : BlockPool::Then::empty);
  }

  // A number for a text of whole blocks. No two texts have the same number, and no number is used again: a block found
  // by the prefix before it and by its own tokens follows exactly the text that was asked for.
  using Prefix = uint64_t;
  static constexpr Prefix empty_prefix = 0;
  static constexpr Prefix long_prefix = ~Prefix(0);  // the empty one of texts that Model::short_text calls long
  struct Found {
    uint32_t block;
    Prefix prefix;  // that ends with the block
  };
  // The whole block with these tokens after that prefix. It is not held yet.
  std::optional<Found> find(Prefix before, std::span<const uint32_t> tokens) const;
  // The block after that prefix that shares the most leading tokens with these, at least one: they can be copied.
  struct Match {
    uint32_t block, tokens;  // tokens: how many are the same
  };
  std::optional<Match> find_partial(Prefix before, std::span<const uint32_t> tokens) const;

  // Makes the block findable. Returns another block if one with the same tokens was published before.
  Found publish(uint32_t block, Prefix before, std::span<const uint32_t> tokens);
  // For a block that is not whole: makes it findable by find_partial(), unless another block has as many of its tokens.
  void publish_partial(uint32_t block, Prefix before, std::span<const uint32_t> tokens);
  void forget(uint32_t block);  // makes it unfindable: its contents cannot be trusted
  bool findable(uint32_t block) const { return each_[block].tokens > 0; }
  // Called with a block that is evicted or forgotten, and with the text that ends with it if it is whole: they cannot
  // be found any more.
  void on_forget(std::function<void(uint32_t, std::optional<Prefix>)> call) { on_forget_ = std::move(call); }
  void observe(KvObserver* observer) { observer_ = observer; }  // or null

  // Called with a block that is evicted, before it is forgotten.
  void on_evict(std::function<void(uint32_t)> call) { on_evict_ = std::move(call); }
  bool whole(uint32_t block) const { return each_[block].tokens == block_tokens_; }  // it can be found by find()
  Prefix prefix_of(uint32_t block) const { return each_[block].prefix; }             // of a whole one

  // For tests: throws std::logic_error if anything is counted wrongly. `holders`: of each block, as the caller counts
  // them.
  void check_holders(std::span<const uint32_t> holders) const;

 private:
  struct Block {
    uint32_t tokens = 0;  // by which it can be found: a whole block, or fewer; 0: not findable
    Prefix prefix = empty_prefix, before = empty_prefix;
    uint64_t hash = 0, first_hash = 0;  // of all its tokens, and of the first
  };

  std::span<const uint32_t> tokens_of(uint32_t block) const {
    return std::span(tokens_).subspan(size_t(block) * block_tokens_, each_[block].tokens);
  }
  void make_findable(uint32_t block, Prefix before, std::span<const uint32_t> tokens);

  uint32_t block_tokens_;
  Hash hash_;
  BlockPool pool_;  // cached: those that can be found
  std::vector<Block> each_;
  std::vector<uint32_t> tokens_;                          // (count, block_tokens), of those that can be found
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;   // whole blocks
  std::unordered_multimap<uint64_t, uint32_t> by_first_;  // all that can be found, by the hash of their first token
  Prefix last_prefix_ = empty_prefix;
  std::function<void(uint32_t, std::optional<Prefix>)> on_forget_;
  std::function<void(uint32_t)> on_evict_;
  KvObserver* observer_ = nullptr;
};

// A store beyond a cache.
struct BeyondCache {
  KvStore* store = nullptr;  // null: there is none
  TextHash root, long_root;  // of empty texts, with all that bytes depend on; the second of long ones
  // Whether the model has no bytes in these: blocks, where all its attentions have windows or it has none.
  bool no_blocks = false;
  bool is_empty(model::KvPart part) const { return no_blocks && part == model::KvPart::block; }
};

struct Sequence;

// The block tables of sequences: grown, shared with sequences that begin alike, and released.
//
// Of models with recurrent states, a sequence that runs also holds a slot for its state. Such a model needs the state
// after a prefix besides its blocks, so prefixes are reused up to a snapshot. Slots and blocks are one cache with two
// kinds of room: a snapshot is dropped when its slot is needed, the one used least recently first, or when the block
// that it follows is evicted.
//
// With Limits::window_blocks, a sequence has a second table, of blocks for the attentions that see a window of it. What
// no later token sees goes back. A prefix is reused where the cache has all that the next token sees of it.
class KvCache {
 public:
  // `prefix_cache`: sequences that begin alike share what is computed of them.
  // `observer`: of its whole blocks, if not null; must outlive this.
  KvCache(const model::Limits& limits, const model::Windows& windows, bool prefix_cache, const BeyondCache& beyond = {},
          KvObserver* observer = nullptr);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  const KvBlocks& blocks() const { return blocks_; }
  const WindowBlocks& windows() const { return windows_; }
  const StateSlots& slots() const { return slots_; }
  uint64_t snapshots_found() const { return snapshots_found_; }  // by sequences that began with them
  bool has_states() const { return slots_.count() > 0; }
  bool has_windows() const { return windows_.count() > 0; }
  uint32_t blocks_for(uint32_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }
  // Of every kind of place in the cache, a number.
  struct Room {
    uint64_t blocks = 0, windows = 0, slots = 0;
    Room operator+(const Room& b) const { return {blocks + b.blocks, windows + b.windows, slots + b.slots}; }
    // What is left of these without those of b; 0 where b has more.
    Room without(const Room& b) const {
      return {blocks - std::min(blocks, b.blocks), windows - std::min(windows, b.windows),
              slots - std::min(slots, b.slots)};
    }
    bool fits_into(const Room& b) const { return blocks <= b.blocks && windows <= b.windows && slots <= b.slots; }
  };
  Room free() const { return {blocks_.free(), windows_.free(), slots_.free()}; }
  Room room_for(uint32_t tokens) const;        // that a sequence with this many known tokens takes, between two batches
  Room room_of(const Sequence& s) const;       // that it has
  Room room_to_grow(uint32_t count) const;     // a block of each kind for as many sequences, and the rows of a batch
  uint32_t min_window_blocks() const;          // with which one sequence always fits
  uint32_t capacity(const Sequence& s) const;  // positions
  bool shares(const Sequence& s) const;        // takes part in the prefix cache

  // To a capacity of `tokens`. False: every block is held; those that could be allocated stay in its table.
  bool grow(Sequence& s, uint32_t tokens);
  void trim(Sequence& s);     // to the blocks that its known tokens need
  void release(Sequence& s);  // all blocks, and its slot: none of its tokens is computed any more
  void forget(Sequence& s);   // its blocks cannot be trusted

  // At the end of a block: shares the whole blocks that come next, as far as they are in the cache and nothing but
  // their KV is wanted. At least one token is left to compute, for its logits. With recurrent states: up to the last
  // snapshot among them, from anywhere in a block.
  void reuse_blocks(Sequence& s);
  bool can_reuse_next(const Sequence& s) const;  // whether the next whole block would be shared if it were in the cache
  // A number for the contents of the block that it computes next; 0: that block is not shared.
  uint64_t next_block(const Sequence& s) const;
  // If the next whole block is not in the cache: copies the block that shares the most leading tokens with it, unless
  // there are recurrent states.
  void reuse_partial(Sequence& s);
  struct Copy {
    uint32_t from = 0, to = 0;
    KvBytes bytes = {};  // where there are any, they are written instead
  };
  // To be made before the next batch, in order: of blocks, of blocks of windows, of slots. Each is there until it was
  // made.
  std::deque<Copy>& copies(model::KvPart part) {
    return part == model::KvPart::block ? copies_ : part == model::KvPart::window ? window_copies_ : state_copies_;
  }
  void publish(Sequence& s);  // the whole blocks that it has computed, and its snapshot after them

  // `to` starts with what `from` has computed and shares its whole blocks. A last block that is not whole has to be
  // copied, and so has the state. False: there is no block for the copy, or no slot, and `to` is empty.
  struct Copies {
    std::optional<Copy> block, window;
  };
  bool fork(const Sequence& from, Sequence& to, Copies& copies);

  // Of models with recurrent states; copies are of slots. kv_cache_states.cpp defines these.
  //
  // A slot for a sequence that is admitted, with the snapshot after what it reuses. False: all are held.
  bool take_slot(Sequence& s);
  // The next position at which a batch should end, because the state after it is worth a snapshot. UINT32_MAX: none is.
  uint32_t next_snapshot(const Sequence& s) const;
  // After the launch of a batch that leaves the state at `position`: whether the state is to be copied now. The copy
  // becomes a snapshot when publish() finds these tokens computed.
  std::optional<Copy> begin_snapshot(Sequence& s, uint32_t position);
  // Before a batch with proposals: a slot for a copy of the state, which the caller makes. False: all are held.
  bool reserve_copy(Sequence& s);
  // After that batch. Where not all of its proposals were right, the sequence goes back to the copy: the tokens since
  // are computed again.
  void settle_proposals(Sequence& s, bool all_right);
  void drop_copy(Sequence& s);  // there was no such batch, or the sequence has ended

  // With a store beyond it; kv_cache_store.cpp defines these.
  //
  // What a sequence that waits could begin with, but is elsewhere.
  std::vector<KvKey> wanted_elsewhere(const Sequence& s) const;
  // The same, if another process has all of its text: what is neither in the cache nor in memory.
  std::vector<KvKey> wanted_of_prompt(const Sequence& s) const;
  // For a sequence that is being admitted, behind reuse_blocks(): what the store has in memory of its text. There is
  // room for all its known tokens.
  void restore(Sequence& s);
  uint64_t restored() const { return restored_; }  // blocks and states so far
  struct Kept {
    model::KvPlace place;
    KvKey key;
  };
  // What was evicted: to be read before copies are made, and before the next batch.
  std::vector<Kept> take_evicted() { return std::exchange(evicted_, {}); }
  // What another process needs to go on with its prompt.
  std::vector<Kept> kept_of_prompt(const Sequence& s) const;
  // Of what was computed and is not in a store that lasts, the next; about `count`. Empty: there is no more.
  std::vector<Kept> next_unsaved(size_t count);

  void check_holders(std::span<const Sequence* const> all) const;

 private:
  // What a sequence can begin with, beyond its own blocks.
  struct Reach {
    struct Next {
      std::optional<KvBlocks::Found> found;  // unset: the cache does not have it
      KvBytes block, window;                 // of the store, where the cache does not have them
    };
    uint32_t blocks;              // in all
    std::vector<Next> next = {};  // those that it does not hold
    KvBytes state = {};           // after these
  };
  Reach reach_of(const Sequence& s, bool anywhere) const;
  bool has_windows_for(const Sequence& s, const Reach& reach) const;
  uint32_t seen_window(const Reach::Next& next);
  const TextHash& text_of(const Sequence& s, uint32_t block) const;  // up to the end of the block
  void watch_evictions();
  void add_evicted(model::KvPlace place, const TextHash& text);
  void check_texts(std::span<const Sequence* const> all) const;

  void publish_last(Sequence& s);
  void share_block(Sequence& s, const KvBlocks::Found& found, bool seen);
  void copy_snapshot(Sequence& s);
  void keep_snapshots(Sequence& s);
  void drop_unconfirmed(Sequence& s);
  void release_slots(Sequence& s);
  void check_slots(std::span<const Sequence* const> all) const;
  std::span<const uint32_t> tokens_of(const Sequence& s, uint32_t block) const;

  // Of models with blocks of windows; kv_cache_windows.cpp defines these.
  uint32_t first_block_seen(uint32_t position) const { return sights_.first_seen(position) / block_tokens_; }
  bool worth_keeping(const Sequence& s, uint32_t block) const;
  void publish_window(Sequence& s, uint32_t block);
  void slide_window(Sequence& s);
  void release_windows(Sequence& s);
  void check_windows(std::span<const Sequence* const> all) const;

  // Tokens that the next turn of a conversation may not have: templates end a prompt with the beginning of the answer,
  // an empty thought for example, and leave that out of the answers of earlier turns.
  static constexpr uint32_t answer_beginning = 8;

  KvBlocks blocks_;
  model::Windows sights_;
  WindowBlocks windows_;
  StateSlots slots_;
  uint32_t block_tokens_, rows_;
  bool prefix_cache_;
  std::deque<Copy> copies_, window_copies_, state_copies_;  // to be made
  uint64_t snapshots_found_ = 0;
  BeyondCache beyond_;
  KvObserver* observer_;
  std::vector<TextHash> texts_;  // up to the end of each whole block, where there is a store
  std::vector<Kept> evicted_;
  std::deque<std::pair<uint32_t, TextHash>> unsaved_;  // blocks that were computed, the first one first
  uint64_t restored_ = 0;
};

}  // namespace heddle::engine
