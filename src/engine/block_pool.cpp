// Blocks that no sequence holds are a stack of empty ones, and a list of cached ones.
#include "engine/block_pool.h"

namespace heddle::engine {

BlockPool::BlockPool(uint32_t count) : each_(count) {
  for (uint32_t block = count; block > 0; --block) empty_.push_back(block - 1);
}

void BlockPool::hold(uint32_t block) {
  Block& it = each_[block];
  check(it.holders > 0 || it.before != none || first_ == block, "an empty block is allocated, not held");
  if (it.holders++ > 0) return;
  (it.before == none ? first_ : each_[it.before].after) = it.after;
  (it.after == none ? last_ : each_[it.after].before) = it.before;
  it.before = it.after = none;
  --cached_;
}

void BlockPool::drop(uint32_t block, Then then) {
  Block& it = each_[block];
  check(it.holders > 0, "a block that is held");
  if (--it.holders > 0) return;
  if (then == Then::empty) {
    empty_.push_back(block);
    return;
  }
  ++cached_;
  if (first_ == none) {
    first_ = last_ = block;
  } else if (then == Then::evict_last) {
    it.before = last_;
    each_[last_].after = block;
    last_ = block;
  } else {
    it.after = first_;
    each_[first_].before = block;
    first_ = block;
  }
}

void BlockPool::clear(uint32_t block) {
  hold(block);
  drop(block, Then::empty);
}

// Of each block, the list that it is in; 0: it is held, as it should be.
std::vector<uint32_t> BlockPool::lists_with(std::span<const uint32_t> holders) const {
  std::vector<uint32_t> seen(count());
  for (const uint32_t block : empty_) seen[block] += in_empty;
  uint32_t cached = 0;
  for (uint32_t block = first_; block != none; block = each_[block].after, ++cached) {
    seen[block] += in_cached;
    check(seen[block] == in_cached, "a block is in one list");
  }
  check(cached == cached_, "the count of cached blocks is right");
  for (uint32_t block = 0; block < count(); ++block) {
    check(each_[block].holders == holders[block], "the count of holders is right");
    check((seen[block] == 0) == (holders[block] > 0), "a block is free or held");
  }
  return seen;
}

}  // namespace heddle::engine
