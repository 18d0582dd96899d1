// Blocks that no sequence holds are a stack of empty ones, and a list of cached ones in the order in which they were
// dropped.
#include "engine/kv_blocks.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::engine {
namespace {

constexpr uint32_t max_candidates = 16;  // that find_beginning() compares: many prompts begin with the same token

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

std::optional<KvBlocks::Match> KvBlocks::find_beginning(Prefix before, std::span<const uint32_t> tokens) const {
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
  const auto found = find_beginning(before, tokens);
  if (!tokens.empty() && (!found || found->tokens < tokens.size())) make_findable(block, before, tokens);
}

void KvBlocks::forget(uint32_t block) {
  if (!findable(block)) return;
  Block& it = each_[block];
  const auto erase = [block](auto& map, uint64_t hash) {
    const auto [first, last] = map.equal_range(hash);
    map.erase(std::find_if(first, last, [block](const auto& entry) { return entry.second == block; }));
  };
  if (whole(block)) erase(by_hash_, it.hash);
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
  check(cached == cached_, "as many are cached as were counted");
  size_t findable_blocks = 0, whole_blocks = 0;
  for (uint32_t block = 0; block < count(); ++block) {
    check(each_[block].holders == holders[block], "a block has as many holders as were counted");
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

}  // namespace heddle::engine
