// In a block table, the first `published` blocks can be found by others. Blocks up to `computed` may be
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
    : block_tokens_(block_tokens), hash_(hash), pool_(count), each_(count), tokens_(size_t(count) * block_tokens) {}

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
  check(holders(block) > 0 && !findable(block) && tokens.size() == block_tokens_, "a whole block, for the first time");
  if (const auto found = find(before, tokens)) return *found;
  make_findable(block, before, tokens);
  it.prefix = ++last_prefix_;
  it.hash = hash_(before, tokens);
  by_hash_.emplace(it.hash, block);
  if (observer_) observer_->stored(it.prefix, before, tokens);
  return {block, it.prefix};
}

void KvBlocks::publish_partial(uint32_t block, Prefix before, std::span<const uint32_t> tokens) {
  check(holders(block) > 0 && !findable(block) && tokens.size() < block_tokens_, "a block that is not whole");
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
  if (whole(block)) erase(by_hash_, it.hash);
  if (whole(block) && observer_) observer_->removed(it.prefix);
  if (on_forget_) on_forget_(block, whole(block) ? std::optional(it.prefix) : std::nullopt);
  erase(by_first_, it.first_hash);
  it.tokens = 0;
  it.prefix = empty_prefix;
  if (holders(block) == 0) pool_.clear(block);
}

void KvBlocks::check_holders(std::span<const uint32_t> holders) const {
  pool_.check_holders(holders, [this](uint32_t block) { return findable(block); });
  size_t findable_blocks = 0, whole_blocks = 0;
  for (uint32_t block = 0; block < count(); ++block) {
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

KvCache::KvCache(const model::Limits& limits, const model::Windows& windows, bool prefix_cache,
                 const BeyondCache& beyond, KvObserver* observer)
    : blocks_(limits.kv_blocks, limits.block_tokens),
      sights_(windows),
      windows_(limits.window_blocks, limits.kv_blocks),
      slots_(limits.state_slots),
      block_tokens_(limits.block_tokens),
      rows_(limits.rows),
      prefix_cache_(prefix_cache),
      beyond_(beyond),
      observer_(observer) {
  blocks_.observe(observer);
  if (observer) observer->cleared();
  if (beyond_.store) watch_evictions();
  if (!has_states() && !has_windows()) return;
  blocks_.on_forget([this](uint32_t block, std::optional<KvBlocks::Prefix> text) {
    if (has_windows()) windows_.forget(block);
    if (text) slots_.drop(*text);
  });
}

KvCache::~KvCache() {
  if (observer_) observer_->cleared();
}

uint32_t KvCache::capacity(const Sequence& s) const { return uint32_t(s.blocks.size()) * block_tokens_; }
bool KvCache::shares(const Sequence& s) const { return prefix_cache_ && s.task.request.reuse; }
std::span<const uint32_t> KvCache::tokens_of(const Sequence& s, uint32_t block) const {
  return std::span(s.tokens).subspan(size_t(block) * block_tokens_, block_tokens_);
}

bool KvCache::grow(Sequence& s, uint32_t tokens) {
  while (capacity(s) < tokens) {
    if (has_windows() && windows_.free() == 0) return false;
    const auto block = blocks_.allocate();
    if (!block) return false;
    s.blocks.push_back(*block);
    if (has_windows()) s.windows.push_back(*windows_.allocate());
  }
  return true;
}

void KvCache::trim(Sequence& s) {
  for (const uint32_t needed = blocks_for(s.known()); s.blocks.size() > needed; s.blocks.pop_back())
    blocks_.drop(s.blocks.back());
  for (; s.windows.size() > s.blocks.size(); s.windows.pop_back()) windows_.drop(s.windows.back(), false);
}

void KvCache::release(Sequence& s) {
  if (has_states())
    release_slots(s);
  else
    publish_last(s);
  release_windows(s);
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
  const auto is_to = [](uint32_t block) {
    return [block](const Copy& copy) { return copy.to == block && !copy.bytes; };
  };
  if (std::erase_if(copies_, is_to(last)) > 0) {  // it is still empty
    if (has_windows()) std::erase_if(window_copies_, is_to(s.windows[s.published]));
    return;
  }
  if (!shares(s) || s.computed / block_tokens_ != s.published) return;
  const auto tokens = std::span(s.tokens).subspan(s.published * block_tokens_, s.computed % block_tokens_);
  blocks_.publish_partial(last, s.prefix, tokens);
  if (has_windows() && blocks_.findable(last)) windows_.put_beside(last, s.windows[s.published]);
}

void KvCache::forget(Sequence& s) {
  for (const uint32_t block : s.blocks) blocks_.forget(block);
  s.computed = s.published * block_tokens_;
  drop_unconfirmed(s);
}

bool KvCache::can_reuse_next(const Sequence& s) const {
  return shares(s) && s.computed == s.published * block_tokens_ && s.computed + block_tokens_ <= s.next_wanted();
}

// The walk goes beyond what can be reused, to find where the text parts from those of the cache.
void KvCache::reuse_blocks(Sequence& s) {
  if (!shares(s) || (!has_states() && s.computed != s.published * block_tokens_)) return;
  std::vector<KvBlocks::Found> next;
  size_t reused = 0;
  uint32_t end = s.published * block_tokens_;
  uint32_t windows = s.published - std::min(s.published, s.first_window);  // contiguous blocks of windows before `end`
  KvBlocks::Prefix prefix = s.prefix;
  while (end + block_tokens_ <= s.next_wanted()) {
    const auto found = blocks_.find(prefix, tokens_of(s, end / block_tokens_));
    if (!found) break;
    next.push_back(*found);
    prefix = found->prefix;
    end += block_tokens_;
    if (has_windows()) windows = windows_.of(found->block) == WindowBlocks::none ? 0 : windows + 1;
    if (end <= s.computed || (has_states() && slots_.find(prefix) == StateSlots::none)) continue;
    if (has_windows() && windows < end / block_tokens_ - first_block_seen(end)) continue;
    reused = next.size();
  }
  if (end > s.computed) s.parting = end;
  if (reused == 0) return;
  const uint32_t computed = (s.published + uint32_t(reused)) * block_tokens_;
  const uint32_t first_seen = has_windows() ? first_block_seen(computed) : 0;
  for (size_t i = 0; i < reused; ++i) share_block(s, next[i], s.published >= first_seen);
  if (s.generated == 0) s.cached_tokens += computed - s.computed;
  s.computed = s.recurrent.last = computed;
  if (has_windows()) slide_window(s);
  if (s.recurrent.slot != StateSlots::none) copy_snapshot(s);
}

// As the block after those that it has published. `seen`: with its block of windows.
void KvCache::share_block(Sequence& s, const KvBlocks::Found& found, bool seen) {
  const auto replace = [&](std::vector<uint32_t>& table, uint32_t with, auto&& drop) {
    if (s.published == table.size()) return table.push_back(with);
    drop(std::exchange(table[s.published], with));  // it had allocated one
  };
  blocks_.hold(found.block);
  replace(s.blocks, found.block, [&](uint32_t own) { blocks_.drop(own); });
  if (has_windows()) {
    const uint32_t window = seen ? windows_.of(found.block) : WindowBlocks::none;
    if (seen) windows_.hold(window);
    replace(s.windows, window, [&](uint32_t own) { windows_.drop(own, false); });
  }
  s.prefix = found.prefix;
  ++s.published;
}

void KvCache::reuse_partial(Sequence& s) {
  if (has_states() || !shares(s) || s.computed != s.published * block_tokens_ || s.computed >= s.next_wanted()) return;
  const uint32_t wanted = std::min(s.next_wanted() - s.computed, block_tokens_);
  const auto found = blocks_.find_partial(s.prefix, std::span(s.tokens).subspan(s.computed, wanted));
  if (!found || found->tokens * min_partial < block_tokens_) return;
  const uint32_t window = has_windows() ? windows_.of(found->block) : 0;
  if (window == WindowBlocks::none) return;
  if (s.published == s.blocks.size()) {
    blocks_.hold(found->block);  // so that it is not the one that is evicted
    if (has_windows()) windows_.hold(window);
    const bool grown = grow(s, s.computed + 1);
    if (has_windows()) windows_.drop(window, true);
    blocks_.drop(found->block);
    if (!grown) return;
  }
  copies_.push_back({found->block, s.blocks[s.published]});
  if (has_windows()) window_copies_.push_back({window, s.windows[s.published]});
  s.computed += found->tokens;
  if (s.generated == 0) s.cached_tokens += found->tokens;
}

uint64_t KvCache::next_block(const Sequence& s) const {
  if (!shares(s) || (s.published + 1) * block_tokens_ > s.known()) return 0;
  return KvBlocks::hash_of(s.prefix, tokens_of(s, s.published)) | 1;
}

void KvCache::publish(Sequence& s) {
  if (s.recurrent.before != StateSlots::none) return;  // it may have to go back
  if (!shares(s)) return slide_window(s);
  for (; (s.published + 1) * block_tokens_ <= s.computed; ++s.published) {
    uint32_t& own = s.blocks[s.published];
    const auto [block, prefix] = blocks_.publish(own, s.prefix, tokens_of(s, s.published));
    if (block != own) {
      blocks_.hold(block);
      blocks_.drop(own);
      own = block;
    } else if (beyond_.store) {
      texts_[block] = text_of(s, s.published);
      unsaved_.emplace_back(block, texts_[block]);
      if (unsaved_.size() > blocks_.count()) unsaved_.pop_front();
    }
    if (has_windows()) publish_window(s, s.published);
    s.prefix = prefix;
  }
  slide_window(s);
  keep_snapshots(s);
}

bool KvCache::fork(const Sequence& from, Sequence& to, Copies& copies) {
  const uint32_t whole = from.computed / block_tokens_;
  copies = {};
  if (has_states() && slots_.free() == 0) return false;
  if (whole * block_tokens_ < from.computed) {
    if (has_windows() && windows_.free() == 0) return false;
    const auto block = blocks_.allocate();
    if (!block) return false;
    copies.block = {from.blocks[whole], *block};
    if (has_windows()) copies.window = {from.windows[whole], *windows_.allocate()};
  }
  to.blocks.assign(from.blocks.begin(), from.blocks.begin() + whole);
  for (const uint32_t block : to.blocks) blocks_.hold(block);
  if (copies.block) to.blocks.push_back(copies.block->to);
  if (has_windows()) {
    to.windows.assign(from.windows.begin(), from.windows.begin() + whole);
    for (const uint32_t block : to.windows)
      if (block != WindowBlocks::none) windows_.hold(block);
    if (copies.window) to.windows.push_back(copies.window->to);
    to.first_window = from.first_window;
  }
  to.computed = from.computed;
  to.published = from.published;
  to.prefix = from.prefix;
  to.parting = from.parting;
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
  if (has_windows()) check_windows(all);
  if (has_states()) check_slots(all);
  if (beyond_.store) check_texts(all);
}

}  // namespace heddle::engine
