// The blocks of the KV cache: allocated, shared by reference counts, and found again by the tokens they were computed
// from.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace heddle::engine {

// A block is held by any number of sequences. One that no sequence holds is empty, or cached: it keeps its contents,
// and can be found, until it is evicted.
class KvBlocks {
 public:
  using Hash = uint64_t (*)(uint64_t before, std::span<const uint32_t> tokens);
  static uint64_t hash_of(uint64_t before, std::span<const uint32_t> tokens);

  KvBlocks(uint32_t count, uint32_t block_tokens, Hash hash = hash_of);

  uint32_t count() const { return uint32_t(each_.size()); }
  uint32_t cached() const { return cached_; }
  uint32_t free() const { return uint32_t(empty_.size()) + cached_; }  // that allocate() can return
  uint32_t holders(uint32_t block) const { return each_[block].holders; }

  // An empty block, or else the one that was cached first, which is evicted. Held once. Unset: all are held.
  std::optional<uint32_t> allocate();
  void hold(uint32_t block);  // once more
  // Once less. A sequence drops its last block first: the ends of texts are then evicted before their beginnings,
  // without which they could not be found.
  void drop(uint32_t block);

  // A prefix is a text of whole blocks from its beginning. No two texts have the same number, and none is used again: a
  // block that is found by the prefix before it and by its own tokens follows the very text that was asked for.
  using Prefix = uint64_t;
  static constexpr Prefix empty_prefix = 0;
  struct Found {
    uint32_t block;
    Prefix prefix;  // that ends with the block
  };
  // The whole block with these tokens after that prefix. It is not held yet.
  std::optional<Found> find(Prefix before, std::span<const uint32_t> tokens) const;
  // The block after that prefix that begins with the most of these tokens, at least one: its contents can be copied.
  struct Match {
    uint32_t block, tokens;  // how many are the same
  };
  std::optional<Match> find_beginning(Prefix before, std::span<const uint32_t> tokens) const;

  // From now on this block can be found; or another one, if that was there before with the same tokens.
  Found publish(uint32_t block, Prefix before, std::span<const uint32_t> tokens);
  // For a block that is not whole: from now on find_beginning() finds it, unless another block has as many of its
  // tokens.
  void publish_partial(uint32_t block, Prefix before, std::span<const uint32_t> tokens);
  void forget(uint32_t block);  // it cannot be found any more: its contents cannot be trusted
  bool findable(uint32_t block) const { return each_[block].tokens > 0; }

  // For tests: throws std::logic_error if anything is counted wrongly. `holders`: of each block, as the caller counts
  // them.
  void check_holders(std::span<const uint32_t> holders) const;

 private:
  static constexpr uint32_t none = ~0u;
  struct Block {
    uint32_t holders = 0;
    uint32_t older = none, newer = none;  // in the list of cached blocks
    uint32_t tokens = 0;                  // that it can be found by: a whole block of them, or fewer; 0: not findable
    Prefix prefix = empty_prefix, before = empty_prefix;
    uint64_t hash = 0, first_hash = 0;  // of all its tokens, and of the first
  };

  std::span<const uint32_t> tokens_of(uint32_t block) const {
    return std::span(tokens_).subspan(size_t(block) * block_tokens_, each_[block].tokens);
  }
  bool whole(uint32_t block) const { return each_[block].tokens == block_tokens_; }
  void make_findable(uint32_t block, Prefix before, std::span<const uint32_t> tokens);
  void add_to_cached(uint32_t block);
  void remove_from_cached(uint32_t block);

  uint32_t block_tokens_;
  Hash hash_;
  std::vector<Block> each_;
  std::vector<uint32_t> tokens_;  // (count, block_tokens), of those that can be found
  std::vector<uint32_t> empty_;
  uint32_t oldest_ = none, newest_ = none, cached_ = 0;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;   // whole blocks
  std::unordered_multimap<uint64_t, uint32_t> by_first_;  // all that can be found, by the hash of their first token
  Prefix last_prefix_ = empty_prefix;
};

}  // namespace heddle::engine
