// Blocks of windows in the KV cache: when a sequence gives them back, and which of them are worth keeping.
#include <algorithm>

#include "base/error.h"
#include "engine/kv_cache.h"
#include "engine/sequence.h"

namespace heddle::engine {

// A block that a token at the end of the prompt sees, or one where the text parts from another: the next turn and the
// next text that begins so will look for it.
bool KvCache::worth_keeping(const Sequence& s, uint32_t block) const {
  const auto sees = [&](uint32_t position, uint32_t end) {
    return block >= first_block_seen(position) && block * block_tokens_ < end;
  };
  const uint32_t prompt = s.task.prompt_tokens();
  return sees(s.parting, s.parting) || sees(prompt - std::min(prompt, answer_beginning + block_tokens_), prompt);
}

// Beside its block, which was published. Where there is one already, that takes the place of its own.
void KvCache::publish_window(Sequence& s, uint32_t block) {
  uint32_t& own = s.windows[block];
  check(own != WindowBlocks::none, "a block of windows until it is published");
  const uint32_t other = windows_.of(s.blocks[block]);
  if (other == own) return;
  if (other == WindowBlocks::none) return windows_.put_beside(s.blocks[block], own);
  windows_.hold(other);
  windows_.drop(std::exchange(own, other), false);
}

// Batches in flight are of later positions, and so are proposals. What is dropped is written to by a later batch.
void KvCache::slide_window(Sequence& s) {
  if (!has_windows()) return;
  const auto seen = std::min<size_t>(first_block_seen(s.computed), s.windows.size());
  for (; s.first_window < seen; ++s.first_window) {
    const uint32_t block = std::exchange(s.windows[s.first_window], WindowBlocks::none);
    if (block != WindowBlocks::none) windows_.drop(block, worth_keeping(s, s.first_window));
  }
}

void KvCache::release_windows(Sequence& s) {
  for (; !s.windows.empty(); s.windows.pop_back())
    if (s.windows.back() != WindowBlocks::none) windows_.drop(s.windows.back(), true);
  s.first_window = 0;
}

KvCache::Room KvCache::room_for(uint32_t tokens) const {
  const uint32_t blocks = blocks_for(tokens), seen = blocks_for(sights_.longest()) + 1;
  return {blocks, has_windows() ? std::min(blocks, seen) : 0u, has_states() ? 1u : 0u};
}

KvCache::Room KvCache::room_of(const Sequence& s) const {
  return {s.blocks.size(), s.windows.size() - std::min<size_t>(s.windows.size(), s.first_window),
          s.recurrent.slot == StateSlots::none ? 0u : 1u};
}

KvCache::Room KvCache::room_to_grow(uint32_t count) const {
  return {count, has_windows() ? count + blocks_for(rows_) : 0u, 0};
}

// It has those that the first row of a batch sees, and those of all its rows.
uint32_t KvCache::min_window_blocks() const {
  return std::min(blocks_.count(), blocks_for(sights_.longest() + rows_) + 1);
}

void KvCache::check_windows(std::span<const Sequence* const> all) const {
  std::vector<uint32_t> holders(windows_.count());
  for (const Sequence* s : all) {
    check(s->windows.size() == s->blocks.size(), "a block of windows beside every other");
    const uint32_t settled = s->recurrent.before == StateSlots::none ? s->computed : s->recurrent.before_computed;
    for (uint32_t i = 0; i < s->windows.size(); ++i) {
      const uint32_t block = s->windows[i];
      check(i >= s->first_window || block == WindowBlocks::none, "no block before the first");
      check(block != WindowBlocks::none || i < first_block_seen(settled), "what a later token sees is there");
      if (block == WindowBlocks::none) continue;
      ++holders.at(block);
      check(i < s->computed / block_tokens_ || (windows_.holders(block) == 1 && !windows_.findable(block)),
            "a block that is written to has one holder, and cannot be found");
    }
  }
  windows_.check_holders(holders);
}

}  // namespace heddle::engine
