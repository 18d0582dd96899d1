// KV blocks: who holds them, and which of them can be found by what was computed into them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace heddle::engine {

// A block is held by any number of sequences, or by nobody: then it is empty, or still has what others may want again.
class Blocks {
 public:
  using Hash = uint64_t (*)(uint64_t before, std::span<const uint32_t> tokens);
  static uint64_t hash_of(uint64_t before, std::span<const uint32_t> tokens);

  Blocks(uint32_t count, uint32_t block_tokens, Hash hash = hash_of);

  uint32_t all() const { return uint32_t(each_.size()); }
  uint32_t cached() const { return cached_; }                          // held by nobody, but can be found
  uint32_t free() const { return uint32_t(empty_.size()) + cached_; }  // can be taken
  uint32_t holders(uint32_t block) const { return each_[block].holders; }

  std::optional<uint32_t> take();  // held once; an empty one, or else the one that nobody has held for the longest time
  void hold(uint32_t block);       // once more
  void drop(uint32_t block);       // once less. A sequence drops its last block first: then ends of texts go before
                                   // beginnings, without which they could not be found

  // A link names a text of whole blocks, from its beginning: no two texts have the same, and none is used again. So a
  // block that is found by the link before it and by its own tokens follows the very text that was asked for.
  using Link = uint64_t;
  static constexpr Link beginning = 0;
  struct Found {
    uint32_t block;
    Link link;  // of the text that ends with it
  };
  // The block with these tokens after that text. It is not held yet.
  std::optional<Found> find(Link before, std::span<const uint32_t> tokens) const;
  // The block after that text that begins with the most of these tokens, one at least: what is in it can be copied.
  struct Part {
    uint32_t block, tokens;  // so many are the same
  };
  std::optional<Part> find_part(Link before, std::span<const uint32_t> tokens) const;
  // From now on this block can be found; or another one, if that was there before with the same.
  Found publish(uint32_t block, Link before, std::span<const uint32_t> tokens);
  // A block that is not whole: from now on find_part() finds it, unless another one begins with the same.
  void publish_part(uint32_t block, Link before, std::span<const uint32_t> tokens);
  void forget(uint32_t block);  // what is in it cannot be trusted
  bool findable(uint32_t block) const { return each_[block].tokens > 0; }

  // For tests: throws std::logic_error if anything is counted wrongly. `holders`: of each block, as others count them.
  void check_holders(std::span<const uint32_t> holders) const;

 private:
  static constexpr uint32_t none = ~0u;
  struct Block {
    uint32_t holders = 0;
    uint32_t older = none, newer = none;  // among the cached
    uint32_t tokens = 0;                  // that it can be found by: all of a block, or fewer; 0: it cannot be found
    Link link = beginning, before = beginning;
    uint64_t hash = 0, first_hash = 0;  // of all its tokens, and of the first
  };

  std::span<const uint32_t> tokens_of(uint32_t block) const {
    return std::span(tokens_).subspan(size_t(block) * block_tokens_, each_[block].tokens);
  }
  bool whole(uint32_t block) const { return each_[block].tokens == block_tokens_; }
  void name(uint32_t block, Link before, std::span<const uint32_t> tokens);
  void put_among_cached(uint32_t block);
  void leave_cached(uint32_t block);

  uint32_t block_tokens_;
  Hash hash_;
  std::vector<Block> each_;
  std::vector<uint32_t> tokens_;  // of those that can be found: (all, block_tokens)
  std::vector<uint32_t> empty_;
  uint32_t oldest_ = none, newest_ = none, cached_ = 0;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;   // whole ones
  std::unordered_multimap<uint64_t, uint32_t> by_first_;  // all that can be found, by their first token
  Link last_link_ = beginning;
};

}  // namespace heddle::engine
