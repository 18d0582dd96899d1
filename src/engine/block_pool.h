// Blocks that are held by any number of sequences, kept after that as long as there is room, or empty.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"

namespace heddle::engine {

// A block that no holder is left of is empty, or cached: it keeps its contents until it is evicted.
class BlockPool {
 public:
  explicit BlockPool(uint32_t count);

  uint32_t count() const { return uint32_t(each_.size()); }
  uint32_t cached() const { return cached_; }
  uint32_t free() const { return uint32_t(empty_.size()) + cached_; }  // that allocate() can return
  uint32_t holders(uint32_t block) const { return each_[block].holders; }

  // An empty block, which is held once. Where there is none, the first of those cached is evicted: evict(block) has to
  // call clear(). Unset: all are held.
  std::optional<uint32_t> allocate(auto&& evict) {
    if (empty_.empty() && first_ != none) evict(first_);
    if (empty_.empty()) return std::nullopt;
    const uint32_t block = empty_.back();
    empty_.pop_back();
    each_[block].holders = 1;
    return block;
  }
  void hold(uint32_t block);  // adds a holder; one that is empty is allocated, not held
  // Removes a holder. After the last, a block is cached, to be evicted after all others or before them, or is empty.
  enum class Then : uint8_t { empty, evict_last, evict_first };
  void drop(uint32_t block, Then then);
  void clear(uint32_t block);  // which is cached: it is empty

  // For tests: throws std::logic_error if anything is counted wrongly. `holders`: of each block, as the caller counts
  // them; is_cached(block): whether one without holders should be cached.
  void check_holders(std::span<const uint32_t> holders, auto&& is_cached) const {
    const std::vector<uint32_t> seen = lists_with(holders);
    for (uint32_t block = 0; block < count(); ++block)
      if (holders[block] == 0) check(is_cached(block) == (seen[block] == in_cached), "a block is cached or empty");
  }

 private:
  static constexpr uint32_t none = ~0u, in_empty = 1, in_cached = 2;
  struct Block {
    uint32_t holders = 0;
    uint32_t before = none, after = none;  // in the list of cached blocks
  };
  std::vector<uint32_t> lists_with(std::span<const uint32_t> holders) const;

  std::vector<Block> each_;
  std::vector<uint32_t> empty_;
  uint32_t first_ = none, last_ = none, cached_ = 0;  // the list of cached blocks, in the order of their eviction
};

}  // namespace heddle::engine
