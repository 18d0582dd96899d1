// Blocks before `linked` can be found, those before `computed` may be shared; what comes after belongs to one alone.
#include "engine/cache.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::engine {
namespace {

constexpr uint32_t least_part = 4;  // a quarter of a block: less takes about as long to copy as to compute

}  // namespace

bool Cache::grow(Sequence& s, uint32_t tokens) {
  while (room(s) < tokens) {
    const auto block = blocks_.take();
    if (!block) return false;
    s.blocks.push_back(*block);
  }
  return true;
}

void Cache::trim(Sequence& s) {
  for (const uint32_t needed = blocks_for(s.known()); s.blocks.size() > needed; s.blocks.pop_back())
    blocks_.drop(s.blocks.back());
}

void Cache::release(Sequence& s) {
  leave_part(s);
  for (; !s.blocks.empty(); s.blocks.pop_back()) blocks_.drop(s.blocks.back());
  s.computed = s.linked = 0;
  s.link = Blocks::beginning;
  if (s.generated == 0) s.cached_tokens = 0;
}

// The last block that it computed, where that is not whole: others may copy it.
void Cache::leave_part(Sequence& s) {
  if (s.blocks.size() <= s.linked) return;
  const uint32_t own = s.blocks[s.linked];
  if (std::erase_if(copies_, [&](const Copy& copy) { return copy.to == own; }) > 0) return;  // there is nothing in it
  if (!shares(s) || s.computed / block_tokens_ != s.linked) return;
  blocks_.publish_part(own, s.link, std::span(s.tokens).subspan(s.linked * block_tokens_, s.computed % block_tokens_));
}

void Cache::forget(Sequence& s) {
  for (const uint32_t block : s.blocks) blocks_.forget(block);
  s.computed = s.linked * block_tokens_;
}

bool Cache::could_adopt_next(const Sequence& s) const {
  return shares(s) && s.computed == s.linked * block_tokens_ && s.computed + block_tokens_ <= s.next_wanted();
}

void Cache::adopt(Sequence& s) {
  while (could_adopt_next(s)) {
    const auto found = blocks_.find(s.link, tokens_of(s, s.linked));
    if (!found) return;
    blocks_.hold(found->block);
    if (s.linked < s.blocks.size()) {  // it had one ready
      blocks_.drop(s.blocks[s.linked]);
      s.blocks[s.linked] = found->block;
    } else {
      s.blocks.push_back(found->block);
    }
    s.link = found->link;
    ++s.linked;
    s.computed += block_tokens_;
    if (s.generated == 0) s.cached_tokens += block_tokens_;
  }
}

void Cache::adopt_part(Sequence& s) {
  if (!shares(s) || s.computed != s.linked * block_tokens_ || s.computed >= s.next_wanted()) return;
  const uint32_t wanted = std::min(s.next_wanted() - s.computed, block_tokens_);
  const auto found = blocks_.find_part(s.link, std::span(s.tokens).subspan(s.computed, wanted));
  if (!found || found->tokens * least_part < block_tokens_) return;
  if (s.linked == s.blocks.size()) {
    blocks_.hold(found->block);  // so that it is not the one taken
    const bool room = grow(s, s.computed + 1);
    blocks_.drop(found->block);
    if (!room) return;
  }
  copies_.push_back({found->block, s.blocks[s.linked]});
  s.computed += found->tokens;
  if (s.generated == 0) s.cached_tokens += found->tokens;
}

uint64_t Cache::next_block(const Sequence& s) const {
  if (!shares(s) || (s.linked + 1) * block_tokens_ > s.known()) return 0;
  return Blocks::hash_of(s.link, tokens_of(s, s.linked)) | 1;
}

void Cache::publish(Sequence& s) {
  if (!shares(s)) return;
  for (; (s.linked + 1) * block_tokens_ <= s.computed; ++s.linked) {
    uint32_t& own = s.blocks[s.linked];
    const auto [block, link] = blocks_.publish(own, s.link, tokens_of(s, s.linked));
    if (block != own) {
      blocks_.hold(block);
      blocks_.drop(own);
      own = block;
    }
    s.link = link;
  }
}

bool Cache::fork(const Sequence& from, Sequence& to, std::optional<Copy>& copied) {
  const uint32_t whole = from.computed / block_tokens_;
  copied.reset();
  if (whole * block_tokens_ < from.computed) {
    const auto block = blocks_.take();
    if (!block) return false;
    copied = {from.blocks[whole], *block};
  }
  to.blocks.assign(from.blocks.begin(), from.blocks.begin() + whole);
  for (const uint32_t block : to.blocks) blocks_.hold(block);
  if (copied) to.blocks.push_back(copied->to);
  to.computed = from.computed;
  to.linked = from.linked;
  to.link = from.link;
  return true;
}

void Cache::check_holders(std::span<const Sequence* const> all) const {
  std::vector<uint32_t> holders(blocks_.all());
  for (const Sequence* s : all) {
    for (const uint32_t block : s->blocks) ++holders.at(block);
    check(s->computed <= room(*s) && s->linked * block_tokens_ <= s->computed, "what is computed is somewhere");
    for (size_t i = s->computed / block_tokens_; i < s->blocks.size(); ++i)
      check(blocks_.holders(s->blocks[i]) == 1 && !blocks_.findable(s->blocks[i]), "who writes to a block is alone");
  }
  blocks_.check_holders(holders);
}

}  // namespace heddle::engine
