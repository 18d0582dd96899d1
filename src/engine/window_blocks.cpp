#include "engine/window_blocks.h"

#include "base/error.h"

namespace heddle::engine {

std::optional<uint32_t> WindowBlocks::allocate() {
  return pool_.allocate([this](uint32_t block) {
    if (on_evict_) on_evict_(block, beside_[block]);
    forget(beside_[block]);
  });
}

void WindowBlocks::drop(uint32_t block, bool worth_keeping) {
  using Then = BlockPool::Then;
  worth_keeping_[block] = worth_keeping;
  pool_.drop(block, !findable(block) ? Then::empty : worth_keeping ? Then::evict_last : Then::evict_first);
}

void WindowBlocks::put_beside(uint32_t kv_block, uint32_t block) {
  check(of_[kv_block] == none && !findable(block) && holders(block) > 0, "blocks that are beside no other");
  of_[kv_block] = block;
  beside_[block] = kv_block;
}

void WindowBlocks::forget(uint32_t kv_block) {
  const uint32_t block = of_[kv_block];
  if (block == none) return;
  of_[kv_block] = beside_[block] = none;
  if (holders(block) == 0) pool_.clear(block);
}

void WindowBlocks::check_holders(std::span<const uint32_t> holders) const {
  pool_.check_holders(holders, [this](uint32_t block) { return findable(block); });
  uint32_t beside = 0;
  for (uint32_t block = 0; block < count(); ++block) {
    if (!findable(block)) continue;
    ++beside;
    check(of_[beside_[block]] == block, "a block is found by the KV block that it is beside");
  }
  for (const uint32_t block : of_) beside -= block != none;
  check(beside == 0, "KV blocks have no other blocks of windows");
}

}  // namespace heddle::engine
