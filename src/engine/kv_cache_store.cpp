// The KV cache and a store beyond it: what is evicted goes there, and a sequence that is admitted gets back what it can
// begin with.
//
// Evicted places are read before the next batch, and before copies are made: until then they have what they had. A
// place that is evicted before its bytes were written has them still waiting.
#include <algorithm>

#include "base/error.h"
#include "engine/kv_cache.h"
#include "engine/sequence.h"

namespace heddle::engine {

using model::KvPart;

const TextHash& KvCache::text_of(const Sequence& s, uint32_t block) const {
  std::vector<TextHash>& texts = s.texts;
  if (s.long_texts != s.long_text) texts.clear();
  s.long_texts = s.long_text;
  if (texts.empty()) texts.push_back(s.long_text ? beyond_.long_root : beyond_.root);
  while (texts.size() < block + 2) texts.push_back(texts.back().with(tokens_of(s, uint32_t(texts.size()) - 1)));
  return texts[block + 1];
}

void KvCache::watch_evictions() {
  texts_.resize(blocks_.count());
  blocks_.on_evict([this](uint32_t block) {
    if (!blocks_.whole(block)) return;
    add_evicted({KvPart::block, block}, texts_[block]);
    const uint32_t window = has_windows() ? windows_.of(block) : WindowBlocks::none;
    if (window != WindowBlocks::none && windows_.worth_keeping(window))
      add_evicted({KvPart::window, window}, texts_[block]);
    const uint32_t slot = has_states() ? slots_.find(blocks_.prefix_of(block)) : StateSlots::none;
    if (slot != StateSlots::none) add_evicted({KvPart::state, slot}, texts_[block]);
  });
  windows_.on_evict([this](uint32_t window, uint32_t block) {
    if (blocks_.whole(block) && windows_.worth_keeping(window)) add_evicted({KvPart::window, window}, texts_[block]);
  });
  slots_.on_evict([this](uint32_t slot, const TextHash& text) { add_evicted({KvPart::state, slot}, text); });
}

void KvCache::add_evicted(model::KvPlace place, const TextHash& text) {
  const KvKey key{place.part, text};
  if (beyond_.is_empty(place.part)) return;
  if (beyond_.store->find(key)) return;  // it has been used
  if (place.part != KvPart::state) {
    const std::deque<Copy>& copies = place.part == KvPart::window ? window_copies_ : copies_;
    const auto waiting = std::find_if(copies.rbegin(), copies.rend(),
                                      [&](const Copy& copy) { return copy.to == place.index && copy.bytes; });
    if (waiting != copies.rend()) return beyond_.store->keep(key, waiting->bytes);
  }
  evicted_.push_back({place, key});
}

std::vector<KvCache::Kept> KvCache::next_unsaved(size_t count) {
  std::vector<Kept> next;
  if (!beyond_.store) return next;
  const auto add = [&](model::KvPlace place, const TextHash& text) {
    if (!beyond_.is_empty(place.part) && beyond_.store->where({place.part, text}) == KvStore::Where::nowhere)
      next.push_back({place, {place.part, text}});
  };
  for (; !unsaved_.empty() && next.size() < count; unsaved_.pop_front()) {
    const auto& [block, text] = unsaved_.front();
    if (!blocks_.whole(block) || texts_[block] != text) continue;  // it was evicted
    add({KvPart::block, block}, text);
    const uint32_t window = has_windows() ? windows_.of(block) : WindowBlocks::none;
    if (window != WindowBlocks::none && windows_.worth_keeping(window)) add({KvPart::window, window}, text);
    const uint32_t slot = has_states() ? slots_.find(blocks_.prefix_of(block)) : StateSlots::none;
    if (slot != StateSlots::none) add({KvPart::state, slot}, text);
  }
  return next;
}

// How far a sequence that holds whole blocks only can go on, with blocks of the cache and with bytes of the store.
KvCache::Reach KvCache::reach_of(const Sequence& s, bool anywhere) const {
  Reach reach{.blocks = s.published};
  KvStore& store = *beyond_.store;
  const auto has = [&](KvPart part, uint32_t block, KvBytes& bytes) {
    const KvKey key{part, text_of(s, block)};
    if (beyond_.is_empty(part)) return true;
    if (!anywhere) return bool(bytes = store.find(key));
    return store.where(key) != KvStore::Where::nowhere;
  };
  KvBlocks::Prefix prefix = s.prefix;
  bool in_cache = true;                                                    // the block before
  uint32_t windows = s.published - std::min(s.published, s.first_window);  // contiguous ones before the next block
  KvBytes state;
  for (uint32_t block = s.published; (block + 1) * block_tokens_ <= s.next_wanted(); ++block) {
    Reach::Next next;
    state = {};
    if (in_cache) next.found = blocks_.find(prefix, tokens_of(s, block));
    if (!next.found && !has(KvPart::block, block, next.block)) break;
    in_cache = next.found.has_value();
    if (in_cache) prefix = next.found->prefix;
    if (has_windows()) {
      const bool there = next.found && windows_.of(next.found->block) != WindowBlocks::none;
      windows = there || has(KvPart::window, block, next.window) ? windows + 1 : 0;
    }
    reach.next.push_back(std::move(next));
    const uint32_t end = (block + 1) * block_tokens_;
    if (has_states() && !(in_cache && slots_.find(prefix) != StateSlots::none) && !has(KvPart::state, block, state))
      continue;
    if (has_windows() && windows < block + 1 - first_block_seen(end)) continue;
    reach.blocks = block + 1;
    reach.state = std::exchange(state, {});
  }
  reach.next.resize(reach.blocks - s.published);
  return reach;
}

std::vector<KvKey> KvCache::wanted_elsewhere(const Sequence& s) const {
  std::vector<KvKey> keys;
  if (!beyond_.store || !shares(s)) return keys;
  const Reach reach = reach_of(s, true);
  const auto add = [&](KvPart part, uint32_t block) {
    const KvKey key{part, text_of(s, block)};
    if (beyond_.store->where(key) == KvStore::Where::elsewhere) keys.push_back(key);
  };
  const uint32_t first_seen = has_windows() ? first_block_seen(reach.blocks * block_tokens_) : 0;
  for (uint32_t block = s.published; block < reach.blocks; ++block) {
    const auto& found = reach.next[block - s.published].found;
    if (!found) add(KvPart::block, block);
    if (has_windows() && block >= first_seen && !(found && windows_.of(found->block) != WindowBlocks::none))
      add(KvPart::window, block);
  }
  if (has_states() && reach.blocks > s.published) {
    const auto& found = reach.next.back().found;
    if (!found || slots_.find(found->prefix) == StateSlots::none) add(KvPart::state, reach.blocks - 1);
  }
  return keys;
}

std::vector<KvKey> KvCache::wanted_of_prompt(const Sequence& s) const {
  std::vector<KvKey> keys;
  if (!beyond_.store || !shares(s)) return keys;
  const uint32_t count = s.next_wanted() / block_tokens_;
  const uint32_t first_seen = has_windows() ? first_block_seen(count * block_tokens_) : 0;
  const auto add = [&](KvPart part, uint32_t block) {
    const KvKey key{part, text_of(s, block)};
    if (!beyond_.is_empty(part) && beyond_.store->where(key) != KvStore::Where::memory) keys.push_back(key);
  };
  KvBlocks::Prefix prefix = s.prefix;
  bool in_cache = true;
  for (uint32_t block = s.published; block < count; ++block) {
    const auto found = in_cache ? blocks_.find(prefix, tokens_of(s, block)) : std::nullopt;
    in_cache = found.has_value();
    if (found) prefix = found->prefix;
    if (!found) add(KvPart::block, block);
    if (has_windows() && (block >= first_seen || has_states())) add(KvPart::window, block);
    if (has_states()) add(KvPart::state, block);  // the other has few, and it is not known where
  }
  return keys;
}

std::vector<KvCache::Kept> KvCache::kept_of_prompt(const Sequence& s) const {
  std::vector<Kept> kept;
  const uint32_t last = s.task.prompt_tokens() - 1;  // is computed by the other, for its logits
  const uint32_t count = std::min(s.published, last / block_tokens_);
  const auto slot_after = [&](uint32_t block) {
    return has_states() ? slots_.find(blocks_.prefix_of(s.blocks[block])) : StateSlots::none;
  };
  uint32_t end = count;  // where the other can begin
  while (has_states() && end > 0 && slot_after(end - 1) == StateSlots::none) --end;
  const uint32_t first_seen = has_windows() ? first_block_seen(end * block_tokens_) : 0;
  for (uint32_t block = 0; block < end; ++block) {
    const TextHash& text = text_of(s, block);
    const auto add = [&](KvPart part, uint32_t index) { kept.push_back({{part, index}, {part, text}}); };
    if (!beyond_.no_blocks) add(KvPart::block, s.blocks[block]);
    const uint32_t window = has_windows() ? windows_.of(s.blocks[block]) : WindowBlocks::none;
    if (block >= first_seen && window != WindowBlocks::none) add(KvPart::window, window);
  }
  if (has_states() && end > 0)
    kept.push_back({{KvPart::state, slot_after(end - 1)}, {KvPart::state, text_of(s, end - 1)}});
  return kept;
}

// Whether there are windows for what a sequence sees where this reach ends. Admission counts on those that the sequence
// gives back on its way, but another one may hold them too.
bool KvCache::has_windows_for(const Sequence& s, const Reach& reach) const {
  if (!has_windows()) return true;
  const uint32_t first_seen = first_block_seen(reach.blocks * block_tokens_);
  uint32_t needed = 0, free = windows_.free();
  for (uint32_t block = std::max(s.published, first_seen); block < reach.blocks; ++block) {
    const auto& found = reach.next[block - s.published].found;
    const uint32_t window = found ? windows_.of(found->block) : WindowBlocks::none;
    needed += window == WindowBlocks::none || windows_.holders(window) == 0;
  }
  for (uint32_t block = s.first_window; block < std::min<size_t>(first_seen, s.windows.size()); ++block)
    free += s.windows[block] != WindowBlocks::none && windows_.holders(s.windows[block]) == 1;
  return needed <= free;
}

void KvCache::restore(Sequence& s) {
  if (!beyond_.store || !shares(s)) return;
  check(s.computed == s.published * block_tokens_ && s.blocks.size() == s.published, "whole blocks, and no others");
  Reach reach = reach_of(s, false);
  if (reach.blocks <= s.published || !has_windows_for(s, reach)) return;
  const uint32_t end = reach.blocks * block_tokens_, first_seen = has_windows() ? first_block_seen(end) : 0;
  const auto window_of = [&](const KvBlocks::Found& found) { return windows_.of(found.block); };
  uint32_t number = s.published;
  for (const Reach::Next& next : reach.next) {  // what it shares is held before anything is evicted
    const bool seen = has_windows() && number++ >= first_seen;
    if (!next.found) continue;
    blocks_.hold(next.found->block);
    if (seen && window_of(*next.found) != WindowBlocks::none) windows_.hold(window_of(*next.found));
  }
  if (s.generated == 0) s.cached_tokens += end - s.computed;
  s.computed = s.recurrent.last = end;
  s.parting = std::max(s.parting, end);
  slide_window(s);  // those of its own that it will not see: there is room for what it sees, and no more
  for (Reach::Next& next : reach.next) {
    if (!next.found) {
      const auto block = blocks_.allocate();
      check(block.has_value(), "a block for each that is restored");
      if (next.block) copies_.push_back({.to = *block, .bytes = next.block});
      next.found = blocks_.publish(*block, s.prefix, tokens_of(s, s.published));
      check(next.found->block == *block, "a text that the cache does not have");
      texts_[*block] = text_of(s, s.published);
      ++restored_;
    }
    if (has_windows()) s.windows.push_back(s.published < first_seen ? WindowBlocks::none : seen_window(next));
    s.blocks.push_back(next.found->block);
    s.prefix = next.found->prefix;
    ++s.published;
  }
  slide_window(s);
  s.recurrent.restored = std::move(reach.state);
}

// That of the cache, which is held, or one with the bytes of the store.
uint32_t KvCache::seen_window(const Reach::Next& next) {
  if (const uint32_t window = windows_.of(next.found->block); window != WindowBlocks::none) return window;
  const auto window = windows_.allocate();
  check(window.has_value(), "a block of windows for each that is restored");
  window_copies_.push_back({.to = *window, .bytes = next.window});
  windows_.put_beside(next.found->block, *window);
  ++restored_;
  return *window;
}

void KvCache::check_texts(std::span<const Sequence* const> all) const {
  for (const Sequence* s : all)
    for (uint32_t i = 0; shares(*s) && i < s->published; ++i)
      check(texts_[s->blocks[i]] == text_of(*s, i), "a block that is found has the text of its sequence");
}

}  // namespace heddle::engine
