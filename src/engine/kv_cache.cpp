// Blocks that no sequence holds are a stack of empty ones, and a list of cached ones in the order in which they were
// dropped. In a block table, the first `published` blocks can be found by others. Blocks up to `computed` may be
// shared; those after it belong to one sequence, which writes to them.
#include "engine/kv_cache.h"

#include <algorithm>

#include "base/error.h"
#include "engine/sequence.h"

namespace heddle::engine {
namespace {

constexpr uint32_t max_candidates = 16;  // blocks that find_partial() compares: many prompts begin with the same token

}  // namespace

uint64_t KvBlocks::hash_of(uint64_t before, std::span<const uint32_t> tokens) {
  uint64_t hash = before * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
  for (const uint32_t token : tokens) {
    hash = (hash ^ token) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

KvBlocks::KvBlocks(uint32_t count, uint32_t block_tokens, Hash hash)
    : block_tokens_(block_tokens), hash_(hash), each_(count), tokens_(size_t(count) * block_tokens) {
  for (uint32_t block = count; block > 0; --block) empty_.push_back(block - 1);
}

void KvBlocks::add_to_cached(uint32_t block) {
  Block& it = each_[block];
  it.older = newest_;
  it.newer = none;
  (newest_ == none ? oldest_ : each_[newest_].newer) = block;
  newest_ = block;
  ++cached_;
}

void KvBlocks::remove_from_cached(uint32_t block) {
  const Block& it = each_[block];
  (it.older == none ? oldest_ : each_[it.older].newer) = it.newer;
  (it.newer == none ? newest_ : each_[it.newer].older) = it.older;
  --cached_;
}

std::optional<uint32_t> KvBlocks::allocate() {
  if (empty_.empty()) {
    if (oldest_ == none) return std::nullopt;
    forget(oldest_);
  }
  const uint32_t block = empty_.back();
  empty_.pop_back();
  each_[block].holders = 1;
  return block;
}

void KvBlocks::hold(uint32_t block) {
  Block& it = each_[block];
  check(it.holders > 0 || findable(block), "an empty block is allocated, not held");
  if (it.holders++ == 0) remove_from_cached(block);
}

void KvBlocks::drop(uint32_t block) {
  check(each_[block].holders > 0, "a block that is held");
  if (--each_[block].holders > 0) return;
  if (findable(block))
    add_to_cached(block);
  else
    empty_.push_back(block);
}

std::optional<KvBlocks::Found> KvBlocks::find(Prefix before, std::span<const uint32_t> tokens) const {
  const auto [first, last] = by_hash_.equal_range(hash_(before, tokens));
  for (auto it = first; it != last; ++it) {
    const uint32_t block = it->second;
    const auto there = tokens_of(block);
    if (each_[block].before == before && std::equal(tokens.begin(), tokens.end(), there.begin(), there.end()))
      return Found{block, each_[block].prefix};
  }
  return std::nullopt;
}

std::optional<KvBlocks::Match> KvBlocks::find_partial(Prefix before, std::span<const uint32_t> tokens) const {
  if (tokens.empty()) return std::nullopt;
  Match best{0, 0};
  uint32_t compared = 0;
  const auto [first, last] = by_first_.equal_range(hash_(before, tokens.first(1)));
  for (auto it = first; it != last && compared < max_candidates; ++it, ++compared) {
    if (each_[it->second].before != before) continue;
    const auto there = tokens_of(it->second);
    const auto differ = std::mismatch(tokens.begin(), tokens.end(), there.begin(), there.end()).first;
    const auto same = uint32_t(differ - tokens.begin());
    if (same > best.tokens) best = {it->second, same};
  }
  return best.tokens ? std::optional(best) : std::nullopt;
}

void KvBlocks::make_findable(uint32_t block, Prefix before, std::span<const uint32_t> tokens) {
  Block& it = each_[block];
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + ptrdiff_t(size_t(block) * block_tokens_));
  it.tokens = uint32_t(tokens.size());
  it.before = before;
  it.first_hash = hash_(before, tokens.first(1));
  by_first_.emplace(it.first_hash, block);
}

KvBlocks::Found KvBlocks::publish(uint32_t block, Prefix before, std::span<const uint32_t> tokens) {
  Block& it = each_[block];
  check(it.holders > 0 && !findable(block) && tokens.size() == block_tokens_, "a whole block, for the first time");
  if (const auto found = find(before, tokens)) return *found;
  make_findable(block, before, tokens);
  it.prefix = ++last_prefix_;
  it.hash = hash_(before, tokens);
  by_hash_.emplace(it.hash, block);
  return {block, it.prefix};
}

void KvBlocks::publish_partial(uint32_t block, Prefix before, std::span<const uint32_t> tokens) {
  check(each_[block].holders > 0 && !findable(block) && tokens.size() < block_tokens_, "a block that is not whole");
  const auto found = find_partial(before, tokens);
  if (!tokens.empty() && (!found || found->tokens < tokens.size())) make_findable(block, before, tokens);
}

void KvBlocks::forget(uint32_t block) {
  if (!findable(block)) return;
  Block& it = each_[block];
  const auto erase = [block](auto& map, uint64_t hash) {
    const auto [first, last] = map.equal_range(hash);
    map.erase(std::find_if(first, last, [block](const auto& entry) { return entry.second == block; }));
  };
  if (whole(block)) {
    erase(by_hash_, it.hash);
    if (on_forget_) on_forget_(it.prefix);
  }
  erase(by_first_, it.first_hash);
  it.tokens = 0;
  it.prefix = empty_prefix;
  if (it.holders > 0) return;
  remove_from_cached(block);
  empty_.push_back(block);
}

void KvBlocks::check_holders(std::span<const uint32_t> holders) const {
  std::vector<uint32_t> seen(count());
  for (const uint32_t block : empty_) {
    check(each_[block].holders == 0 && !findable(block), "no sequence holds an empty block");
    ++seen[block];
  }
  uint32_t cached = 0;
  for (uint32_t block = oldest_; block != none; block = each_[block].newer, ++cached) {
    check(each_[block].holders == 0 && findable(block), "no sequence holds a cached block, and it can be found");
    check(++seen[block] == 1, "a block is in one list");
  }
  check(cached == cached_, "the count of cached blocks is right");
  size_t findable_blocks = 0, whole_blocks = 0;
  for (uint32_t block = 0; block < count(); ++block) {
    check(each_[block].holders == holders[block], "the count of holders is right");
    check(seen[block] == (holders[block] == 0 ? 1u : 0u), "a block is free or held");
    if (!findable(block)) continue;
    ++findable_blocks;
    if (!whole(block)) continue;
    ++whole_blocks;
    const auto found = find(each_[block].before, tokens_of(block));
    check(found && found->block == block, "a block that can be found is found");
  }
  check(findable_blocks == by_first_.size() && whole_blocks == by_hash_.size(), "the indices have no other blocks");
}

namespace {

constexpr uint32_t min_partial = 4;  // a quarter of a block: less takes about as long to copy as to compute

}  // namespace

uint32_t KvCache::capacity(const Sequence& s) const { return uint32_t(s.blocks.size()) * block_tokens_; }
bool KvCache::shares(const Sequence& s) const { return prefix_cache_ && s.task.request.reuse; }
std::span<const uint32_t> KvCache::tokens_of(const Sequence& s, uint32_t block) const {
  return std::span(s.tokens).subspan(size_t(block) * block_tokens_, block_tokens_);
}

bool KvCache::grow(Sequence& s, uint32_t tokens) {
  while (capacity(s) < tokens) {
    const auto block = blocks_.allocate();
    if (!block) return false;
    s.blocks.push_back(*block);
  }
  return true;
}

void KvCache::trim(Sequence& s) {
  for (const uint32_t needed = blocks_for(s.known()); s.blocks.size() > needed; s.blocks.pop_back())
    blocks_.drop(s.blocks.back());
}

void KvCache::release(Sequence& s) {
  if (has_states())
    release_slots(s);
  else
    publish_last(s);
  for (; !s.blocks.empty(); s.blocks.pop_back()) blocks_.drop(s.blocks.back());
  s.computed = 0;
  s.published = 0;
  s.prefix = s.long_text ? KvBlocks::long_prefix : KvBlocks::empty_prefix;
  if (s.generated == 0) s.cached_tokens = 0;
}

// Publishes the last block that it computed, if that is not whole: others may copy its tokens.
void KvCache::publish_last(Sequence& s) {
  if (s.blocks.size() <= s.published) return;
  const uint32_t last = s.blocks[s.published];
  if (std::erase_if(copies_, [&](const Copy& copy) { return copy.to == last; }) > 0) return;  // it is still empty
  if (!shares(s) || s.computed / block_tokens_ != s.published) return;
  const auto tokens = std::span(s.tokens).subspan(s.published * block_tokens_, s.computed % block_tokens_);
  blocks_.publish_partial(last, s.prefix, tokens);
}

void KvCache::forget(Sequence& s) {
  for (const uint32_t block : s.blocks) blocks_.forget(block);
  s.computed = s.published * block_tokens_;
  drop_unconfirmed(s);
}

bool KvCache::can_reuse_next(const Sequence& s) const {
  return shares(s) && s.computed == s.published * block_tokens_ && s.computed + block_tokens_ <= s.next_wanted();
}

void KvCache::reuse_blocks(Sequence& s) {
  if (has_states()) return reuse_snapshot(s);
  while (can_reuse_next(s)) {
    const auto found = blocks_.find(s.prefix, tokens_of(s, s.published));
    if (!found) return;
    share_block(s, *found);
    s.computed += block_tokens_;
    if (s.generated == 0) s.cached_tokens += block_tokens_;
  }
}

// As the block after those that it has published.
void KvCache::share_block(Sequence& s, const KvBlocks::Found& found) {
  blocks_.hold(found.block);
  if (s.published < s.blocks.size()) {  // it had allocated one
    blocks_.drop(s.blocks[s.published]);
    s.blocks[s.published] = found.block;
  } else {
    s.blocks.push_back(found.block);
  }
  s.prefix = found.prefix;
  ++s.published;
}

void KvCache::reuse_partial(Sequence& s) {
  if (has_states() || !shares(s) || s.computed != s.published * block_tokens_ || s.computed >= s.next_wanted()) return;
  const uint32_t wanted = std::min(s.next_wanted() - s.computed, block_tokens_);
  const auto found = blocks_.find_partial(s.prefix, std::span(s.tokens).subspan(s.computed, wanted));
  if (!found || found->tokens * min_partial < block_tokens_) return;
  if (s.published == s.blocks.size()) {
    blocks_.hold(found->block);  // so that it is not the one that is evicted
    const bool grown = grow(s, s.computed + 1);
    blocks_.drop(found->block);
    if (!grown) return;
  }
  copies_.push_back({found->block, s.blocks[s.published]});
  s.computed += found->tokens;
  if (s.generated == 0) s.cached_tokens += found->tokens;
}

uint64_t KvCache::next_block(const Sequence& s) const {
  if (!shares(s) || (s.published + 1) * block_tokens_ > s.known()) return 0;
  return KvBlocks::hash_of(s.prefix, tokens_of(s, s.published)) | 1;
}

void KvCache::publish(Sequence& s) {
  if (!shares(s) || s.recurrent.before != StateSlots::none) return;  // it may have to go back
  for (; (s.published + 1) * block_tokens_ <= s.computed; ++s.published) {
    uint32_t& own = s.blocks[s.published];
    const auto [block, prefix] = blocks_.publish(own, s.prefix, tokens_of(s, s.published));
    if (block != own) {
      blocks_.hold(block);
      blocks_.drop(own);
      own = block;
    }
    s.prefix = prefix;
  }
  keep_snapshots(s);
}

bool KvCache::fork(const Sequence& from, Sequence& to, std::optional<Copy>& copy) {
  const uint32_t whole = from.computed / block_tokens_;
  copy.reset();
  if (has_states() && slots_.free() == 0) return false;
  if (whole * block_tokens_ < from.computed) {
    const auto block = blocks_.allocate();
    if (!block) return false;
    copy = {from.blocks[whole], *block};
  }
  to.blocks.assign(from.blocks.begin(), from.blocks.begin() + whole);
  for (const uint32_t block : to.blocks) blocks_.hold(block);
  if (copy) to.blocks.push_back(copy->to);
  to.computed = from.computed;
  to.published = from.published;
  to.prefix = from.prefix;
  to.long_text = from.long_text;
  if (has_states()) {
    to.recurrent = {.slot = slots_.allocate(), .last = from.recurrent.last};
    state_copies_.push_back({from.recurrent.slot, to.recurrent.slot});
  }
  return true;
}

void KvCache::check_holders(std::span<const Sequence* const> all) const {
  std::vector<uint32_t> holders(blocks_.count());
  for (const Sequence* s : all) {
    for (const uint32_t block : s->blocks) ++holders.at(block);
    check(s->computed <= capacity(*s) && s->published * block_tokens_ <= s->computed, "computed tokens have a block");
    for (size_t i = s->computed / block_tokens_; i < s->blocks.size(); ++i)
      check(blocks_.holders(s->blocks[i]) == 1 && !blocks_.findable(s->blocks[i]),
            "a block that is written to has one holder, and cannot be found");
  }
  blocks_.check_holders(holders);
  if (has_states()) check_slots(all);
}

}  // namespace heddle::engine
