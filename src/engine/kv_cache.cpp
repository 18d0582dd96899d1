// Of a block table, the first `published` blocks can be found by others. Blocks up to `computed` may be shared; those
// after it belong to one sequence, which writes to them.
#include "engine/kv_cache.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::engine {
namespace {

constexpr uint32_t min_beginning = 4;  // a quarter of a block: less takes about as long to copy as to compute

}  // namespace

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
  publish_last(s);
  for (; !s.blocks.empty(); s.blocks.pop_back()) blocks_.drop(s.blocks.back());
  s.computed = 0;
  s.published = 0;
  s.prefix = KvBlocks::empty_prefix;
  if (s.generated == 0) s.cached_tokens = 0;
}

// The last block that it computed, if that is not whole: others may copy its beginning.
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
}

bool KvCache::can_reuse_next(const Sequence& s) const {
  return shares(s) && s.computed == s.published * block_tokens_ && s.computed + block_tokens_ <= s.next_wanted();
}

void KvCache::reuse_blocks(Sequence& s) {
  while (can_reuse_next(s)) {
    const auto found = blocks_.find(s.prefix, tokens_of(s, s.published));
    if (!found) return;
    blocks_.hold(found->block);
    if (s.published < s.blocks.size()) {  // it had allocated one
      blocks_.drop(s.blocks[s.published]);
      s.blocks[s.published] = found->block;
    } else {
      s.blocks.push_back(found->block);
    }
    s.prefix = found->prefix;
    ++s.published;
    s.computed += block_tokens_;
    if (s.generated == 0) s.cached_tokens += block_tokens_;
  }
}

void KvCache::reuse_beginning(Sequence& s) {
  if (!shares(s) || s.computed != s.published * block_tokens_ || s.computed >= s.next_wanted()) return;
  const uint32_t wanted = std::min(s.next_wanted() - s.computed, block_tokens_);
  const auto found = blocks_.find_beginning(s.prefix, std::span(s.tokens).subspan(s.computed, wanted));
  if (!found || found->tokens * min_beginning < block_tokens_) return;
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
  if (!shares(s)) return;
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
}

bool KvCache::fork(const Sequence& from, Sequence& to, std::optional<Copy>& copy) {
  const uint32_t whole = from.computed / block_tokens_;
  copy.reset();
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
  return true;
}

void KvCache::check_holders(std::span<const Sequence* const> all) const {
  std::vector<uint32_t> holders(blocks_.count());
  for (const Sequence* s : all) {
    for (const uint32_t block : s->blocks) ++holders.at(block);
    check(s->computed <= capacity(*s) && s->published * block_tokens_ <= s->computed, "what is computed has a block");
    for (size_t i = s->computed / block_tokens_; i < s->blocks.size(); ++i)
      check(blocks_.holders(s->blocks[i]) == 1 && !blocks_.findable(s->blocks[i]),
            "a block that is written to has one holder, and cannot be found");
  }
  blocks_.check_holders(holders);
}

}  // namespace heddle::engine
