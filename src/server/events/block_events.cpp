#include "server/events/block_events.h"

#include <openssl/sha.h>

#include <cstring>
#include <utility>

namespace heddle::server {
namespace {

constexpr uint64_t text_start = 0;

}  // namespace

// The highest bit is set, so that every reader gets an unsigned number of 64 bits.
uint64_t block_hash(std::optional<uint64_t> before, std::span<const uint32_t> tokens) {
  std::vector<uint8_t> bytes(8 + tokens.size_bytes());
  const uint64_t start = before.value_or(0);
  std::memcpy(bytes.data(), &start, 8);
  if (!tokens.empty()) std::memcpy(bytes.data() + 8, tokens.data(), tokens.size_bytes());
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA256(bytes.data(), bytes.size(), digest);
  uint64_t hash;
  std::memcpy(&hash, digest, 8);
  return hash | uint64_t(1) << 63;
}

void BlockChanges::stored(uint64_t block, uint64_t before, std::span<const uint32_t> tokens) {
  add({Kind::stored, block, before, uint32_t(tokens.size())}, tokens);
}
void BlockChanges::removed(uint64_t block) { add({Kind::removed, block}); }
void BlockChanges::cleared() { add({Kind::cleared}); }

void BlockChanges::add(const Change& change, std::span<const uint32_t> tokens) {
  const std::lock_guard lock(mutex_);
  if (waiting_.changes.size() >= capacity_)
    waiting_ = {.changes = {{Kind::cleared}}, .tokens = {}, .lost = waiting_.lost + waiting_.changes.size()};
  waiting_.changes.push_back(change);
  waiting_.tokens.insert(waiting_.tokens.end(), tokens.begin(), tokens.end());
}

BlockChanges::Taken BlockChanges::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

std::vector<BlockEvent> BlockIndex::apply(const BlockChanges::Taken& taken) {
  std::vector<BlockEvent> events;
  std::span<const uint32_t> tokens = taken.tokens;
  for (const BlockChanges::Change& change : taken.changes) {
    if (change.kind == BlockChanges::Kind::cleared) {
      announced_.clear();
      events.assign(1, AllBlocksCleared{});
    } else if (change.kind == BlockChanges::Kind::removed) {
      remove(change.block, events);
    } else {
      add(change, tokens.first(change.tokens), events);
      tokens = tokens.subspan(change.tokens);
    }
  }
  return events;
}

void BlockIndex::add(const BlockChanges::Change& change, std::span<const uint32_t> tokens,
                     std::vector<BlockEvent>& events) {
  std::optional<uint64_t> before;
  if (change.before != text_start) {
    const auto found = announced_.find(change.before);
    if (found == announced_.end()) return;
    before = found->second.hash;
    found->second.next.insert(change.block);
  }
  const uint64_t hash = block_hash(before, tokens);
  announced_[change.block] = {hash, change.before, {}};
  auto* event = events.empty() ? nullptr : std::get_if<BlocksStored>(&events.back());
  if (!event || change.before != last_)
    event = &std::get<BlocksStored>(events.emplace_back(BlocksStored{{}, before, {}}));
  event->hashes.push_back(hash);
  event->tokens.insert(event->tokens.end(), tokens.begin(), tokens.end());
  last_ = change.block;
}

void BlockIndex::remove(uint64_t block, std::vector<BlockEvent>& events) {
  std::vector<uint64_t> going;
  const auto drop = [&](uint64_t one) {
    const auto found = announced_.find(one);
    if (found == announced_.end()) return;
    if (const auto before = announced_.find(found->second.before); before != announced_.end())
      before->second.next.erase(one);
    going.insert(going.end(), found->second.next.begin(), found->second.next.end());
    if (events.empty() || !std::holds_alternative<BlocksRemoved>(events.back())) events.emplace_back(BlocksRemoved{});
    std::get<BlocksRemoved>(events.back()).hashes.push_back(found->second.hash);
    announced_.erase(found);
  };
  drop(block);
  while (!going.empty()) {
    const uint64_t next = going.back();
    going.pop_back();
    drop(next);
  }
}

}  // namespace heddle::server
